"""`daemon/backup`: copies that are verified, synced and renamed into place whole (contract daemon 3, field C58)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import sqlite3
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
STORES: Final = (STORE, "workspaces/registry.sqlite3", "workspaces/db/*.sqlite3")
"""The databases of a state directory (DESIGN 4.1). Named one by one: a backup may lie in the directory itself."""


async def back_up(services: Services, path: str) -> BackupResult:
    """Back every store up into the new directory `path`. Raises `invalid_params`, `store_failed`, `storage_full`."""
    target = Path(path)
    _check_target(target)
    partial = target.with_name(f"{target.name}.partial-{services.instance_id}")
    taken_at = rfc3339(services.clock.now_ms())
    try:
        return await asyncio.to_thread(_back_up, Path(services.settings.state_dir), partial, target, taken_at)
    except (sqlite3.Error, OSError) as error:
        services.log.exception("backup_failed")
        raise store_failed(f"the backup failed: {error}") from error
    finally:
        await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)


def _check_target(target: Path) -> None:
    problem = None
    if not target.is_absolute():
        problem = "an absolute path"
    elif os.path.lexists(target):
        problem = "a path where nothing is yet"
    elif not target.parent.is_dir():
        problem = "a path in a directory that exists"
    if problem is not None:
        raise Refusal("invalid_params", f"the backup needs {problem}", path="/path", expected=problem)


def _back_up(state_dir: Path, partial: Path, target: Path, taken_at: str) -> BackupResult:
    partial.mkdir(mode=0o700)
    for source in _stores(state_dir):
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
    os.rename(partial, target)
    copy.sync(target.parent)
    return result


def _stores(state_dir: Path) -> list[Path]:
    """The main store first; the admission sidecar is a lock, not data."""
    return [path for pattern in STORES for path in sorted(state_dir.glob(pattern))]


def _described(path: Path, root: Path) -> BackupFile:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return BackupFile(name=str(path.relative_to(root)), bytes=path.stat().st_size, sha256=digest)
