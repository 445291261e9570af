"""The state directory, and the lock in it that makes one process the leader (DESIGN 4.1, 5.2).

The lock is the truth: `flock` on a file that nobody deletes. The system releases it when its holder dies, however it
dies. What the file says is for people, and for those who could not take it.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from .places import LOCK, PROCESSES, NotPrivate, StartError, make_private_dir

OWNER_BYTES: Final = 16_384
"""The lock file is never longer; more is garbage."""


class StateDirRefused(StartError):
    """The state directory is not ours or cannot be used; it was left alone."""

    exit_code = 6


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds the lock, as it wrote itself down. `start_time` is RFC 3339, `kind` is daemon, stdio or restore."""

    pid: int
    start_time: str
    instance_id: str
    version: str
    kind: str
    state_dir: str
    socket: str | None = None


class AlreadyRunning(StartError):
    """Another process leads this directory. Nothing was touched."""

    exit_code = 75

    def __init__(self, state_dir: Path, owner: Owner | None) -> None:
        self.owner = owner
        who = "a process that has not said who it is"
        if owner is not None:
            where = f"socket {owner.socket}" if owner.socket else "no socket"
            who = f"pid {owner.pid}, kind {owner.kind}, {where}, started {owner.start_time}"
        super().__init__(f"already running: {state_dir} is led by {who}")


class StateDir(NamedTuple):
    """A state directory that was found or made ours and private."""

    path: Path
    narrowed: bool
    """It was open to others and is no longer: worth a warning."""

    @classmethod
    def take(cls, path: Path) -> StateDir:
        """Create it with mode 0700, or check that it is ours and narrow it. Raises StateDirRefused."""
        real = Path(os.path.realpath(path))
        try:
            narrowed = make_private_dir(real)
            make_private_dir(real / PROCESSES)
        except NotPrivate as error:
            raise StateDirRefused(f"state {error}") from error
        return cls(real, narrowed)

    @property
    def lock_path(self) -> Path:
        """The file whose lock is leadership."""
        return self.path / LOCK


class Lock:
    """The lock of one state directory, as this process holds it or not. Not for use by several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object took the lock and has not released it."""
        return self._fd is not None

    def try_acquire(self, owner: Owner) -> bool:
        """Take the lock and write `owner` down, or return False at once. Taking it again only rewrites the owner.

        Raises StateDirRefused where the file cannot be opened or locked at all.
        """
        if self._fd is None:
            try:
                self._fd = _open_locked(self.path)
            except OSError as error:
                raise StateDirRefused(f"lock {self.path} cannot be taken: {error.strerror}") from error
        if self._fd is not None:
            _write_owner(self._fd, owner)
        return self._fd is not None

    def release(self) -> None:
        """Let go, and say so in the file first. Nothing happens when it is not held."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        with suppress(OSError):
            os.ftruncate(fd, 0)
        # A child that is just being started may hold a copy of the descriptor: closing ours would not be enough.
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)

    def still_ours(self) -> bool:
        """Whether the lock is held, and on the file at its path: if it was replaced, another may lock the new one."""
        return self._fd is not None and _is_at(self._fd, self.path)


def read_owner(path: Path) -> Owner | None:
    """Who wrote itself into the lock file last; None for no file, an empty one or garbage.

    Only one who was refused the lock a moment ago may take it for the holder: a killed one leaves its name behind.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return msgspec.json.decode(os.read(fd, OWNER_BYTES), type=Owner)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    finally:
        os.close(fd)


def _open_locked(path: Path) -> int | None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between open and flock the file may have been replaced; then this lock is one that nobody else will meet.
        if _is_at(fd, path):
            return fd
    except BlockingIOError:
        pass
    except OSError:
        os.close(fd)
        raise
    os.close(fd)
    return None


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except OSError:
        return False


def _write_owner(fd: int, owner: Owner) -> None:
    # One write over the old text, padded to its length: no reader meets a half. A full disk does not unmake a leader.
    with suppress(OSError):
        text = (msgspec.json.encode(owner) + b"\n").rjust(min(os.fstat(fd).st_size, OWNER_BYTES))
        os.pwrite(fd, text, 0)
        os.ftruncate(fd, len(text))
