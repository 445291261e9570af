"""Defects that were found in review, each kept away by a test that failed before."""
