"""Cases about writes: sends in flight and alone, whole cycles, sends behind a long history."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import msgspec

from . import floors
from .figures import Sample
from .process import Daemon, running
from .rows import ROLES, message
from .wire import Step, Wire, act, call, pump

CONSUMERS: Final = 64
LARGE: Final = 300_000


def prepare(daemon: Daemon, *more: str) -> Wire:
    """An operator's connection, with the roles made."""
    wire = Wire.connect(daemon.socket)
    names = [*(f"role-{n}" for n in range(ROLES)), *more]
    wire.ask("ledger/role/sync", roles=[{"name": name} for name in names])
    return wire


def frames(count: int, **how: Any) -> list[bytes]:
    """The first `count` sends, ready to be written."""
    return [call("ledger/send", n, message(n, **how)) for n in range(count)]


def warm_up(wire: Wire) -> None:
    """So that no first time is measured."""
    pump(wire, frames(1000, op=True), 64, 10)


def burst(home: Path, seconds: float, **how: Any) -> tuple[float, list[float], float]:
    """64 sends in flight at a fresh daemon: sends per second, their seconds, and the daemon's seconds per send."""
    with running(home) as daemon, prepare(daemon) as wire:
        warm_up(wire)
        prepared = frames(int(30_000 * seconds), **how)
        before, started = daemon.cpu_seconds(), time.perf_counter()
        lat = pump(wire, prepared, 64, seconds)
        took = time.perf_counter() - started
        return len(lat) / took, lat, (daemon.cpu_seconds() - before) / len(lat)


def send(home: Path, seconds: float) -> Sample:
    """64 sends in flight on one connection, with op ids, without, and tasks."""
    floor = floors.sends_per_second(home, 64, seconds)
    rate, lat, cpu = burst(home / "op", seconds, op=True)
    plain_floor = floors.sends_per_second(home, 64, seconds, with_op=False)
    plain, _, _ = burst(home / "plain", seconds)
    tasks, _, _ = burst(home / "tasks", seconds, op=True, kind="task")
    return {
        **{"fdatasync": floors.fdatasync_ms(home), "floor_64": floor, "floor_64_plain": plain_floor},
        **{"send": rate, "send_ratio": rate / floor, "send_p99": floors.quantile(lat, 0.99) * 1000},
        **{"send_cpu": cpu * 1e6, "send_plain": plain, "send_plain_ratio": plain / plain_floor, "send_tasks": tasks},
    }


def large(home: Path, seconds: float) -> Sample:
    """The same behind 300,000 messages, for the daemon and for its floor."""
    floor = floors.sends_per_second(home, 64, seconds, before=LARGE)
    with running(home / "large") as daemon, prepare(daemon) as wire:
        for _ in range(LARGE // 20_000):
            pump(wire, frames(20_000, op=True), 200, 60)
        prepared = frames(int(30_000 * seconds), op=True)
        started = time.perf_counter()
        lat = pump(wire, prepared, 64, seconds)
        rate = len(lat) / (time.perf_counter() - started)
    p99 = floors.quantile(lat, 0.99) * 1000
    return {"floor_64_large": floor, "send_large": rate, "send_large_ratio": rate / floor, "send_large_p99": p99}


def one(home: Path, seconds: float) -> Sample:
    """One client that waits for each answer."""
    floor = floors.sends_per_second(home, 1, seconds)
    with running(home / "one") as daemon, prepare(daemon) as wire:
        warm_up(wire)
        prepared = frames(int(6000 * seconds), op=True)
        started = time.perf_counter()
        lat = pump(wire, prepared, 1, seconds)
        rate = len(lat) / (time.perf_counter() - started)
    p50, p99 = floors.quantile(lat, 0.5) * 1000, floors.quantile(lat, 0.99) * 1000
    return {"floor_1": floor, "one_p50": p50, "one_p99": p99, "one_ratio": rate / floor}


class _Consumer:
    """Attached to its own role, it sends itself a message, pulls it and acks it, again and again."""

    def __init__(self, number: int, end: float, lat: list[float]) -> None:
        self.role = f"own-{number}"
        self.first = call("ledger/attach", number, {"role": self.role})
        self._number = number
        self._end = end
        self._lat = lat
        self._state = "attach"
        self._began = 0.0

    def step(self, line: bytes) -> bytes | None:
        """The request after this answer."""
        now = time.perf_counter()
        if self._state == "send":
            self._state = "pull"
            return call("ledger/pull", self._number, {"role": self.role, "limit": 1})
        if self._state == "pull":
            self._state = "ack"
            (offered,) = msgspec.json.decode(line)["result"]["deliveries"]
            return call("ledger/ack", self._number, {"msg_id": offered["envelope"]["msg_id"]})
        if self._state == "ack":
            self._lat.append(now - self._began)
            if now > self._end:
                return None
        self._state, self._began = "send", now
        return call("ledger/send", self._number, message(len(self._lat), to=self.role))


def cycle(home: Path, seconds: float) -> Sample:
    """64 attached connections doing whole cycles."""
    floor = floors.cycles_per_second(home, 64, seconds)
    names = [f"own-{n}" for n in range(CONSUMERS)]
    with running(home / "cycle") as daemon, prepare(daemon, *names) as wire:
        warm_up(wire)
        lat: list[float] = []
        started = time.perf_counter()
        consumers = [_Consumer(n, started + seconds, lat) for n in range(CONSUMERS)]
        actors: list[tuple[bytes, Step]] = [(consumer.first, consumer.step) for consumer in consumers]
        act(daemon.socket, actors)
        rate = len(lat) / (time.perf_counter() - started)
    p99 = floors.quantile(lat, 0.99) * 1000
    return {"floor_cycle": floor, "cycle": rate, "cycle_ratio": rate / floor, "cycle_p99": p99}
