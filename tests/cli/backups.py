"""Backups and state directories on disk, sound and damaged, for the tests of `interlock restore`."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

NAMES = ("interlock.sqlite3", "workspaces/registry.sqlite3", "workspaces/db/notes.sqlite3")


def make_database(path: Path, value: str) -> None:
    """A database in WAL mode that holds one value."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t(v TEXT)")
        connection.execute("INSERT INTO t VALUES (?)", (value,))
        connection.commit()


def value_in(path: Path) -> str:
    """The value that a database holds."""
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("SELECT v FROM t").fetchone()[0])


def make_backup(folder: Path, names: tuple[str, ...] = NAMES) -> Path:
    """A backup as `daemon/backup` leaves it, each file holding `backup:<name>`."""
    for name in names:
        make_database(folder / name, f"backup:{name}")
    write_manifest(folder, names)
    return folder


def write_manifest(folder: Path, names: tuple[str, ...], **changed: Any) -> None:
    """The manifest that belongs to the files as they are."""
    files = []
    for name in names:
        content = (folder / name).read_bytes()
        files.append({"name": name, "bytes": len(content), "sha256": sha256(content).hexdigest()} | changed)
    manifest = {"path": str(folder), "event_head": 7, "taken_at": "2026-12-01T12:00:00.000Z", "files": files}
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its content."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def leave_a_hot_log(path: Path, value: str) -> None:
    """Commit a value and die before anything is checkpointed, as `kill -9` leaves it."""
    script = (
        "import os, sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1]); c.execute('PRAGMA wal_autocheckpoint=0')\n"
        "c.execute('UPDATE t SET v = ?', (sys.argv[2],)); c.commit(); os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path), value], check=True)
    assert Path(f"{path}-wal").stat().st_size > 0


def flip_a_byte(backup: Path) -> None:
    """Change one byte."""
    path = backup / NAMES[2]
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def cut_short(backup: Path) -> None:
    """Lose the last byte."""
    path = backup / NAMES[0]
    path.write_bytes(path.read_bytes()[:-1])


def corrupt_with_a_matching_manifest(backup: Path) -> None:
    """Damage a database before its digest was taken."""
    path = backup / NAMES[1]
    content = bytearray(path.read_bytes())
    content[4096:4196] = b"\xff" * 100
    path.write_bytes(content)
    write_manifest(backup, NAMES)


def no_database_with_a_matching_manifest(backup: Path) -> None:
    """Back up something that is no database."""
    (backup / NAMES[1]).write_bytes(b"something else entirely" * 300)
    write_manifest(backup, NAMES)


def lose_a_file(backup: Path) -> None:
    """Lose a file that the manifest names."""
    (backup / NAMES[1]).unlink()


def lose_the_manifest(backup: Path) -> None:
    """Lose the manifest."""
    (backup / "manifest.json").unlink()


def garble_the_manifest(backup: Path) -> None:
    """Cut the manifest short."""
    (backup / "manifest.json").write_bytes(b'{"files": [')


def forget_the_main_store(backup: Path) -> None:
    """A manifest without the main store."""
    write_manifest(backup, NAMES[1:])


def name_twice(backup: Path) -> None:
    """A manifest with a name twice."""
    write_manifest(backup, (*NAMES, NAMES[0]))


def link_out(backup: Path) -> None:
    """A link to a file elsewhere."""
    path = backup / NAMES[1]
    path.rename(backup.parent / "elsewhere.sqlite3")
    path.symlink_to(backup.parent / "elsewhere.sqlite3")
