"""The command line: every verb is one call to the daemon."""
