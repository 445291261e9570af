"""Where SQLite's errors end: nothing above this folder sees one (DESIGN 3.3 rule 7, 4.2)."""

from __future__ import annotations

import errno
import sqlite3
from typing import Final

from interlock.lifecycle.refusal import Refusal

RETRY_AFTER_MS: Final = 100

_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_BROKEN: Final = frozenset(
    {
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)
_WHOLE_BATCH: Final = _BUSY | _BROKEN | {sqlite3.SQLITE_FULL, sqlite3.SQLITE_INTERRUPT}
_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class StoreUnusable(Exception):
    """The file at the store's path cannot be opened as one. It was left as it is; the message says what to do."""


class UnsupportedSchema(StoreUnusable):
    """It is a database, but not one that this build may touch: foreign, newer, or of another protocol."""


class CorruptStore(StoreUnusable):
    """It is no database, or a damaged one."""


class StatementFailed(Exception):
    """A statement broke a constraint or did not fit the schema: a bug of the function that ran it."""


def _primary(error: BaseException) -> int | None:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def is_busy(error: BaseException) -> bool:
    """Whether somebody else holds a lock, so that trying again can succeed."""
    return _primary(error) in _BUSY


def ends_the_transaction(error: BaseException) -> bool:
    """Whether this is the store's failure rather than one statement's, so that the whole transaction is lost."""
    return _primary(error) in _WHOLE_BATCH


def breaks_the_connection(error: BaseException) -> bool:
    """Whether the connection must be opened anew before it is used again."""
    return _primary(error) in _BROKEN


def translate(error: BaseException, *, disk_full: bool = False) -> BaseException:
    """What the caller gets instead of `error`: a Refusal where it is the store's state, StatementFailed for any other
    error of SQLite, and `error` itself where it is none.

    `disk_full` says that the disk has no room, which SQLite reports as an I/O error in some places.
    """
    primary = _primary(error)
    if is_busy(error):
        return busy("another process holds the store")
    full = primary == sqlite3.SQLITE_FULL or (primary == sqlite3.SQLITE_IOERR and disk_full)
    if full or (isinstance(error, OSError) and error.errno in _NO_SPACE):
        return Refusal("storage_full", "the disk is full; nothing was written, reads go on")
    if primary in _WHOLE_BATCH or isinstance(error, OSError):
        return store_failed(name_of(error))
    return StatementFailed(str(error)) if isinstance(error, sqlite3.Error) else error


def another(failure: BaseException) -> BaseException:
    """The same failure as an object of its own: many callers raise it, and each adds its traceback."""
    if isinstance(failure, Refusal):
        return Refusal(failure.code, failure.message, **failure.data)
    return failure


def name_of(error: BaseException) -> str:
    """A short name of an error that a person can look up, such as SQLITE_IOERR_WRITE."""
    name: str = getattr(error, "sqlite_errorname", type(error).__name__)
    return name


def busy(why: str) -> Refusal:
    """A refusal that passes by itself."""
    return Refusal("busy", why, retry_after_ms=RETRY_AFTER_MS)


def store_failed(reason: str) -> Refusal:
    """The store cannot be used now; `reason` is for the operator."""
    return Refusal("store_failed", f"the store cannot be used ({reason}); see daemon/doctor", reason=reason)


def closed() -> Refusal:
    """The store was closed: the process is stopping."""
    return Refusal("draining", "the store is closed; the daemon is stopping")
