"""`daemon/backup`: copies that are verified, synced and renamed into place whole (contract daemon 3, field C58)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sqlite3
import threading
from pathlib import Path
from typing import Final

import msgspec

from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.times import rfc3339
from interlock.protocol.daemon import BackupFile, BackupResult
from interlock.stores import copy
from interlock.stores.errors import store_failed
from interlock.stores.health import STORE

from .services import Services

MANIFEST: Final = "manifest.json"
PARTIAL_BYTES: Final = 48
"""What the name of an unfinished backup has behind that of the finished one."""
STORES: Final = (STORE, "workspaces/registry.sqlite3", "workspaces/db/*.sqlite3")
"""The databases of a state directory (DESIGN 4.1). Named one by one: a backup may lie in the directory itself."""


async def back_up(services: Services, path: str) -> BackupResult:
    """Back every store up into the new directory `path`. Raises `invalid_params`, `store_failed`, `storage_full`."""
    target = Path(path)
    _check_target(target)
    now = services.clock.now_ms()
    partial = target.with_name(f"{target.name}.{services.ids.new('partial', now)}")  # nobody else's, of this path too
    given_up = threading.Event()
    making = asyncio.create_task(
        asyncio.to_thread(_back_up, Path(services.settings.state_dir), partial, target, rfc3339(now), given_up)
    )
    try:
        return await _made(making, given_up)
    except (sqlite3.Error, OSError) as error:
        services.log.exception("backup_failed")
        raise store_failed(f"the backup failed: {error}") from error


async def _made(making: asyncio.Task[BackupResult], given_up: threading.Event) -> BackupResult:
    """Its result, also for a caller who was cancelled too late: what runs on a thread cannot be left half way."""
    while True:
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            if making.done():
                raise
            given_up.set()


def _check_target(target: Path) -> None:
    problem = None
    if not target.is_absolute():
        problem = "an absolute path"
    elif os.path.lexists(target):
        problem = "a path where nothing is yet"
    elif not target.parent.is_dir():
        problem = "a path in a directory that exists"
    elif len(os.fsencode(target.name)) + PARTIAL_BYTES > os.pathconf(target.parent, "PC_NAME_MAX"):
        problem = "a shorter name"
    if problem is not None:
        raise Refusal("invalid_params", f"the backup needs {problem}", path="/path", expected=problem)


def _back_up(state_dir: Path, partial: Path, target: Path, taken_at: str, given_up: threading.Event) -> BackupResult:
    partial.mkdir(mode=0o700)
    try:
        return _fill(state_dir, partial, target, taken_at, given_up)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _fill(state_dir: Path, partial: Path, target: Path, taken_at: str, given_up: threading.Event) -> BackupResult:
    for source in _stores(state_dir):
        _go_on(given_up)
        made = partial / source.relative_to(state_dir)
        made.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        copy.copy(source, made)
    result = BackupResult(
        path=str(target),
        event_head=copy.event_head(partial / STORE),
        taken_at=taken_at,
        files=[_described(path, partial) for path in sorted(partial.rglob("*")) if path.is_file()],
    )
    manifest = partial / MANIFEST
    manifest.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2))
    copy.sync(manifest)
    copy.sync(partial)
    _go_on(given_up)
    os.rename(partial, target)
    copy.sync(target.parent)
    return result


def _go_on(given_up: threading.Event) -> None:
    if given_up.is_set():
        raise Refusal("cancelled", "cancelled before the backup was complete")


def _stores(state_dir: Path) -> list[Path]:
    """The main store first; the admission sidecar is a lock, not data."""
    return [path for pattern in STORES for path in sorted(state_dir.glob(pattern))]


def _described(path: Path, root: Path) -> BackupFile:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return BackupFile(name=str(path.relative_to(root)), bytes=path.stat().st_size, sha256=digest)
