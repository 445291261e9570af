"""Starts the rounds of kill -9. See scripts/crash."""

from __future__ import annotations

import sys

from crash_lib.main import main

if __name__ == "__main__":
    sys.exit(main())
