"""The file whose lock keeps admissions of several processes apart (contract workgraph 5.3).

A database of its own, because a lock on the store would keep every writer out. It is empty and stays so: nothing but
`BEGIN IMMEDIATE` and `ROLLBACK` is ever said to it. When its holder dies, however it dies, the lock is free.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import stat
from pathlib import Path
from typing import Final

from interlock.lifecycle.refusal import Refusal

NAME: Final = "workgraph.admission.sqlite3"
MODE: Final = 0o600
_REOPENED: Final = 3
"""How often within one try a file that was replaced is opened again."""
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})

Identity = tuple[int, int]


class Sidecar:
    """The lock of one file, held by one connection, which is opened on first use. For one thread; nothing waits.

    Who deletes the file while it is locked lets a second one in: the next to come lock another file. Everybody else
    notices when they get the lock, and open the one that is there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._conn: sqlite3.Connection | None = None
        self._identity: Identity | None = None

    def try_lock(self) -> bool:
        """Take the lock if it is free. Raises `store_failed`, `storage_full` where the file cannot be locked at all."""
        try:
            for _ in range(_REOPENED):
                locked = self._begin()
                if locked is False:
                    return False
                if locked and _identity(self.path) == self._identity:
                    return True
                self.close()
        except (OSError, sqlite3.Error) as error:
            self.close()
            raise self._unusable(error) from error
        return False

    def unlock(self) -> None:
        """Let go of the lock; nothing where it is not held."""
        if self._conn is not None and self._conn.in_transaction:
            try:
                self._conn.execute("ROLLBACK")
            except sqlite3.Error:
                self.close()  # its locks go with it

    def close(self) -> None:
        """Let go of the lock and of the file; the next try opens it again."""
        conn, self._conn, self._identity = self._conn, None, None
        if conn is not None:
            with contextlib.suppress(sqlite3.Error):
                conn.close()

    def _opened(self) -> sqlite3.Connection:
        if self._conn is None:
            # In this order: where the file changes in between, it is not taken for the one that was opened.
            self._identity = _identity(self.path) or _create(self.path)
            uri = f"{self.path.absolute().as_uri()}?mode=rw"
            self._conn = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=0)
        return self._conn

    def _begin(self) -> bool | None:
        """Whether the lock could be had; None where the file is not at its path any more, which SQLite may mind."""
        try:
            self._opened().execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY:
                return False
            if _identity(self.path) != self._identity:
                return None
            raise
        return True

    def _unusable(self, error: Exception) -> Refusal:
        code = getattr(error, "sqlite_errorcode", None)
        full = code == sqlite3.SQLITE_FULL or (isinstance(error, OSError) and error.errno in _NO_SPACE)
        if full:
            return Refusal("storage_full", f"the disk is full; {self.path} cannot be locked", file=str(self.path))
        reason = getattr(error, "sqlite_errorname", None) or str(error)
        message = f"{self.path} cannot be locked ({reason}): it is an empty file, made anew when it is removed"
        return Refusal("store_failed", message, reason=reason, file=str(self.path))


def _create(path: Path) -> Identity | None:
    """Make the file unless somebody has just done so. Its descriptor is closed before SQLite has one: closing it later
    would drop the locks of this process."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, MODE))
    return _identity(path)


def _identity(path: Path) -> Identity | None:
    """Device and inode of the file at the path, None where there is none. Raises OSError where it is no file of its
    own: as a link it might be the store's, whose writers it would keep out."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        raise OSError(errno.EINVAL, "it is a link, or no file")
    return (found.st_dev, found.st_ino)
