"""Starts the benchmark. See scripts/bench."""

from __future__ import annotations

import sys

from bench_lib.main import main

if __name__ == "__main__":
    sys.exit(main())
