"""`interlock restore`: put a backup in place of the stores that nobody uses (contract daemon 4.3, C58, C59, C63).

The one verb that works on the files itself, and only while it holds the leader's lock and no other process has one of
them open. What was there is kept beside it under a dated name; a failure at any point puts everything back.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from .. import places
from ..leadership import AlreadyRunning, Lock, Owner, read_owner
from ..version import VERSION
from .backup_files import BackupFile, copy_checked, fsync_dir, read_manifest
from .failures import NEGATIVE, TRY_AGAIN, Failed

STORES: Final = ("*.sqlite3", "workspaces/*.sqlite3", "workspaces/db/*.sqlite3")
SIDECAR: Final = "workgraph.admission.sqlite3"
"""A lock in the form of a database: it holds nothing, so it stays (DESIGN 4.1)."""
SIDE_FILES: Final = ("-wal", "-shm", "-journal")
_OPEN_BYTE: Final = 128
"""Every connection to a WAL database holds a shared lock on this byte of its `-shm` file (SQLite's unix-shm `DMS`)."""


class Restored(NamedTuple):
    """What was done: names are relative to the state directory."""

    state_dir: str
    event_head: int | None
    taken_at: str | None
    restored: list[str]
    kept: list[str]


def restore(source: Path, state_dir: Path, confirm: Callable[[list[str]], None]) -> Restored:
    """Replace the stores in `state_dir` by those of the backup in `source`.

    `confirm` is called with the names that would be replaced, before anything is, and raises to stop it. Raises
    AlreadyRunning and Failed (75): the directory is in use; BadBackup (1); places.NotPrivate.
    """
    with ExitStack() as held:
        if (state_dir / places.LOCK).exists():
            held.enter_context(_lead(state_dir))
        manifest, files = read_manifest(source)
        for name in _present(state_dir, files):
            held.enter_context(_nobody_has_open(state_dir / name))
        kept = _restore_files(source, state_dir, files, confirm, held)
    names = [file.name for file in files]
    return Restored(str(state_dir), manifest.get("event_head"), manifest.get("taken_at"), names, kept)


def _restore_files(
    source: Path, state_dir: Path, files: list[BackupFile], confirm: Callable[[list[str]], None], held: ExitStack
) -> list[str]:
    """Check, ask, replace; returns what was kept. Whatever ends it early leaves no trace."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    made = not state_dir.exists()
    places.make_private_dir(state_dir)
    staging = state_dir / f".restore-{stamp}-{os.getpid()}"
    try:
        for file in files:
            copy_checked(source, staging, file)
        present = _present(state_dir, files)
        if present:
            confirm(present)
        if not (state_dir / places.LOCK).exists():
            held.enter_context(_lead(state_dir))
        return _switch(state_dir, staging, files, stamp)
    except OSError as error:
        raise Failed(f"{error}; nothing was changed", NEGATIVE, state_dir=str(state_dir)) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        if made:
            _remove_if_empty(state_dir)


@contextmanager
def _lead(state_dir: Path) -> Iterator[None]:
    """Hold the leader's lock. Raises AlreadyRunning (75). Its file stays when it is let go: others may wait on it."""
    lock = Lock(state_dir / places.LOCK)
    me = Owner(
        pid=os.getpid(),
        start_time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        instance_id=f"restore-{os.getpid()}",
        version=VERSION,
        kind="restore",
        state_dir=str(state_dir),
    )
    if not lock.try_acquire(me):
        raise AlreadyRunning(state_dir, read_owner(lock.path))
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _nobody_has_open(database: Path) -> Iterator[None]:
    """Refuse while another process has the database open, and keep new ones out meanwhile."""
    try:
        fd = os.open(f"{database}-shm", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield  # a database without this file is open nowhere
        return
    try:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _OPEN_BYTE)
        except OSError as error:
            text = f"another process has {database} open: end it first"
            raise Failed(text, TRY_AGAIN, state_dir=str(database.parent)) from error
        yield
    finally:
        os.close(fd)


def _present(state_dir: Path, files: list[BackupFile]) -> list[str]:
    """The stores that are there now: those of the backup, and every other one, so that nothing of two ages meets."""
    found = sorted(path for pattern in STORES for path in state_dir.glob(pattern) if path.name != SIDECAR)
    names = [file.name for file in files] + [path.relative_to(state_dir).as_posix() for path in found]
    return [name for name in dict.fromkeys(names) if os.path.lexists(state_dir / name)]


def _switch(state_dir: Path, staging: Path, files: list[BackupFile], stamp: str) -> list[str]:
    """Move what is there aside and the new files in; returns the names that were kept. Undoes itself when it fails."""
    moves = _plan(state_dir, staging, files, stamp)
    done: list[tuple[Path, Path]] = []
    made: list[Path] = []
    try:
        for old, new in moves:
            made += _make_parents(new.parent)
            os.rename(old, new)
            done.append((old, new))
        for folder in sorted({new.parent for _, new in moves} | {state_dir}):
            fsync_dir(folder)
    except BaseException:
        for old, new in reversed(done):
            os.rename(new, old)
        for folder in reversed(made):
            _remove_if_empty(folder)
        raise
    return [new.relative_to(state_dir).as_posix() for old, new in moves if staging not in old.parents]


def _plan(state_dir: Path, staging: Path, files: list[BackupFile], stamp: str) -> list[tuple[Path, Path]]:
    aside: list[tuple[Path, Path]] = []
    for name in dict.fromkeys([*_present(state_dir, files), *(file.name for file in files)]):
        kept = _free_name(state_dir / name, stamp)
        # A log goes with its database, under a name that still belongs to it, and never stays to meet the new one.
        sides = ((Path(f"{state_dir / name}{side}"), Path(f"{kept}{side}")) for side in ("", *SIDE_FILES))
        aside += [(old, new) for old, new in sides if os.path.lexists(old)]
    return aside + [(staging / file.name, state_dir / file.name) for file in files]


def _free_name(path: Path, stamp: str) -> Path:
    """`interlock.sqlite3.before-restore-<time>`: no longer a store by its name, and never one that is taken."""
    kept = path.with_name(f"{path.name}.before-restore-{stamp}")
    number = 1
    while os.path.lexists(kept):
        number += 1
        kept = path.with_name(f"{path.name}.before-restore-{stamp}-{number}")
    return kept


def _make_parents(folder: Path) -> list[Path]:
    missing = [path for path in (folder, *folder.parents) if not path.exists()][::-1]
    for path in missing:
        os.mkdir(path, 0o700)
    return missing


def _remove_if_empty(folder: Path) -> None:
    try:
        os.rmdir(folder)
    except OSError:
        return  # it holds something: then it is not ours to remove
