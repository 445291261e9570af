"""The socket: private from the first moment, never taken from anybody, removed only by its own process."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from interlock.daemon.places import PathTooLong
from interlock.daemon.sockets import (
    SocketUnavailable,
    bind,
    peer_allowed,
    peer_uid,
    still_ours,
    unlink_own,
)

from .foreign import foreign_dir, mode_of, without_privileges


@pytest.fixture
def folder() -> Iterator[Path]:
    """A private directory with a short name: a socket address holds 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="il") as name:
        yield Path(name)


def left_over(path: Path) -> None:
    """A socket file whose process is gone."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))


def reason(path: Path) -> str:
    """Why it cannot be bound; the exit code is 69."""
    with pytest.raises(SocketUnavailable) as refused:
        bind(path)
    assert (refused.value.exit_code, refused.value.path) == (69, path)
    return refused.value.reason


def test_a_bound_socket_is_private_listens_and_is_not_inherited(folder: Path) -> None:
    path = folder / "new/s.sock"
    before = os.umask(0o000)
    try:
        listener = bind(path)
    finally:
        during = os.umask(before)
    with closing(listener.socket):
        assert during == 0o000
        assert (mode_of(path), mode_of(path.parent)) == (0o600, 0o700)
        assert (listener.socket.getblocking(), listener.socket.get_inheritable()) == (False, False)
        assert listener.identity == (path.stat().st_dev, path.stat().st_ino)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))


def test_a_path_that_is_too_long_touches_nothing(folder: Path) -> None:
    with pytest.raises(PathTooLong):
        bind(folder / "new" / ("x" * 107))
    assert list(folder.iterdir()) == []


def test_a_left_over_socket_gives_way(folder: Path) -> None:
    path = folder / "s.sock"
    left_over(path)
    with closing(bind(path).socket):
        assert (os.listdir(folder), mode_of(path)) == (["s.sock"], 0o600)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))


def test_a_live_listener_is_not_evicted(folder: Path) -> None:
    path = folder / "s.sock"
    with closing(bind(path).socket) as first:
        before = path.stat()
        assert "somebody listens" in reason(path)
        assert os.path.samestat(before, path.stat())
        first.accept()[0].close()  # the question
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            first.accept()[0].close()


def test_a_listener_too_busy_to_accept_lives(folder: Path) -> None:
    path = folder / "s.sock"
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
        busy.bind(str(path))
        busy.listen(0)
        waiting.connect(str(path))
        assert "somebody listens" in reason(path)


@pytest.mark.parametrize("what", ["file", "folder", "link", "fifo"])
def test_what_is_no_socket_is_left_alone(folder: Path, what: str) -> None:
    path = folder / "s.sock"
    match what:
        case "file":
            path.write_text("precious", "utf-8")
        case "folder":
            path.mkdir()
        case "link":
            left_over(folder / "elsewhere")
            path.symlink_to(folder / "elsewhere")
        case _:
            os.mkfifo(path)
    before = path.lstat()
    assert "no socket" in reason(path)
    assert os.path.samestat(before, path.lstat())


def test_a_socket_of_another_kind_is_left_alone(folder: Path) -> None:
    path = folder / "s.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(path))
        assert "protocol" in reason(path)
    assert path.exists()


@pytest.mark.parametrize("below", ["s.sock", "deeper/s.sock"])
def test_a_directory_that_cannot_be_one_is_refused(folder: Path, below: str) -> None:
    (folder / "file").touch()
    assert "directory" in reason(folder / "file" / below)


def test_a_directory_that_cannot_be_made_is_refused() -> None:
    # Not even root makes one there.
    assert "/proc/interlock" in reason(Path("/proc/interlock/s.sock"))


def test_what_permissions_forbid_is_refused_with_that_reason(folder: Path) -> None:
    left_over(folder / "s.sock")
    with without_privileges(folder):
        folder.chmod(0o500)
        assert "cannot be removed" in reason(folder / "s.sock")
        assert "permission denied" in reason(folder / "other.sock")
        (folder / "s.sock").chmod(0o000)
        assert "permission denied" in reason(folder / "s.sock")
        folder.chmod(0o000)
        assert "permission denied" in reason(folder / "s.sock")
        assert "permission denied" in reason(folder / "deeper/s.sock").lower()
        folder.chmod(0o700)
    assert (folder / "s.sock").is_socket()


def test_a_socket_file_that_cannot_be_removed_at_the_end_is_left(folder: Path) -> None:
    with without_privileges(folder):
        listener = bind(folder / "s.sock")
        with closing(listener.socket):
            folder.chmod(0o500)
            assert unlink_own(folder / "s.sock", listener.identity) is False
            folder.chmod(0o700)
            assert unlink_own(folder / "s.sock", listener.identity) is True


def test_our_own_kind_of_directory_is_narrowed_and_must_be_ours(tmp_path: Path, folder: Path) -> None:
    own = folder / "interlock"
    own.mkdir()
    own.chmod(0o777)
    bind(own / "s.sock").socket.close()
    assert mode_of(own) == 0o700
    (folder / "real").mkdir(mode=0o700)
    link = folder / f"interlock-{os.geteuid()}"
    link.symlink_to("real")
    assert "symbolic link" in reason(link / "s.sock")
    assert os.listdir(folder / "real") == []


def test_a_directory_that_a_person_chose_is_not_changed(folder: Path) -> None:
    folder.chmod(0o755)
    bind(folder / "s.sock").socket.close()
    assert mode_of(folder) == 0o755


def test_a_directory_where_anybody_can_replace_files_is_refused_unless_it_is_sticky(folder: Path) -> None:
    folder.chmod(0o777)
    assert "anybody can replace" in reason(folder / "s.sock")
    assert os.listdir(folder) == []
    folder.chmod(0o1777)
    bind(folder / "s.sock").socket.close()


def test_only_our_own_file_is_removed(folder: Path) -> None:
    path = folder / "s.sock"
    listener = bind(path)
    with closing(listener.socket):
        assert still_ours(path, listener.identity)
        os.rename(path, folder / "kept")
        assert not still_ours(path, listener.identity)
        left_over(path)
        assert not still_ours(path, listener.identity)
        assert unlink_own(path, listener.identity) is False
        assert path.exists()
        os.rename(folder / "kept", path)
        assert unlink_own(path, listener.identity) is True
        assert not path.exists()
        assert unlink_own(path, listener.identity) is False


def test_a_socket_in_a_folder_that_vanished_is_not_ours_any_more(folder: Path) -> None:
    path = folder / "new/s.sock"
    listener = bind(path)
    with closing(listener.socket):
        path.unlink()
        path.parent.rmdir()
        assert unlink_own(path, listener.identity) is False


def test_a_number_is_not_given_to_another_file_while_the_socket_is_open(folder: Path) -> None:
    path = folder / "s.sock"
    listener = bind(path)
    with closing(listener.socket):
        path.unlink()
        for _ in range(50):
            left_over(path)
            assert not still_ours(path, listener.identity)
            path.unlink()


def test_the_system_vouches_for_the_user_at_the_other_end(folder: Path) -> None:
    listener = bind(folder / "s.sock")
    listener.socket.setblocking(True)
    with closing(listener.socket), socket.socket(socket.AF_UNIX) as client:
        connecting = threading.Thread(target=client.connect, args=(str(folder / "s.sock"),))
        connecting.start()
        accepted, _ = listener.socket.accept()
        connecting.join()
        with closing(accepted):
            assert peer_uid(accepted) == os.geteuid()


def test_who_is_not_at_a_socket_has_no_user(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET) as sock:
        assert not peer_allowed(peer_uid(sock))


def test_ourselves_and_root_are_served_and_nobody_else() -> None:
    assert peer_allowed(os.geteuid())
    assert peer_allowed(0)
    others = [uid for uid in (1, 1000, 65_534, 2**32 - 1) if uid != os.geteuid()]
    assert not any(peer_allowed(uid) for uid in others)


def test_a_foreign_directory_is_no_place_for_our_socket(tmp_path: Path) -> None:
    # Root may write there, but a directory of our own name that is somebody else's is a trap.
    foreign = foreign_dir(tmp_path)
    if os.geteuid() == 0:
        os.rename(foreign, tmp_path / "interlock")
        assert "belongs to user" in reason(tmp_path / "interlock/s.sock")
    else:
        assert "denied" in reason(foreign / "s.sock")
