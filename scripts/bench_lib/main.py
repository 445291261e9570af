"""The command: which cases run, how often, and where the results go."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from . import sending, serving, working
from .figures import Sample, keep, medians, table

RESULTS: Final = Path(__file__).parent.parent.parent / "bench-results"
CASES: Final[dict[str, Callable[[Path, float], Sample]]] = {
    "send": sending.send,
    "one": sending.one,
    "cycle": sending.cycle,
    "ping": serving.ping,
    "told": serving.told,
    "life": serving.life,
    "memory": serving.memory,
    "work": working.work,
    "sweep": working.sweep,
    "large": sending.large,
}
"""Each case by its name, in the order they run. A sample holds its floors, taken in the same repeat."""
SLOW: Final = frozenset({"large", "work", "sweep"})
"""Cases that make a large store first."""


def arguments(given: list[str] | None) -> argparse.Namespace:
    """What the person asks for."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measure the daemon beside the machine's floor.")
    parser.add_argument("--only", metavar="NAME", action="append", choices=CASES, help=f"one of {', '.join(CASES)}")
    parser.add_argument("--repeats", metavar="N", type=int, default=3, help="the table has medians over these (3)")
    parser.add_argument("--quick", action="store_true", help="one repeat of short runs, no large stores: a look")
    parser.add_argument("--large", action="store_true", help="also sends behind 300,000 messages (a minute per repeat)")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """Run the cases and print the table. Always 0: a figure that is missed is said, not asserted."""
    asked = arguments(given)
    left_out = SLOW if asked.quick else {"large"}
    names = asked.only or [name for name in CASES if name not in left_out or (name == "large" and asked.large)]
    repeats, seconds = (1, 0.5) if asked.quick else (asked.repeats, 2.0)
    samples: dict[str, list[Sample]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="il-bench-") as folder:
        for n in range(repeats):
            for name in names:
                home = Path(folder) / f"{name}-{n}"
                home.mkdir()
                began = time.perf_counter()
                samples[name].append(CASES[name](home, seconds))
                took = time.perf_counter() - began
                print(f"bench: {name}, {n + 1} of {repeats}: {took:.1f} s", file=sys.stderr, flush=True)
    found = medians([sample for several in samples.values() for sample in several])
    print(table(found))
    print(f"\n{keep(RESULTS, found, samples)}")
    return 0
