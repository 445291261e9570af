"""Tests with clients that nobody here wrote. They need programs beyond Python: see .ci/run."""
