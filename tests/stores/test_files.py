"""What the file system says, and whether the file at the path is still ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.lifecycle.refusal import Refusal
from interlock.stores import files

MOUNTS = """\
22 28 0:20 / /proc rw,nosuid - proc proc rw
28 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
31 28 0:40 / /net rw - nfs4 server:/export rw
32 31 0:41 / /net/local rw master:1 propagate_from:2 - tmpfs tmpfs rw
33 28 0:42 / /with\\040blank rw - cifs //server/share rw
34 28 0:43 / /twice rw - ext4 /dev/vdb rw
35 28 0:44 / /twice rw - fuse.sshfs host: rw
garbled
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS, "utf-8")
    return table


@pytest.mark.parametrize(
    ("path", "expected", "network"),
    [
        ("/home/me/state", "ext4", False),
        ("/net", "nfs4", True),
        ("/net/state/not/yet/there", "nfs4", True),
        ("/network", "ext4", False),
        ("/net/local/state", "tmpfs", False),
        ("/with blank/state", "cifs", True),
        ("/twice/state", "fuse.sshfs", True),
    ],
)
def test_the_longest_mount_point_that_holds_the_path_decides(
    mounts: Path, path: str, expected: str, network: bool
) -> None:
    assert files.fs_type(Path(path), mounts=mounts) == expected
    assert files.is_network_fs(Path(path), mounts=mounts) is network


def test_a_link_is_judged_by_where_it_leads(mounts: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/net/state")
    assert files.fs_type(tmp_path / "link" / "x", mounts=mounts) == "nfs4"


def test_without_a_mount_table_the_type_is_unknown(tmp_path: Path) -> None:
    assert files.fs_type(tmp_path, mounts=tmp_path / "absent") == "unknown"
    assert not files.is_network_fs(tmp_path, mounts=tmp_path / "absent")


def test_this_machine_has_a_file_system_with_room(tmp_path: Path) -> None:
    assert files.fs_type(tmp_path)
    assert 0 < files.free_bytes(tmp_path) <= files.total_bytes(tmp_path)


def test_a_file_is_known_by_its_inode_not_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.write_bytes(b"ours")
    file = files.StoreFile(path)
    file.remember()
    file.check()

    path.rename(tmp_path / "aside")
    with pytest.raises(Refusal, match="is gone from its path") as gone:
        file.check()
    assert gone.value.code == "store_failed"

    path.write_bytes(b"ours")
    with pytest.raises(Refusal, match="at its path is another one") as other:
        file.check()
    assert str(other.value.data["reason"]).startswith("file_replaced")

    (tmp_path / "aside").rename(path)
    file.check()


def test_the_log_has_a_size_once_it_is_there(tmp_path: Path) -> None:
    file = files.StoreFile(tmp_path / "store")
    assert file.log_state() == (0, 0)
    (tmp_path / "store-wal").write_bytes(b"123")
    assert file.log_state()[0] == 3
