"""Cases about everything else: answers without the store, events, the life of a process, memory."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from . import floors
from .figures import Sample
from .process import Daemon, environment, running
from .rows import message
from .sending import frames, prepare, warm_up
from .wire import Wire, call, pump

STALLED: Final = 10


def ping(home: Path, seconds: float) -> Sample:
    """The least request, one at a time and 64 in flight, beside an echo."""
    count = int(100_000 * seconds)
    _, alone = floors.echo(home, 1, count, seconds / 2)
    echoed, _ = floors.echo(home, 64, count, seconds)
    with running(home / "ping") as daemon, Wire.connect(daemon.socket) as wire:
        pings = [call("daemon/ping", n, {}) for n in range(count)]
        pump(wire, pings[:2000], 64, 5)
        one = pump(wire, pings, 1, seconds / 2)
        started = time.perf_counter()
        rate = len(pump(wire, pings, 64, seconds)) / (time.perf_counter() - started)
    return {
        **{"echo_p50": floors.quantile(alone, 0.5) * 1000, "echo_64": echoed, "ping_ratio": rate / echoed},
        **{"ping_p50": floors.quantile(one, 0.5) * 1000, "ping_64": rate},
    }


def told(home: Path, seconds: float) -> Sample:
    """From a send's request to its event at a subscriber on another connection: more than from the commit on."""
    lat: list[float] = []
    with running(home / "told") as daemon, prepare(daemon) as wire, Wire.connect(daemon.socket) as subscriber:
        warm_up(wire)
        subscriber.ask("ledger/events/subscribe", types=["ledger_state"])
        events = subscriber.lines()
        end = time.perf_counter() + seconds
        while (started := time.perf_counter()) < end:
            wire.sock.sendall(call("ledger/send", 1, message(len(lat), op=True)))
            next(events)
            lat.append(time.perf_counter() - started)
            next(wire.lines())
    return {"told_p50": floors.quantile(lat, 0.5) * 1000, "told_p99": floors.quantile(lat, 0.99) * 1000}


def life(home: Path, seconds: float) -> Sample:
    """Start to ready, calls of the command line, the end of a stdio process whose input ends."""
    started = time.perf_counter()
    with running(home / "life") as daemon:
        start = time.perf_counter() - started
        bare = _command(home, [sys.executable, "-c", "pass"])
        where = ["--socket", str(daemon.socket), "call", "daemon/ping"]
        installed = _command(home, [str(Path(sys.executable).with_name("interlock")), *where])
        module = _command(home, [sys.executable, "-m", "interlock.daemon.cli", *where])
    (home / "stdio").mkdir()
    process = Daemon(home / "stdio", stdio=subprocess.PIPE)
    try:
        process.ready()
        assert process.process.stdin is not None
        started = time.perf_counter()
        process.process.stdin.close()
        process.process.wait(10)
        stop = time.perf_counter() - started
    finally:
        process.stop()
    found = {"start": start, "python": bare, "cli": installed, "cli_module": module, "stop": stop}
    return {name: took * 1000 for name, took in found.items()}


def _command(home: Path, argv: list[str]) -> float:
    """Seconds of a command, the median of five after one that fills the caches. Raises when it fails."""
    lat: list[float] = []
    for _ in range(6):
        started = time.perf_counter()
        subprocess.run(argv, env=environment(home), cwd=home, check=True, stdout=subprocess.DEVNULL)
        lat.append(time.perf_counter() - started)
    return floors.quantile(lat[1:], 0.5)


def memory(home: Path, seconds: float) -> Sample:
    """Idle, with 10,000 queued messages, and what 10 subscribers that do not read add to the same traffic."""
    idle, queued, without = _footprints(home / "without", 0)
    stalled = _footprints(home / "stalled", STALLED)[2]
    found = {"idle_pss": idle[0], "idle_rss": idle[1], "queued_pss": queued[0], "queued_rss": queued[1]}
    return {**found, "stalled_growth": stalled[0] - without[0]}


def _footprints(home: Path, stalled: int) -> list[tuple[float, float]]:
    """PSS and RSS of a daemon: idle, with 10,000 messages, and 20,000 later beside subscribers that do not read."""
    with running(home) as daemon, ExitStack() as stack:
        with Wire.connect(daemon.socket) as wire:
            wire.ask("daemon/ping")
        found = [_settled(daemon)]
        wire = stack.enter_context(prepare(daemon))
        pump(wire, frames(10_000, op=True), 64, 60)
        found.append(_settled(daemon))
        for _ in range(stalled):
            stack.enter_context(Wire.connect(daemon.socket)).ask("ledger/events/subscribe", after_seq=0)
        pump(wire, frames(20_000, op=True), 64, 60)
        return [*found, _settled(daemon)]


def _settled(daemon: Daemon) -> tuple[float, float]:
    """What it occupies a moment later."""
    time.sleep(0.3)
    return daemon.memory_mib()
