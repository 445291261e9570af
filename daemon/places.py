"""Where things are: one resolver for the daemon and for everything that looks for it (field 2.3, C17).

Standard library only and quick to import, because every call of the command line pays for it. Nothing here looks at the
process's own environment: it is handed in.
"""

from __future__ import annotations

import os
import pwd
import stat
import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

SOCKET_PATH_BYTES: Final = 107 if sys.platform == "linux" else 103
"""What fits into `sun_path` beside its terminator. Bytes, not characters."""

PROCESSES: Final = "processes"
"""Folder of the state directory with one lock file per living process (`instances`)."""
LOCK: Final = "interlock.lock"
"""File of the state directory whose lock is leadership (`leadership`)."""


class StartError(Exception):
    """The process cannot start. Its text is the last line on stderr, `exit_code` is of the contract (daemon 4.1)."""

    exit_code = 70


class PathTooLong(StartError):
    """A socket path does not fit into a socket address."""

    exit_code = 2

    def __init__(self, path: Path) -> None:
        self.path = path
        self.length = len(os.fsencode(path))
        self.limit = SOCKET_PATH_BYTES
        self.remedy = (
            "give a shorter one with --socket, or a shorter XDG_RUNTIME_DIR, or listen nowhere with --socket none"
        )
        super().__init__(f"socket path {path} has {self.length} bytes, the limit is {self.limit}: {self.remedy}")


class NotPrivate(StartError):
    """A directory that must be ours alone is not: `reason` says why."""

    exit_code = 69

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"directory {path} cannot be used: {reason}")


def state_dir(env: Mapping[str, str]) -> Path:
    """The state directory when nobody names another one: `$XDG_DATA_HOME/interlock`. It may not exist yet."""
    named = env.get("INTERLOCK_STATE_DIR")
    return absolute(named, env) if named else _xdg(env, "XDG_DATA_HOME", ".local/share") / "interlock"


def socket_path(state: Path, env: Mapping[str, str]) -> Path:
    """The socket of a state directory when nobody names another one. Raises PathTooLong.

    One per user and state directory: its name is a hash of the directory's real path, so that it stays short.
    """
    digest = sha256(os.fsencode(os.path.realpath(state))).hexdigest()[:8]
    path = socket_dir(env) / f"{digest}.sock"
    check_socket_length(path)
    return path


def socket_dir(env: Mapping[str, str]) -> Path:
    """The directory of the default sockets: in the runtime directory, else a private one among the temporary files."""
    runtime = env.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime) and _ours_or_creatable(runtime):
        return Path(runtime, "interlock")
    temporary = env.get("TMPDIR", "") if sys.platform == "darwin" else ""
    return Path(temporary or "/tmp", f"interlock-{os.geteuid()}")  # noqa: S108 (checked by private_dir before use)


def config_file(env: Mapping[str, str]) -> Path:
    """The user's configuration. It need not exist."""
    return _xdg(env, "XDG_CONFIG_HOME", ".config") / "interlock" / "config.toml"


def log_file(env: Mapping[str, str]) -> Path:
    """Where the stderr of a daemon goes that a client started."""
    return _xdg(env, "XDG_STATE_HOME", ".local/state") / "interlock" / "interlockd.log"


def absolute(text: str, env: Mapping[str, str]) -> Path:
    """A path that a person wrote, made absolute; a leading `~/` is the home directory, also in a file or a variable."""
    path = Path(text)
    if path.parts[:1] == ("~",):
        path = home(env).joinpath(*path.parts[1:])
    return Path(os.path.abspath(path))


def home(env: Mapping[str, str]) -> Path:
    """`$HOME`, or what the user database says."""
    named = env.get("HOME", "")
    return Path(named if os.path.isabs(named) else pwd.getpwuid(os.getuid()).pw_dir)


def check_socket_length(path: Path) -> None:
    """Raise PathTooLong unless `path` fits into a socket address."""
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise PathTooLong(path)


def is_own_socket_dir(directory: Path) -> bool:
    """Whether a directory bears the name of our default ones, so that it must be private and may be made so."""
    return directory.name in {"interlock", f"interlock-{os.geteuid()}"}


def check_private_dir(path: Path) -> None:
    """Raise NotPrivate unless `path` is a real directory, ours, and closed to everybody else. Changes nothing.

    A client asks this before it trusts a socket among the temporary files, where anyone may have been first.
    """
    try:
        found = os.lstat(path)
    except OSError as error:
        raise NotPrivate(path, error.strerror or str(error)) from error
    reason = _not_ours(found) or ("it is open to others" if found.st_mode & 0o077 else None)
    if reason:
        raise NotPrivate(path, reason)


def make_private_dir(path: Path) -> bool:
    """Create `path` with mode 0700, missing parents too, or narrow it when it is ours. True when it had to be narrowed.

    Raises NotPrivate: it is a link, no directory, somebody else's, or cannot be created. Then it is left alone.
    """
    try:
        _make_all(path)
        return _narrow(path)
    except OSError as error:
        raise NotPrivate(path, error.strerror or str(error)) from error


def _make_all(path: Path) -> None:
    if os.path.lexists(path):
        return
    _make_all(path.parent)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:  # somebody else was quicker: what it is gets checked next
        return


def _narrow(path: Path) -> bool:
    # What was checked is what is changed: both go through one descriptor, and a link is looked at, never followed.
    reason = _not_ours(os.lstat(path))
    if reason:
        raise NotPrivate(path, reason)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        reason = _not_ours(found)
        if reason:
            raise NotPrivate(path, reason)
        wide = bool(found.st_mode & 0o077)
        if wide or found.st_mode & 0o700 != 0o700:
            os.fchmod(fd, 0o700)
        return wide
    finally:
        os.close(fd)


def _not_ours(found: os.stat_result) -> str | None:
    if stat.S_ISLNK(found.st_mode):
        return "it is a symbolic link"
    if not stat.S_ISDIR(found.st_mode):
        return "it is no directory"
    if found.st_uid != os.geteuid():
        return f"it belongs to user {found.st_uid}, not to {os.geteuid()}"
    return None


def _ours_or_creatable(directory: str) -> bool:
    # After `su` the variable still names the other user's directory; in a container it names one that nobody made.
    try:
        found = os.stat(directory)
    except FileNotFoundError:
        return os.access(_nearest_existing(directory), os.W_OK)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _nearest_existing(directory: str) -> str:
    while not os.path.exists(directory):
        directory = os.path.dirname(directory)
    return directory


def _xdg(env: Mapping[str, str], variable: str, fallback: str) -> Path:
    # A relative path in such a variable is to be ignored (XDG base directory specification).
    named = env.get(variable, "")
    return Path(named) if os.path.isabs(named) else home(env) / fallback
