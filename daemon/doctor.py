"""What `daemon/doctor` looks for (contract daemon 2.3). Reads only, off the event loop."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from interlock.lifecycle.refusal import Refusal
from interlock.protocol.daemon import Finding
from interlock.stores import health, schema
from interlock.stores.errors import StoreUnusable
from interlock.stores.files import free_bytes, is_network_fs, total_bytes
from interlock.stores.health import STORE

from .services import Services

SEVERITIES: Final = ("error", "warning", "info")
LOW_BYTES: Final = 256 << 20
LOW_SHARE: Final = 0.01
WAL_BYTES: Final = 64 << 20
LAG_MS: Final = 1000
UNATTENDED_MS: Final = 10 * 60_000
JUMPS_MS: Final = 60 * 60_000
WAL_RESET_FIXED: Final = (3, 51, 3)


class Counted(NamedTuple):
    """The store's own numbers."""

    head: int
    floor: int
    queued: int
    in_flight: int
    open_faults: int


async def examine(services: Services) -> list[Finding]:
    """Every finding, worst first."""
    found = await asyncio.to_thread(lambda: [*_files(services)])
    found += _process(services)
    found += await _store(services)
    return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))


def _files(services: Services) -> Iterator[Finding]:
    state_dir = Path(services.settings.state_dir)
    yield from _mode(state_dir, 0o700, "state_dir_mode", "chmod 700")
    if services.state.socket is not None:
        yield from _mode(Path(services.state.socket), 0o600, "socket_mode", "chmod 600")
    with suppress(OSError):  # a directory that is gone was found above
        yield from _disk(state_dir)
    yield from _databases(state_dir)


def _disk(state_dir: Path) -> Iterator[Finding]:
    if is_network_fs(state_dir):
        yield Finding(
            code="network_filesystem",
            severity="error",
            message="the state directory lies on a network file system, where locks do not hold",
            remedy="move it to a local disk with --state-dir",
            subject=str(state_dir),
        )
    free = free_bytes(state_dir)
    if free < max(LOW_BYTES, LOW_SHARE * total_bytes(state_dir)):
        yield Finding(
            code="disk_low",
            severity="warning",
            message=f"{free >> 20} MiB are free",
            remedy="make room",
            subject=str(state_dir),
        )


def _mode(path: Path, mode: int, code: str, remedy: str) -> Iterator[Finding]:
    try:
        found = os.lstat(path)
    except OSError as error:
        yield Finding(
            code=code, severity="error", message=f"it cannot be looked at: {error.strerror}", subject=str(path)
        )
        return
    if stat.S_IMODE(found.st_mode) != mode or found.st_uid != os.geteuid():
        message = f"it has mode {stat.S_IMODE(found.st_mode):04o} and owner {found.st_uid}"
        yield Finding(code=code, severity="error", message=message, remedy=f"{remedy} {path}", subject=str(path))


def _databases(state_dir: Path) -> Iterator[Finding]:
    for path in sorted(state_dir.glob("*.sqlite3")):
        try:
            if path.name == STORE:
                schema.inspect(path)
        except StoreUnusable as error:
            yield Finding(code="schema_unsupported", severity="error", message=str(error), subject=path.name)
            continue
        problem = health.quick_check(path)
        if problem is not None:
            yield Finding(
                code="integrity_failed",
                severity="error",
                message=problem,
                remedy="stop the daemon and restore a backup with `interlock restore DIR`",
                subject=path.name,
            )


def _process(services: Services) -> Iterator[Finding]:
    failed = services.database.failed
    if failed is not None and failed.startswith("file_replaced"):
        yield Finding(
            code="file_replaced",
            severity="error",
            message=failed,
            remedy="put it back or restart the daemon",
            subject=STORE,
        )
    lag = services.lag.worst_ms
    if lag > LAG_MS:
        yield Finding(code="loop_lag", severity="warning", message=f"the event loop was {lag} ms late within a minute")
    wal = services.database.stats.wal_bytes()
    if wal > WAL_BYTES:
        message = f"the write-ahead log has {wal >> 20} MiB"
        yield Finding(code="wal_large", severity="warning", message=message, remedy="end long reads", subject=STORE)
    if not services.state.leader and not services.leader_alive():
        yield Finding(
            code="leader_missing", severity="warning", message="nobody holds the lock", remedy="it passes on within 2 s"
        )
    version = tuple(map(int, sqlite3.sqlite_version.split(".")))
    if version < WAL_RESET_FIXED:
        yield Finding(
            code="sqlite_wal_reset_bug",
            severity="info",
            message=f"SQLite {sqlite3.sqlite_version} has the WAL-reset bug; checkpoints never run beside a write here",
            remedy="a Python whose SQLite is 3.51.3 or newer does not have it",
        )


async def _store(services: Services) -> list[Finding]:
    try:
        seen = await services.database.read(
            lambda snap: health.look(snap, unattended_ms=UNATTENDED_MS, jumps_ms=JUMPS_MS)
        )
    except Refusal as refusal:
        return [Finding(code="integrity_failed", severity="error", message=refusal.message, subject=STORE)]
    return [*_seen(seen)]


def _seen(seen: health.Seen) -> Iterator[Finding]:
    say: Callable[..., Finding] = lambda code, message, **more: Finding(  # noqa: E731
        code=code, severity="warning", message=message, **more
    )
    for kind in seen.jumps:
        yield say(kind, "noticed within the last hour; `interlock events` has it")
    if seen.open_faults:
        yield say(
            "open_faults", f"{seen.open_faults} faults are open", remedy="interlock ledger fault list --state open"
        )
    for role in seen.unattended:
        message = "mail has waited for over 10 minutes and nobody is attached"
        yield say("mail_unattended", message, remedy="start a consumer, or expire the mail", subject=role)
    for role in seen.held_by_nobody:
        message = "mail has been in flight for over 10 minutes and no living connection holds it"
        yield say("held_by_nobody", message, remedy="interlock ledger requeue --msg-id ID", subject=role)
