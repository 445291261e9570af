"""What belongs to somebody else, and what an ordinary user may not do, whoever runs the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def foreign_dir(tmp_path: Path) -> Path:
    """A directory of another user: root gives one away, anybody else takes one of root's."""
    if os.geteuid() != 0:
        return Path("/usr")
    folder = tmp_path / "foreign"
    folder.mkdir(mode=0o755)
    os.chown(folder, 65_534, 65_534)
    return folder


@contextmanager
def without_privileges(folder: Path) -> Iterator[None]:
    """As somebody whom permissions stop, with `folder` and what is in it as their own. Root becomes nobody for now.

    Not with pytest's own temporary folders: they are below one of root's that nobody may enter.
    """
    if os.geteuid() != 0:
        yield
        return
    for path in folder, *folder.rglob("*"):
        os.chown(path, 65_534, 65_534, follow_symlinks=False)
    os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(0)


def mode_of(path: Path) -> int:
    """Permission bits of a file that is not followed."""
    return path.lstat().st_mode & 0o7777
