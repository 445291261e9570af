"""The command: rounds of load, SIGKILL, restart and comparison."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from bench_lib.process import Daemon
from bench_lib.wire import Wire

from . import check, load, work, work_check
from .facts import ROLES, SENDER, Facts

LIFE: Final = 10
"""Rounds on one state directory: a crash must be survived after crashes, and checking must stay quick."""
LOADS: Final[dict[str, tuple[load.Client, ...]]] = {"mail": load.ALL, "work": work.ALL, "both": load.ALL + work.ALL}
BESIDE: Final = frozenset({load.sender, load.careless})
"""Clients that a stdio process is not given: it would be one more of them."""
REPORT: Final = 10
SHOWN: Final = 5


class Directory:
    """A state directory that lives through several rounds."""

    def __init__(self, home: Path, clients: tuple[load.Client, ...], rng: random.Random) -> None:
        home.mkdir()
        self.home = home
        self.facts = Facts()
        self._clients = clients
        self._rng = rng
        self._daemon = Daemon(home)
        self._daemon.ready()
        with Wire.connect(self._daemon.socket) as wire:
            wire.ask("ledger/role/sync", roles=[{"name": name, "max_sessions": 1000} for name in (*ROLES, SENDER)])

    def round(self) -> None:
        """Load, kill at a random moment, restart, compare."""
        rng, facts, daemon = self._rng, self.facts, self._daemon
        since, done = len(facts.sent), len(facts.work.all)
        with load.beside(self.home, rng.random() < 0.3) as second:
            threads = load.start(self._clients, lambda: Wire.connect(daemon.socket), facts, rng)
            if second is not None:
                client = rng.choice([client for client in self._clients if client not in BESIDE])
                threads += load.start((client,), second.connect, facts, rng)
                facts.count("rounds with a stdio process")
            time.sleep(rng.uniform(0.02, 0.4))
            daemon.kill()
            if second is not None:
                time.sleep(rng.uniform(0.0, 0.3))  # it may lead by now
                if rng.random() < 0.5:
                    second.end(facts)
        for thread in threads:
            thread.join(30)
        if any(thread.is_alive() for thread in threads):
            facts.violated("a client still waits for a daemon that was killed")
        self._daemon = Daemon(self.home)
        self._daemon.ready()
        check.retry(daemon.socket, facts, since, rng)
        work_check.retry(daemon.socket, facts, done, rng)
        check.store(self.home / "state" / "interlock.sqlite3", facts)

    def close(self) -> None:
        """Stop the daemon in order; it must end with 0."""
        self._daemon.stop()
        if self._daemon.process.returncode != 0:
            self.facts.violated(f"the daemon ended with {self._daemon.process.returncode}")


def arguments(given: list[str] | None) -> argparse.Namespace:
    """What the person asks for."""
    parser = argparse.ArgumentParser(prog="scripts/crash", description="Kill a daemon under load, again and again.")
    parser.add_argument("--rounds", metavar="N", type=int, default=100)
    parser.add_argument("--seed", metavar="N", type=int, default=None, help="the same clients and moments again, about")
    parser.add_argument("--load", choices=LOADS, default="both", help="what the clients do (both)")
    parser.add_argument("--seconds", metavar="N", type=float, default=3600, help="begin no round after so long (3600)")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> int:
    """0 when every promise held, 1 when one was broken."""
    asked = arguments(given)
    seed = random.SystemRandom().getrandbits(32) if asked.seed is None else asked.seed
    print(f"crash: {asked.rounds} rounds of {asked.load}, seed {seed}", flush=True)
    rng = random.Random(seed)  # noqa: S311 - to be done again
    total, violations, done = Counter[str](), list[str](), 0
    end = time.monotonic() + asked.seconds
    with tempfile.TemporaryDirectory(prefix="il-crash-") as folder:
        while done < asked.rounds and time.monotonic() < end:
            directory = Directory(Path(folder) / str(done), LOADS[asked.load], rng)
            try:
                for _ in range(min(LIFE, asked.rounds - done)):
                    directory.round()
                    done += 1
                    if done % REPORT == 0 or done == asked.rounds:
                        _report(done, total + directory.facts.counts, len(violations + directory.facts.violations))
            finally:
                directory.close()
            total += directory.facts.counts
            violations += directory.facts.violations
    return _summary(done, total, violations)


def _report(done: int, counts: Counter[str], violations: int) -> None:
    names = ("sends acknowledged", "messages settled", "deeds acknowledged")
    said = ", ".join(f"{counts[name]:,} {name}" for name in names if name in counts)
    print(f"crash: {done:5} rounds, {said}, {violations} violations", flush=True)


def _summary(done: int, total: Counter[str], violations: list[str]) -> int:
    print(f"\n{done} rounds of kill -9 under load")
    for name, n in sorted(total.items()):
        print(f"  {n:10,} {name}")
    for violation in violations[:SHOWN]:
        print(f"VIOLATION: {violation}", file=sys.stderr)
    print(f"  {len(violations):10,} violations: acknowledged and lost, doubled, or told otherwise")
    return 1 if violations else 0
