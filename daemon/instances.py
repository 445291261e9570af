"""Which processes of a state directory live: each holds a lock on a file of its own for as long as it does.

That works where process ids do not: across pid namespaces, after a reuse of ids, after SIGKILL (C10, C108). A process
makes its Presence before its instance id appears anywhere else, so an id that somebody knows and whose file is missing
is dead.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from .places import PROCESSES

_SUFFIX: Final = ".lock"
_STARTING: Final = ".starting"
_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


class Presence:
    """This process's file. It appears under its name only when it is locked, so nobody meets it unlocked and alive."""

    def __init__(self, state_dir: Path, instance_id: str) -> None:
        """Create and lock the file, and remove what others left that died while they did so. Raises OSError."""
        folder = state_dir / PROCESSES
        _sweep_unfinished(folder)
        self.path = _file(state_dir, instance_id)
        self._fd: int | None = None
        while self._fd is None:
            self._fd = _create_locked(folder / f"{instance_id}{_STARTING}", self.path)

    def release(self) -> None:
        """Remove the file and let go of it. Nothing happens the second time."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        self.path.unlink(missing_ok=True)
        fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


def listed(state_dir: Path) -> list[str]:
    """The instance ids that have a file, dead or alive: also of those that left nothing in the store."""
    found = (name.removesuffix(_SUFFIX) for name in os.listdir(state_dir / PROCESSES) if name.endswith(_SUFFIX))
    return sorted(name for name in found if _ID.fullmatch(name))  # a file of another name is not ours


def dead_instances(state_dir: Path, known: Iterable[str]) -> list[str]:
    """Those of `known` that live no more, in the same order. What cannot be judged counts as alive."""
    return [instance_id for instance_id in known if _is_dead(_file(state_dir, instance_id))]


def forget(state_dir: Path, instance_id: str) -> bool:
    """Remove the file of a dead instance, after its traces in the store. False, and nothing done, when it lives."""
    path = _file(state_dir, instance_id)
    if not _is_dead(path):
        return False
    path.unlink(missing_ok=True)
    return True


def _file(state_dir: Path, instance_id: str) -> Path:
    if not _ID.fullmatch(instance_id):
        raise ValueError(f"{instance_id!r} is no instance id")
    return state_dir / PROCESSES / f"{instance_id}{_SUFFIX}"


def _create_locked(temporary: Path, final: Path) -> int | None:
    """The descriptor, or None when somebody's sweep was quicker than our lock."""
    fd = os.open(temporary, _FLAGS | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.rename(temporary, final)
    except FileNotFoundError:
        os.close(fd)
        return None
    except OSError:
        os.close(fd)
        raise
    return fd


def _is_dead(path: Path) -> bool:
    # Shared: two who ask at once must not take each other for the living.
    try:
        fd = os.open(path, _FLAGS)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


def _sweep_unfinished(folder: Path) -> None:
    for name in os.listdir(folder):
        path = folder / name
        if name.endswith(_STARTING) and _is_dead(path):
            path.unlink(missing_ok=True)
