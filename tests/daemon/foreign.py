"""What belongs to somebody else, whoever runs the tests."""

from __future__ import annotations

import os
from pathlib import Path


def foreign_dir(tmp_path: Path) -> Path:
    """A directory of another user: root gives one away, anybody else takes one of root's."""
    if os.geteuid() != 0:
        return Path("/usr")
    folder = tmp_path / "foreign"
    folder.mkdir(mode=0o755)
    os.chown(folder, 65_534, 65_534)
    return folder


def mode_of(path: Path) -> int:
    """Permission bits of a file that is not followed."""
    return path.lstat().st_mode & 0o7777
