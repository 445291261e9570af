"""What the machine gives without a daemon: the bars of DESIGN 9 are ratios to these, in the same run."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from interlock.stores import cursors, messages, ops, tx
from interlock.stores.workgraph import claims, queue
from interlock.stores.workgraph.rows import item_of

from . import seeding
from .rows import ROLES, Rows, now_ms, rows
from .wire import Wire, call, pump

SCHEMA: Final = Path(__file__).parent.parent.parent / "stores" / "sql"
LEASE_MS: Final = 900_000
INSERT: Final = (messages.INSERT, tx.EMIT, ops.KEEP)


def quantile(samples: list[float], q: float) -> float:
    """The q-quantile of some samples; not a number of none."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * q))] if ordered else float("nan")


def fdatasync_ms(home: Path, count: int = 300) -> float:
    """Median milliseconds of appending a page to a file and syncing it."""
    lat = []
    fd = os.open(home / "sync.bin", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    try:
        for _ in range(count):
            started = time.perf_counter()
            os.write(fd, b"x" * 4096)
            os.fdatasync(fd)
            lat.append(time.perf_counter() - started)
    finally:
        os.close(fd)
        (home / "sync.bin").unlink()
    return quantile(lat, 0.5) * 1000


def store(path: Path) -> sqlite3.Connection:
    """An empty database of our schema, set up as the writer sets up its connection."""
    conn = _connected(path)
    for script in sorted(SCHEMA.glob("*.sql")):
        conn.executescript(script.read_text("utf-8"))
    return conn


def _connected(path: Path) -> sqlite3.Connection:
    conn = sqlite3.connect(path, isolation_level=None, cached_statements=256)
    conn.execute("PRAGMA journal_mode = WAL")
    for pragma in ("synchronous = FULL", "foreign_keys = ON", "temp_store = MEMORY", "cache_size = -65536"):
        conn.execute(f"PRAGMA {pragma}")
    return conn


def _parameters(one: Rows) -> tuple[object, ...]:
    return (*(one.mail.get(name) for name in messages.NEW), one.body)


def sends_per_second(home: Path, batch: int, seconds: float, *, with_op: bool = True, before: int = 0) -> float:
    """Bare sqlite3 in one thread: message, event and op row of each send, `batch` per commit, after `before` rows."""
    path = home / f"floor-{batch}.db"
    conn = store(path)
    for first in range(0, before, 1000):
        _commit(conn, [rows(n, now_ms()) for n in range(first, first + 1000)], with_op=with_op)
    count = 8 * batch if batch > 1 else 256
    pool = [[rows(n, now_ms()) for n in range(k * batch, (k + 1) * batch)] for k in range(max(1, count // batch))]
    done, busy = 0, 0.0
    while busy < seconds:
        # the rows are made outside of the clock: they are the daemon's work, not the store's
        for part in pool:
            started = time.perf_counter()
            _commit(conn, part, with_op=with_op)
            busy += time.perf_counter() - started
            done += batch
        pool = [[rows(n, now_ms()) for n in range(done + k * batch, done + (k + 1) * batch)] for k in range(len(pool))]
    conn.close()
    _remove(path)
    return done / busy


def _commit(conn: sqlite3.Connection, part: list[Rows], *, with_op: bool) -> None:
    conn.execute("BEGIN IMMEDIATE")
    for one in part:
        conn.execute(INSERT[0], _parameters(one))
        conn.execute(INSERT[1], one.event)
        if with_op:
            conn.execute(INSERT[2], one.op)
    conn.execute("COMMIT")


def cycles_per_second(home: Path, batch: int, seconds: float) -> float:
    """Bare sqlite3: send, then offer, then settle, `batch` of each per commit, with their events and the cursor."""
    path = home / "floor-cycle.db"
    conn = store(path)
    done, busy, first = 0, 0.0, 1
    while busy < seconds:
        at = now_ms()
        part = [rows(n, at) for n in range(done, done + batch)]
        started = time.perf_counter()
        _commit(conn, part, with_op=False)
        for state, deliveries in (("in_flight", 1), ("acked", 1)):
            conn.execute("BEGIN IMMEDIATE")
            for n, one in enumerate(part):
                settled = at if state == "acked" else None
                change = (state, None, None, at, settled, "operator", None, None, deliveries, 0, first + n)
                conn.execute(messages.BY_MSG_ID, (one.msg_id,)).fetchone()
                conn.execute(messages.UPDATE, change)
                conn.execute(tx.EMIT, one.event)
                if state == "in_flight":
                    conn.execute(cursors.PUT, ("inbox", f"role-{n % ROLES}", first, one.msg_id, at))
            conn.execute("COMMIT")
        busy += time.perf_counter() - started
        done += batch
        first += batch
    conn.close()
    _remove(path)
    return done / busy


def claims_per_second(seeded: Path, home: Path, batch: int, count: int) -> float:
    """Bare sqlite3 on a copy of a store: find the next ready item, take it, say so; `batch` per commit."""
    path = home / "floor-claim.db"
    shutil.copyfile(seeded, path)
    with seeding.opened(path) as filled:
        seeding.waiting(filled, count)
    conn = _connected(path)
    done, started = 0, time.perf_counter()
    while done < count:
        conn.execute("BEGIN IMMEDIATE")
        for n in range(batch):
            _claim(conn, f"racer-{n}", now_ms())
        conn.execute("COMMIT")
        done += batch
    took = time.perf_counter() - started
    conn.close()
    _remove(path)
    return done / took


def _claim(conn: sqlite3.Connection, owner: str, at: int) -> None:
    found = item_of(conn.execute(queue.READY, (*seeding.SCOPE, *queue.FIRST)).fetchone())
    n = found.n
    values = ("agent", owner, None, 0, at, at + LEASE_MS, found.revision + 1, at, n, at)
    taken = item_of(conn.execute(claims.TAKE, values).fetchone())
    if taken.labels is not None:
        conn.execute(claims.TAKE_LABELS, (at, n))
    said = {"revision": taken.revision, "owner": {"key": {"kind": "agent", "id": owner}}, "fence": taken.fence}
    data = msgspec.json.encode(said).decode()
    conn.execute(tx.EMIT, ("workgraph", "item_claimed", *seeding.SCOPE, taken.id, None, at, data))


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


class _Echo(asyncio.Protocol):
    """The least a Python daemon does with a request: decode it, encode an answer, one write per read."""

    def __init__(self) -> None:
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        answers = []
        for line in lines:
            asked = msgspec.json.decode(line)
            answers.append(msgspec.json.encode({"jsonrpc": "2.0", "id": asked["id"], "result": asked["params"]}))
        self._transport.write(b"\n".join([*answers, b""]))


async def _serve_echo(path: str) -> None:
    server = await asyncio.get_running_loop().create_unix_server(_Echo, path)
    print("ready", flush=True)
    await server.serve_forever()


def echo(home: Path, window: int, count: int, seconds: float) -> tuple[float, list[float]]:
    """Answers per second of an asyncio echo in a process of its own, `window` requests in flight, and their seconds."""
    path = home / "echo.sock"
    program = f"import sys; sys.path.insert(0, {str(SCHEMA.parent.parent / 'scripts')!r})\n"
    program += "import asyncio; from bench_lib import floors; asyncio.run(floors._serve_echo(sys.argv[1]))"
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        with Wire.connect(path) as wire:
            frames = [call("echo", n, {"text": "ping"}) for n in range(count)]
            started = time.perf_counter()
            lat = pump(wire, frames, window, seconds)
            return len(lat) / (time.perf_counter() - started), lat
    finally:
        process.kill()
        process.communicate()
        path.unlink(missing_ok=True)
