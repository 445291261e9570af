"""One leader per state directory, whatever way the last one went."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.daemon.leadership import OWNER_BYTES, AlreadyRunning, Lock, Owner, StateDir, StateDirRefused, read_owner

from .foreign import foreign_dir, mode_of, without_privileges

OWNER = Owner(
    pid=7,
    start_time="2026-12-01T12:00:00.000Z",
    instance_id="instance_1",
    version="0.1.0",
    kind="daemon",
    state_dir="/s",
    socket="/s.sock",
)

HOLDER = """
import subprocess, sys
from pathlib import Path
from interlock.daemon.leadership import Lock, Owner
lock = Lock(Path(sys.argv[1]))
assert lock.try_acquire(Owner(pid=1, start_time="t", instance_id="held", version="v", kind="stdio", state_dir="/s"))
child = subprocess.Popen(["cat"], stdin=sys.stdin, stdout=subprocess.DEVNULL, close_fds=False)
print(child.pid, flush=True)
child.wait()
"""


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock, and started a child that inherits what can be inherited."""
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process
        process.kill()


def test_a_state_directory_is_made_private_with_its_parents(tmp_path: Path) -> None:
    taken = StateDir.take(tmp_path / "a/state")
    assert taken == (tmp_path / "a/state", False)
    made = [tmp_path / "a", tmp_path / "a/state", tmp_path / "a/state/processes"]
    assert [mode_of(path) for path in made] == [0o700] * 3
    assert StateDir.take(tmp_path / "a/state") == taken


def test_one_of_ours_that_is_open_is_narrowed_and_that_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(0o777)
    assert StateDir.take(folder).narrowed is True
    assert mode_of(folder) == 0o700


def test_a_link_to_a_directory_of_ours_is_that_directory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    assert StateDir.take(tmp_path / "link").path == tmp_path / "real"


def test_a_directory_of_somebody_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    folder = foreign_dir(tmp_path)
    before = (mode_of(folder), sorted(os.listdir(folder)))
    with pytest.raises(StateDirRefused, match=f"{folder}.*belongs to user") as refused:
        StateDir.take(folder)
    assert refused.value.exit_code == 6
    assert (mode_of(folder), sorted(os.listdir(folder))) == before


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(StateDirRefused, match="no directory"):
        StateDir.take(tmp_path / "state")


def test_a_directory_that_may_not_be_made_is_refused() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with without_privileges(folder):
            folder.chmod(0o500)
            with pytest.raises(StateDirRefused, match="Permission denied"):
                StateDir.take(folder / "state")
            folder.chmod(0o700)


def test_the_lock_is_taken_once_and_says_who_has_it(tmp_path: Path) -> None:
    path = StateDir.take(tmp_path / "state").lock_path
    first, second = Lock(path), Lock(path)
    assert first.try_acquire(OWNER) is True
    assert (first.held, first.still_ours(), read_owner(path)) == (True, True, OWNER)
    assert second.try_acquire(OWNER) is False
    assert (second.held, second.still_ours()) == (False, False)
    assert mode_of(path) == 0o600


def test_a_released_lock_names_nobody_and_is_free(tmp_path: Path) -> None:
    path = tmp_path / "interlock.lock"
    first, second = Lock(path), Lock(path)
    first.release()
    first.try_acquire(OWNER)
    first.release()
    first.release()
    assert (first.held, read_owner(path), path.exists()) == (False, None, True)
    assert second.try_acquire(OWNER) is True
    assert first.try_acquire(OWNER) is False


def test_taking_it_again_writes_the_owner_anew(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "interlock.lock")
    lock.try_acquire(OWNER)
    listening = Owner(pid=7, start_time="t", instance_id="i", version="v", kind="stdio", state_dir="/s")
    assert lock.try_acquire(listening) is True
    assert read_owner(lock.path) == listening
    assert lock.try_acquire(OWNER) is True
    assert read_owner(lock.path) == OWNER


def test_the_lock_of_a_living_process_is_refused_and_of_a_killed_one_is_free(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "interlock.lock")
    with holder(lock.path) as process:
        assert lock.try_acquire(OWNER) is False
        owner = read_owner(lock.path)
        assert owner is not None
        assert (owner.instance_id, owner.kind, owner.socket) == ("held", "stdio", None)
        process.send_signal(signal.SIGKILL)
        process.wait()
        # Its child lives still: it waits for an input that this test keeps open.
        assert lock.try_acquire(OWNER) is True
    assert read_owner(lock.path) == OWNER


def test_a_copy_of_the_descriptor_in_a_child_does_not_outlive_the_release(tmp_path: Path) -> None:
    lock, other = Lock(tmp_path / "interlock.lock"), Lock(tmp_path / "interlock.lock")
    lock.try_acquire(OWNER)
    numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    (fd,) = [n for n in numbers if os.path.realpath(f"/proc/self/fd/{n}") == str(lock.path)]
    copy = os.dup(fd)
    lock.release()
    assert other.try_acquire(OWNER) is True
    os.close(copy)


def test_a_lock_file_that_was_replaced_is_noticed_by_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "interlock.lock"
    first, second = Lock(path), Lock(path)
    first.try_acquire(OWNER)
    path.unlink()
    assert first.still_ours() is False
    assert second.try_acquire(OWNER) is True
    assert (first.still_ours(), second.still_ours()) == (False, True)
    path.unlink()
    assert second.still_ours() is False


@pytest.mark.parametrize("what", ["a directory", "a link"])
def test_a_lock_that_is_no_file_is_refused(tmp_path: Path, what: str) -> None:
    path = tmp_path / "interlock.lock"
    if what == "a directory":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateDirRefused, match="cannot be taken"):
        Lock(path).try_acquire(OWNER)
    assert not (tmp_path / "elsewhere").exists()
    assert read_owner(path) is None


def test_an_owner_is_read_from_no_file_as_from_garbage(tmp_path: Path) -> None:
    assert read_owner(tmp_path / "missing") is None


@given(st.binary(max_size=200) | st.sampled_from([b"{}", b"[]", b'{"pid": "x"}', b"\xff", b"0" * (OWNER_BYTES + 1)]))
def test_whatever_lies_in_the_file_is_tolerated_and_overwritten(
    tmp_path_factory: pytest.TempPathFactory, garbage: bytes
) -> None:
    path = tmp_path_factory.mktemp("lock") / "interlock.lock"
    path.write_bytes(garbage)
    assert read_owner(path) is None
    lock = Lock(path)
    assert lock.try_acquire(OWNER) is True
    assert read_owner(path) == OWNER
    lock.release()


def test_already_running_names_pid_kind_and_socket() -> None:
    error = AlreadyRunning(Path("/s"), OWNER)
    assert (error.exit_code, error.owner) == (75, OWNER)
    for part in ("already running", "/s", "pid 7", "kind daemon", "socket /s.sock"):
        assert part in str(error)
    quiet = Owner(pid=7, start_time="t", instance_id="i", version="v", kind="stdio", state_dir="/s")
    assert "no socket" in str(AlreadyRunning(Path("/s"), quiet))
    assert "has not said who" in str(AlreadyRunning(Path("/s"), None))
