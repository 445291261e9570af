"""What the file system says about the store's files. Nothing here opens one of them: closing a second descriptor of a
database drops the locks that SQLite holds on it in this process."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from .errors import store_failed

NETWORK_FS: Final = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs",
        "gfs2", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "smb3", "smbfs", "vboxsf",
    }
)  # fmt: skip
"""Where locks and shared memory, which write-ahead logging needs, cannot be relied on."""

_MOUNTS: Final = Path("/proc/self/mountinfo")
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


def fs_type(path: Path, *, mounts: Path = _MOUNTS) -> str:
    """The type of the file system that holds `path` (which need not exist yet), `unknown` where nobody says."""
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return "unknown"
    real = path.resolve()
    best, found = -1, "unknown"
    for line in lines:
        # proc(5): id, parent, device, root, mount point, options, optional fields, "-", type, source, options
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) < 5 or not right:
            continue
        point = Path(_ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4]))
        # of two mounts on one point the later covers the earlier
        if len(point.parts) >= best and real.is_relative_to(point):
            best, found = len(point.parts), right.split(" ")[0]
    return found


def is_network_fs(path: Path, *, mounts: Path = _MOUNTS) -> bool:
    """Whether `path` lies where a store must not."""
    return fs_type(path, mounts=mounts) in NETWORK_FS


def free_bytes(path: Path) -> int:
    """What an unprivileged process can still write to the file system of `path`. Raises OSError."""
    stat = os.statvfs(path)
    return stat.f_bavail * stat.f_frsize


def total_bytes(path: Path) -> int:
    """The size of the file system of `path`. Raises OSError."""
    stat = os.statvfs(path)
    return stat.f_blocks * stat.f_frsize


class StoreFile:
    """The database file at a path, by device and inode, and its write-ahead log.

    A file that was renamed away or unlinked while it is open takes writes as if nothing had happened, and they are gone
    with it. So each batch asks before and after whether the file at the path is still the one that was opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._name = str(path)
        self._wal = f"{path}-wal"
        self._identity: tuple[int, int] | None = None

    def remember(self) -> None:
        """Take the file that is there now for ours. Raises OSError."""
        self._identity = self._now()

    def check(self) -> None:
        """Raises `store_failed` where the file at the path is not the remembered one."""
        try:
            now: tuple[int, int] | None = self._now()
        except OSError:
            now = None
        if now != self._identity:
            what = "is gone from its path" if now is None else "at its path is another one"
            raise store_failed(f"file_replaced: the file that was opened {what}: {self.path}; put it back or restart")

    def log_state(self) -> tuple[int, int]:
        """Size in bytes and time of change of the write-ahead log; zeros where there is none."""
        try:
            stat = os.stat(self._wal)
        except OSError:
            return (0, 0)
        return (stat.st_size, stat.st_mtime_ns)

    def disk_full(self) -> bool:
        """Whether the disk has no room for a page."""
        try:
            return free_bytes(self.path.parent) < 65536
        except OSError:
            return False

    def _now(self) -> tuple[int, int]:
        stat = os.stat(self._name)
        return (stat.st_dev, stat.st_ino)
