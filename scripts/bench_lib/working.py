"""Cases about the work graph: the same questions to stores of three sizes, racing claims, what a sweep costs others."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from interlock.lifecycle.times import parse_rfc3339, rfc3339
from interlock.stores.health import STORE

from . import floors, seeding
from .figures import SIZES, Sample
from .process import Daemon, running
from .rows import now_ms
from .wire import Wire, WireError, act, call, pump

RACERS: Final = 32
BATCH: Final = 50
DUE: Final = 1000
SWEPT: Final = 100_000
PAGE_MS: Final = 50
"""How much later than its instant the last page of a sweep may still be under way."""
NEW: Final = {"title": "Look at the plan again", "labels": ["label-1"]}


class Reading(NamedTuple):
    """A page that is asked for again and again."""

    name: str
    method: str
    params: dict[str, Any]


READINGS: Final = (
    Reading("ready_100", "workgraph/ready", {}),
    Reading("ready_10", "workgraph/ready", {"limit": 10}),
    Reading("ready_label", "workgraph/ready", {"limit": 10, "labels": ["label-0"]}),
    Reading("list", "workgraph/list", {}),
    Reading("occupying", "workgraph/attention/list", {"status": "occupying"}),
    Reading("target", "workgraph/attention/list", {"target": seeding.target(1), "limit": 10}),
    Reading("occupant", "workgraph/attention/list", {"target": seeding.target(0), "status": "occupying"}),
)


def work(home: Path, seconds: float) -> Sample:
    """Every size in turn: reads, an update, an admission, each one at a time; then the race for what is ready."""
    found: Sample = {}
    for size, name in SIZES.items():
        found |= {f"{figure}_{name}": value for figure, value in _of_size(home / name, size, seconds).items()}
    return found


def _of_size(home: Path, size: int, seconds: float) -> Sample:
    race = int(2000 * seconds)
    _copied(home, f"work-{size}", lambda store: seeding.history(store, size))
    floor = floors.claims_per_second(home / "state" / STORE, home, RACERS, race)
    with running(home) as daemon, Wire.connect(daemon.socket) as wire:
        found: Sample = {}
        for reading in READINGS:
            found |= _percentiles(reading.name, _asked(wire, reading, seconds / 2))
        found |= _percentiles("update", list(_updates(wire, seconds / 2)))
        found |= _percentiles("admit", list(_admissions(wire, seconds / 2)))
        _make_ready(wire, race)
        rate, lat = _race(daemon, race)
    shutil.rmtree(home)
    claims = {"floor_claim": floor, "claim": rate, "claim_ratio": rate / floor}
    return {**found, **claims, "claim_p99": floors.quantile(lat, 0.99) * 1000}


def _copied(home: Path, name: str, fill: Callable[[seeding.Store], object]) -> None:
    """A copy of a state directory that is made once for all repeats."""
    made = home.parent.parent / name
    if not made.exists():
        seeding.seeded(made, fill)
    shutil.copytree(made, home, ignore=shutil.ignore_patterns("*.sock"))


def _percentiles(name: str, lat: list[float]) -> Sample:
    return {f"{name}_p50": floors.quantile(lat, 0.5) * 1000, f"{name}_p99": floors.quantile(lat, 0.99) * 1000}


def _asked(wire: Wire, reading: Reading, seconds: float) -> list[float]:
    """Seconds of each answer, one at a time, after a few that fill the caches."""
    frames = [call(reading.method, n, reading.params) for n in range(int(5000 * seconds))]
    pump(wire, frames[:50], 1, 5)
    return pump(wire, frames, 1, seconds)


def _timed(wire: Wire, method: str, params: dict[str, Any]) -> tuple[float, Any]:
    """Seconds from sending to the answer's last byte, and its result. Raises WireError."""
    request = call(method, 0, params)
    started = time.perf_counter()
    wire.sock.sendall(request)
    line = next(wire.lines())
    took = time.perf_counter() - started
    answer = msgspec.json.decode(line)
    if "error" in answer:
        raise WireError(f"{method}: {answer['error']}")
    return took, answer["result"]


def _updates(wire: Wire, seconds: float) -> Iterator[float]:
    """Seconds of each update of one item that has labels."""
    item = wire.ask("workgraph/create", **NEW)["item"]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        params = {"id": item["id"], "expected_revision": item["revision"]}
        took, result = _timed(wire, "workgraph/update", {**params, "title": f"{NEW['title']}, {item['revision']}"})
        item = result["item"]
        yield took


def _admissions(wire: Wire, seconds: float) -> Iterator[float]:
    """Seconds of each goal/create for a target with a long history that is free; its goal is closed again."""
    end = time.perf_counter() + seconds
    n = 0
    while time.perf_counter() < end:
        n += 1
        target = seeding.target((2 * n + 1) % seeding.HOT)
        took, goal = _timed(wire, "workgraph/goal/create", {**NEW, "target": target})
        closing = {"binding_id": goal["attention"]["binding_id"], "expected_revision": goal["item"]["revision"]}
        wire.ask("workgraph/goal/request_close", **closing)
        yield took


def _make_ready(wire: Wire, count: int) -> None:
    """`count` items more that are ready, in the scope of all the others."""
    for _ in range(0, count, BATCH):
        step = {"method": "workgraph/create", "params": {"title": "Win me once", "priority": "high"}}
        wire.ask("daemon/batch", steps=[step] * BATCH)


class _Racer:
    """Claims whatever is next until enough was won by all."""

    def __init__(self, number: int, wanted: int, won: list[tuple[str, float]]) -> None:
        owner = {"kind": "agent", "id": f"racer-{number}"}
        self.request = call("workgraph/claim_next", number, {"owner": owner})
        self._wanted = wanted
        self._won = won
        self._began = time.perf_counter()

    def step(self, line: bytes) -> bytes | None:
        """The next claim after this one."""
        now = time.perf_counter()
        item = msgspec.json.decode(line)["result"].get("item")
        if item is None:
            return None
        self._won.append((item["id"], now - self._began))
        self._began = now
        return self.request if len(self._won) < self._wanted else None


def _race(daemon: Daemon, count: int) -> tuple[float, list[float]]:
    """Claims per second of 32 connections, and their seconds. Raises WireError where an item was won twice."""
    won: list[tuple[str, float]] = []
    started = time.perf_counter()
    racers = [_Racer(n, count, won) for n in range(RACERS)]
    act(daemon.socket, [(racer.request, racer.step) for racer in racers])
    took = time.perf_counter() - started
    if len({item_id for item_id, _ in won}) != len(won):
        raise WireError("an item was won twice")
    return len(won) / took, [lat for _, lat in won]


def sweep(home: Path, seconds: float) -> Sample:
    """1,000 leases that end at one instant among 100,000 that do not: how long that takes, and what others notice."""
    _copied(home / "swept", f"leases-{SWEPT}", _leases)
    with running(home / "swept") as daemon, Wire.connect(daemon.socket) as wire:
        until = now_ms() + 3000
        lease = {"owner": {"kind": "agent", "id": "gone"}, "lease_expires_at": rfc3339(until)}
        for _ in range(0, DUE, BATCH):
            wire.ask("daemon/batch", steps=[{"method": "workgraph/claim_next", "params": lease}] * BATCH)
        if now_ms() > until - 500:
            raise WireError("the leases were not all taken in time")
        writes = [(now_ms(), took * 1000) for took in _updates(wire, seconds + (until - now_ms()) / 1000)]
        released = [parse_rfc3339(at) for at in _released(wire)]
    if len(released) != DUE:
        raise WireError(f"{len(released)} leases were ended, not {DUE}")
    beside = [took for at, took in writes if released[0] <= at <= released[-1] + PAGE_MS]
    before = [took for at, took in writes if at < until]
    return {
        **{"sweep": released[-1] - until, "sweep_work": released[-1] - released[0]},
        **{"unswept_max": max(before), "sweep_max": max(beside), "sweep_p50": floors.quantile(beside, 0.5)},
    }


def _leases(store: seeding.Store) -> None:
    seeding.leases(store, SWEPT)
    seeding.waiting(store, DUE)


def _released(wire: Wire) -> Iterator[str]:
    """When each lease was ended, in order."""
    after = 0
    while True:
        page = wire.ask("workgraph/events", types=["item_released"], after_seq=after, limit=500)
        yield from (event["at"] for event in page["events"])
        after = page["scanned_seq"]
        if not page["has_more"]:
            return
