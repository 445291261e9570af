"""The tests mirror the folders; `e2e` and `clients` drive the real process."""
