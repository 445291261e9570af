"""Tests of the command line: the pure parts in the process, the verbs against the real daemon."""
