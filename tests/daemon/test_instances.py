"""Who lives is who holds its lock."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock.daemon.instances import Presence, dead_instances, forget, listed
from interlock.daemon.leadership import StateDir

PRESENT = """
import sys
from pathlib import Path
from interlock.daemon.instances import Presence
presence = Presence(Path(sys.argv[1]), sys.argv[2])
print("here", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory."""
    return StateDir.take(tmp_path / "state").path


@contextmanager
def process_of(state: Path, instance_id: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that is present."""
    command = [sys.executable, "-c", PRESENT, str(state), instance_id]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        yield process
        process.kill()


def test_a_process_lives_until_it_is_killed(state: Path) -> None:
    with process_of(state, "other") as process:
        assert dead_instances(state, ["other"]) == []
        assert forget(state, "other") is False
        assert listed(state) == ["other"]
        process.kill()
        process.wait()
        assert dead_instances(state, ["other"]) == ["other"]
        assert listed(state) == ["other"]
        assert forget(state, "other") is True
    assert listed(state) == []


def test_the_present_one_lives_also_for_itself_and_is_gone_when_released(state: Path) -> None:
    presence = Presence(state, "me")
    assert dead_instances(state, ["me"]) == []
    presence.release()
    presence.release()
    assert dead_instances(state, ["me"]) == ["me"]
    assert listed(state) == []


def test_one_that_has_no_file_is_dead_and_forgotten_without_ado(state: Path) -> None:
    assert dead_instances(state, ["b", "a"]) == ["b", "a"]
    assert forget(state, "a") is True


def test_those_who_ask_at_once_do_not_take_each_other_for_the_living(state: Path) -> None:
    Presence(state, "gone").release()
    (state / "processes/gone.lock").touch(0o600)
    found: list[list[str]] = []
    start = threading.Barrier(8)

    def ask() -> None:
        start.wait()
        found.extend(dead_instances(state, ["gone"]) for _ in range(200))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [["gone"]] * 1600


def test_a_process_that_is_just_starting_is_never_seen_dead(state: Path) -> None:
    # Others start at the same time, and each sweeps away what it takes for left over.
    problems: list[str] = []

    def come_and_go(name: str) -> None:
        for number in range(100):
            presence = Presence(state, f"{name}-{number}")
            problems.extend(dead_instances(state, [f"{name}-{number}"]))
            presence.release()

    def watch(stop: threading.Event) -> None:
        while not stop.is_set():
            ids = listed(state)
            dead = dead_instances(state, ids)
            problems.extend(i for i in dead if (state / f"processes/{i}.lock").exists())

    stop = threading.Event()
    watcher = threading.Thread(target=watch, args=(stop,))
    workers = [threading.Thread(target=come_and_go, args=(f"w{n}",)) for n in range(4)]
    for thread in (watcher, *workers):
        thread.start()
    for thread in workers:
        thread.join()
    stop.set()
    watcher.join()
    assert problems == []
    assert os.listdir(state / "processes") == []


def test_what_a_process_left_that_died_while_starting_is_removed_by_the_next(state: Path) -> None:
    leftover = state / "processes/half.starting"
    leftover.touch(0o600)
    assert listed(state) == []
    presence = Presence(state, "next")
    assert not leftover.exists()
    presence.release()


def test_what_cannot_be_judged_counts_as_alive(state: Path) -> None:
    (state / "processes/odd.lock").mkdir()
    (state / "processes/link.lock").symlink_to("nowhere")
    assert dead_instances(state, ["odd", "link"]) == []
    assert forget(state, "odd") is False


def test_a_name_that_is_no_file_name_is_no_instance_id(state: Path) -> None:
    for name in ("", "a/b", "..", ".hidden", "a b", "x" * 129):
        with pytest.raises(ValueError, match="no instance id"):
            Presence(state, name)
        with pytest.raises(ValueError, match="no instance id"):
            dead_instances(state, [name])


def test_a_name_that_is_taken_by_something_else_is_an_error(state: Path) -> None:
    (state / "processes/me.lock").mkdir()
    with pytest.raises(IsADirectoryError):
        Presence(state, "me")


def test_without_a_state_directory_nobody_can_be_present(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Presence(tmp_path, "me")
