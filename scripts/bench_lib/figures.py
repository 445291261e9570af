"""The figures: their units, bars and aims (DESIGN 9), and how a run of them is shown and kept."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import statistics
import time
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

Sample = dict[str, float]
"""What one repeat of a case measured, by figure."""


class Figure(NamedTuple):
    """One line of the table. Without a bar it is there to read the others by: a floor, or another view."""

    text: str
    unit: str
    better: Literal["more", "less"] = "more"
    bar: float | None = None
    aim: float | None = None


SIZES: Final = {1000: "1k", 10_000: "10k", 100_000: "100k"}
"""How many items, nine of ten terminal, and terminal bindings a store has; and the end of the figures' names."""


def _sized(name: str, text: str, *figure: Any) -> dict[str, Figure]:
    """The same figure at every size, one under the other: flat is what they are to be."""
    return {
        f"{name}_{end}": Figure(f"{text}, {size:,} items" if n == 0 else f"  {size:,} items", *figure)
        for n, (size, end) in enumerate(SIZES.items())
    }


def _timed(name: str, text: str, bar: float | None = None, aim: float | None = None) -> dict[str, Figure]:
    return {
        **_sized(f"{name}_p50", f"{text}: p50", "ms", "less"),
        **_sized(f"{name}_p99", f"{text}: p99", "ms", "less", bar, aim),
    }


FIGURES: Final[dict[str, Figure]] = {
    "fdatasync": Figure("floor: fdatasync of a page", "ms", "less"),
    "floor_1": Figure("floor: bare sqlite3, message + event + op rows, 1 per commit", "/s"),
    "floor_64": Figure("floor: the same, 64 per commit", "/s"),
    "floor_64_plain": Figure("floor: the same without op rows, 64 per commit", "/s"),
    "send": Figure("ledger/send, 64 in flight, op ids", "/s", "more", 8000, 20_000),
    "send_ratio": Figure("  of its floor", "x", "more", 0.25, 0.6),
    "send_p99": Figure("  p99", "ms", "less"),
    "send_cpu": Figure("  processor time of the daemon per send", "us", "less"),
    "send_plain": Figure("ledger/send, 64 in flight, no op ids", "/s", "more", 8000, 20_000),
    "send_plain_ratio": Figure("  of its floor", "x", "more", 0.25, 0.6),
    "send_tasks": Figure("ledger/send of tasks, 64 in flight, op ids", "/s", "more", 8000, 20_000),
    "floor_64_large": Figure("floor: 64 per commit behind 300,000 rows", "/s"),
    "send_large": Figure("ledger/send, 64 in flight, op ids, behind 300,000 rows", "/s", "more", 6000, 16_000),
    "send_large_ratio": Figure("  of its floor", "x"),
    "send_large_p99": Figure("  p99", "ms", "less"),
    "one_p50": Figure("ledger/send, one client, one at a time, p50", "ms", "less", 0.8, 0.4),
    "one_p99": Figure("  p99", "ms", "less", 4, 2),
    "one_ratio": Figure("  of its floor (1 per commit)", "x"),
    "floor_cycle": Figure("floor: bare sqlite3, the rows of whole cycles, 64 per commit", "/s"),
    "cycle": Figure("send, pull, ack: whole cycles, 64 connections", "/s", "more", 3000, 6000),
    "cycle_ratio": Figure("  of its floor", "x"),
    "cycle_p99": Figure("  p99 of a cycle", "ms", "less"),
    "echo_p50": Figure("floor: asyncio JSON echo, one at a time, p50", "ms", "less"),
    "echo_64": Figure("floor: asyncio JSON echo, 64 in flight", "/s"),
    "ping_p50": Figure("daemon/ping, one at a time, p50", "ms", "less", 0.15),
    "ping_64": Figure("daemon/ping, 64 in flight", "/s", "more", 15_000, 40_000),
    "ping_ratio": Figure("  of the echo", "x"),
    "told_p50": Figure("request to event at a subscriber (commit included), p50", "ms", "less"),
    "told_p99": Figure("  p99", "ms", "less", 5),
    "start": Figure("process start to ready", "ms", "less", 400),
    "python": Figure("floor: python -c pass", "ms", "less"),
    "cli": Figure("interlock call daemon/ping", "ms", "less", 250),
    "cli_module": Figure("python -m interlock.daemon.cli call daemon/ping", "ms", "less", 250),
    "stop": Figure("end of input to end of a stdio process", "ms", "less", 2000),
    "idle_pss": Figure("memory, idle, PSS", "MiB", "less", 60),
    "idle_rss": Figure("memory, idle, RSS", "MiB", "less", 60),
    "queued_pss": Figure("memory, 10,000 queued messages, PSS", "MiB", "less", 120),
    "queued_rss": Figure("memory, 10,000 queued messages, RSS", "MiB", "less", 120),
    "stalled_growth": Figure("memory that 10 stalled subscribers add over 20,000 sends, PSS", "MiB", "less", 30),
    **_timed("ready_100", "workgraph/ready, page of 100", 5, 2),
    **_timed("ready_10", "workgraph/ready, page of 10", 5, 2),
    **_timed("ready_label", "workgraph/ready, 10 of one label", 5, 2),
    **_timed("list", "workgraph/list, page of 100", 5, 2),
    **_timed("occupying", "attention/list, occupying, page of 100", 5),
    **_timed("target", "attention/list, the history of a target, page of 10", 5),
    **_timed("occupant", "attention/list, who occupies a target", 5),
    **_timed("admit", "workgraph/goal/create under the gate", 5),
    **_timed("update", "workgraph/update", 5),
    **_sized("floor_claim", "floor: bare sqlite3, find, take and tell, 32 per commit", "/s"),
    **_sized("claim", "workgraph/claim_next, 32 connections racing", "/s", "more", 1500, 4000),
    **_sized("claim_ratio", "  of its floor", "x"),
    **_sized("claim_p99", "  p99", "ms", "less"),
    "sweep": Figure("1,000 of 101,000 leases end: from that instant to the last release", "ms", "less", 1000),
    "sweep_work": Figure("  from the first release to the last", "ms", "less"),
    "unswept_max": Figure("  longest workgraph/update before", "ms", "less"),
    "sweep_p50": Figure("  workgraph/update beside it, p50", "ms", "less"),
    "sweep_max": Figure("  longest workgraph/update beside it", "ms", "less", 20),
}
"""Every figure, in the order of the table. DESIGN's "flat" for stalled subscribers is here what they are allowed:
each 1 MiB of output, as much again in its queue, and the page that waits for room."""


def medians(samples: list[Sample]) -> Sample:
    """The median of each figure over the repeats."""
    names = {name for sample in samples for name in sample}
    return {name: statistics.median(s[name] for s in samples if name in s) for name in names}


def verdict(figure: Figure, value: float) -> str:
    """Whether the bar and the aim are reached; empty where there is none."""
    words = []
    for word, limit in (("bar", figure.bar), ("aim", figure.aim)):
        if limit is not None:
            reached = value >= limit if figure.better == "more" else value <= limit
            words.append(f"{word} {'reached' if reached else 'MISSED'}")
    return ", ".join(words)


def number(value: float | None) -> str:
    """A number with three digits that say something, or nothing."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(found: Sample) -> str:
    """The figures as lines for a person."""
    lines = [f"{'':66} {'value':>10} {'unit':5} {'bar':>8} {'aim':>8}"]
    for name, figure in FIGURES.items():
        if name in found:
            limits = f"{number(figure.bar):>8} {number(figure.aim):>8}"
            value = f"{number(found[name]):>10} {figure.unit:5}"
            lines.append(f"{figure.text:66} {value} {limits}  {verdict(figure, found[name])}".rstrip())
    return "\n".join(lines)


def keep(folder: Path, found: Sample, samples: dict[str, list[Sample]]) -> Path:
    """Write the run as JSON; where it is."""
    folder.mkdir(exist_ok=True)
    path = folder / time.strftime("bench-%Y%m%d-%H%M%S.json", time.gmtime())
    machine = {
        "processors": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "load": os.getloadavg()[0],
    }
    described = {
        name: {**FIGURES[name]._asdict(), "value": found[name], "verdict": verdict(FIGURES[name], found[name])}
        for name in FIGURES
        if name in found
    }
    run = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "machine": machine}
    path.write_text(json.dumps({**run, "figures": described, "samples": samples}, indent=1) + "\n", "utf-8")
    return path
