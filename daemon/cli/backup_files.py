"""A backup as it lies on disk: its manifest, and each file checked while it is copied (contract daemon 3)."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from .. import places
from .failures import NEGATIVE, Failed

MANIFEST: Final = "manifest.json"
MAIN_STORE: Final = "interlock.sqlite3"
SUFFIX: Final = ".sqlite3"
CHUNK: Final = 1 << 20


class BackupFile(NamedTuple):
    """One file of the manifest; `name` is relative to the directory."""

    name: str
    bytes: int
    sha256: str


class BadBackup(Failed):
    """The directory is no backup, or a damaged one. Nothing was changed."""

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(f"{message}; nothing was changed", NEGATIVE, **data)


def read_manifest(source: Path) -> tuple[dict[str, Any], list[BackupFile]]:
    """The manifest and its files, every name harmless. Raises BadBackup."""
    path = source / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
        files = [BackupFile(str(file["name"]), int(file["bytes"]), str(file["sha256"])) for file in manifest["files"]]
    except OSError as error:
        raise BadBackup(f"{source} is no backup: {error}", path=str(path)) from error
    except (ValueError, KeyError, TypeError) as error:
        raise BadBackup(
            f"{path} is no manifest of a backup ({type(error).__name__}: {error})", path=str(path)
        ) from error
    names = [file.name for file in files]
    if MAIN_STORE not in names:
        raise BadBackup(f"{path} names no {MAIN_STORE}", path=str(path))
    bad = next((name for name in names if not _is_store_name(name) or names.count(name) > 1), None)
    if bad is not None:
        raise BadBackup(f"{path} names a file that cannot be part of a backup: {bad!r}", path=str(path))
    return manifest, files


def _is_store_name(name: str) -> bool:
    """Whether a name stays inside the directory and is a database: a manifest is input like any other."""
    parts = PurePosixPath(name).parts
    inside = (
        bool(parts)
        and not name.startswith("/")
        and "\0" not in name
        and all(not part.startswith(".") for part in parts)
    )
    return inside and name == "/".join(parts) and name.endswith(SUFFIX) and parts[0] != places.LOCK


def copy_checked(source: Path, target: Path, file: BackupFile) -> None:
    """Copy one file below `target`, durable and checked: size, digest, SQLite's `integrity_check`. Raises BadBackup."""
    copied = target / file.name
    copied.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    size, digest = _copy(source / file.name, copied)
    if size != file.bytes:
        raise BadBackup(f"{file.name} has {size} bytes, the manifest says {file.bytes}", file=file.name)
    if digest != file.sha256:
        raise BadBackup(
            f"{file.name} is not what was backed up: its digest differs from the manifest's", file=file.name
        )
    problem = _integrity_problem(copied)
    if problem is not None:
        raise BadBackup(f"{file.name} is damaged: {problem}", file=file.name)


def _copy(original: Path, copied: Path) -> tuple[int, str]:
    digest, size = sha256(), 0
    try:
        with open(original, "rb", opener=_no_link) as old, open(copied, "xb", opener=_private) as new:
            while chunk := old.read(CHUNK):
                new.write(chunk)
                digest.update(chunk)
                size += len(chunk)
            new.flush()
            os.fsync(new.fileno())
    except FileNotFoundError as error:
        raise BadBackup(f"{original.name} is missing from the backup", file=original.name) from error
    return size, digest.hexdigest()


def _integrity_problem(database: Path) -> str | None:
    """What `integrity_check` says, or None. Opened as immutable, so that nothing appears beside the file."""
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            found = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.Error as error:
        return str(error)
    return None if found == ("ok",) else str(found[0]) if found else "no answer"


def fsync_dir(folder: Path) -> None:
    """Make what was renamed in a directory durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
