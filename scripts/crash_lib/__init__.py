"""Killing a daemon under load, and proving that nothing was lost or doubled. See scripts/crash."""
