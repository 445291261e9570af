"""The Unix socket: bound without ever evicting anybody, private, and removed only by the process that bound it.

asyncio's own helpers unlink whatever lies at the path, a live server's socket included (C13); so does no line here.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
import sys
from pathlib import Path
from typing import Final, NamedTuple

from .places import NotPrivate, StartError, check_socket_length, is_own_socket_dir, make_private_dir

BACKLOG: Final = 512
CONNECT_SECONDS: Final = 2.0
"""How long the one at the path may take to accept; who is that slow lives."""


class SocketUnavailable(StartError):
    """The socket cannot be bound. What was found at the path was left alone."""

    exit_code = 69

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"socket {path} cannot be bound: {reason}")


class Identity(NamedTuple):
    """Which file a socket is, whatever its path says later. The number is not reused while the socket is open."""

    st_dev: int
    st_ino: int


class Listener(NamedTuple):
    """A bound, listening, non-blocking socket, and the file that it is."""

    socket: socket.socket
    identity: Identity


def bind(path: Path) -> Listener:
    """Listen on `path`, mode 0600. Only the holder of the leadership lock may call it.

    A socket file that nobody listens on any more is unlinked, once; anything else at the path stays. A missing
    directory is made private. Raises SocketUnavailable, and PathTooLong before anything is touched.
    """
    check_socket_length(path)
    _prepare_directory(path)
    _clear_leftover(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _bind_private(sock, path)
        found = os.lstat(path)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise SocketUnavailable(path, _reason(error)) from error
    return Listener(sock, Identity(found.st_dev, found.st_ino))


def still_ours(path: Path, identity: Identity) -> bool:
    """Whether the file at `path` is the one that was bound: a cleaner may have removed it, and another may be there."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return Identity(found.st_dev, found.st_ino) == identity


def unlink_own(path: Path, identity: Identity) -> bool:
    """Remove the socket file if it is still ours. Call it before the socket is closed. True when it was removed."""
    if not still_ours(path, identity):
        return False
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def peer_uid(sock: socket.socket) -> int:
    """The user at the other end of a connected socket, as the system vouches for it. Raises OSError."""
    if sys.platform == "linux":
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
        return int(struct.unpack("iII", credentials)[1])
    # macOS and the BSDs: struct xucred starts with its version and the uid.
    sol_local, local_peercred = 0, 1
    return int(struct.unpack_from("II", sock.getsockopt(sol_local, local_peercred, 76))[1])


def peer_allowed(uid: int) -> bool:
    """Whether a connection of this user is served: our own and root's (DESIGN 5.4)."""
    return uid in (0, os.geteuid())


def _prepare_directory(path: Path) -> None:
    folder = path.parent
    try:
        # A directory of ours is made private. One that a person chose is theirs: checked, never changed.
        if is_own_socket_dir(folder) or not folder.exists():
            make_private_dir(folder)
            return
    except NotPrivate as error:
        raise SocketUnavailable(path, str(error)) from error
    except OSError as error:
        raise SocketUnavailable(path, _reason(error)) from error
    found = folder.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise SocketUnavailable(path, f"{folder} is no directory")
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise SocketUnavailable(path, f"anybody can replace files in {folder}; choose a directory of your own")


def _clear_leftover(path: Path) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise SocketUnavailable(path, _reason(error)) from error
    if not stat.S_ISSOCK(found.st_mode):
        raise SocketUnavailable(path, "a file that is no socket is there; it was left alone")
    if _is_leftover(path) and not unlink_own(path, Identity(found.st_dev, found.st_ino)):
        raise SocketUnavailable(path, "a left-over socket is there and cannot be removed")


def _is_leftover(path: Path) -> bool:
    """Whether nobody listens. Raises SocketUnavailable for a listener, and for all that is not a refused connect."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_SECONDS)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return True
        except FileNotFoundError:
            return False
        except OSError as error:
            full = isinstance(error, TimeoutError) or error.errno == errno.EAGAIN
            raise SocketUnavailable(path, "somebody listens there" if full else _reason(error)) from error
    raise SocketUnavailable(path, "somebody listens there")


def _bind_private(sock: socket.socket, path: Path) -> None:
    # The mode must be right from the first moment: between bind and chmod the socket would be open to all (C103).
    before = os.umask(0o177)
    try:
        sock.bind(os.fspath(path))
    finally:
        os.umask(before)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
