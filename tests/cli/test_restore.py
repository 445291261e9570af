"""`interlock restore` on real files: what it replaces, what it keeps, and that every refusal leaves all as it was."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest

from interlock.daemon.cli import restore as restoring
from interlock.daemon.cli.backup_files import BadBackup
from interlock.daemon.cli.failures import Failed
from interlock.daemon.leadership import AlreadyRunning, Lock, Owner
from interlock.daemon.places import LOCK

from . import backups
from .backups import NAMES, flip_a_byte, leave_a_hot_log, make_backup, make_database, snapshot, value_in
from .harness import Home


def agree(names: list[str]) -> None:
    """The answer of a person who says yes."""


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A sound backup."""
    return make_backup(tmp_path / "backup")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory whose databases hold other values, one memory more, and the lock file of a dead leader."""
    state = tmp_path / "state"
    for name in (*NAMES, "workspaces/db/later.sqlite3"):
        make_database(state / name, f"present:{name}")
    (state / "workgraph.admission.sqlite3").write_bytes(b"")
    (state / LOCK).write_bytes(b"{}")
    state.chmod(0o700)
    return state


def test_the_backup_takes_the_place_of_what_was_there_which_is_kept_beside_it(backup: Path, state: Path) -> None:
    asked: list[list[str]] = []
    done = restoring.restore(backup, state, asked.append)
    assert asked == [[*NAMES, "workspaces/db/later.sqlite3"]]
    assert (done.event_head, done.taken_at, done.restored) == (7, "2026-12-01T12:00:00.000Z", list(NAMES))
    assert {name: value_in(state / name) for name in NAMES} == {name: f"backup:{name}" for name in NAMES}
    kept = {name: value_in(state / name) for name in done.kept}
    assert sorted(kept.values()) == sorted(f"present:{n}" for n in (*NAMES, "workspaces/db/later.sqlite3"))
    assert all(".before-restore-" in name for name in kept)
    assert [p.name for p in (state / "workspaces" / "db").glob("*.sqlite3")] == ["notes.sqlite3"]
    assert not list(state.glob(".restore-*"))
    assert (state / "workgraph.admission.sqlite3").exists()


def test_a_log_that_a_crash_left_goes_with_its_database(backup: Path, state: Path) -> None:
    main = state / "interlock.sqlite3"
    leave_a_hot_log(main, "committed, not checkpointed")
    done = restoring.restore(backup, state, agree)
    assert value_in(main) == "backup:interlock.sqlite3"
    kept = next(name for name in done.kept if name.startswith("interlock") and not name.endswith(("-wal", "-shm")))
    assert f"{kept}-wal" in done.kept
    assert value_in(state / kept) == "committed, not checkpointed"


def test_a_directory_that_is_not_there_yet_is_made_private(backup: Path, tmp_path: Path) -> None:
    state = tmp_path / "new" / "state"
    done = restoring.restore(backup, state, agree)
    assert done.kept == []
    assert {name: value_in(state / name) for name in NAMES} == {name: f"backup:{name}" for name in NAMES}
    assert state.stat().st_mode & 0o777 == 0o700
    assert (state / "workspaces" / "db").stat().st_mode & 0o777 == 0o700
    assert (state / "interlock.sqlite3").stat().st_mode & 0o777 == 0o600


def test_nothing_to_replace_needs_no_question(backup: Path, tmp_path: Path) -> None:
    def refuse(names: list[str]) -> None:
        pytest.fail(f"asked about {names}")

    restoring.restore(backup, tmp_path / "empty", refuse)


def test_a_second_restore_in_the_same_second_keeps_both(backup: Path, state: Path) -> None:
    first, second = (restoring.restore(backup, state, agree) for _ in range(2))
    assert not set(first.kept) & set(second.kept)
    assert all((state / name).exists() for name in first.kept + second.kept)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (backups.flip_a_byte, "digest differs"),
        (backups.cut_short, "the manifest says"),
        (backups.corrupt_with_a_matching_manifest, "is damaged"),
        (backups.no_database_with_a_matching_manifest, "is damaged: file is not a database"),
        (backups.lose_a_file, "missing from the backup"),
        (backups.lose_the_manifest, "is no backup"),
        (backups.garble_the_manifest, "is no manifest"),
        (backups.forget_the_main_store, "names no interlock.sqlite3"),
        (backups.name_twice, "cannot be part of a backup"),
        (backups.link_out, "symbolic link"),
    ],
)
def test_a_damaged_backup_is_refused_and_nothing_changes(
    backup: Path, state: Path, damage: Callable[[Path], None], said: str
) -> None:
    damage(backup)
    before = snapshot(state)
    with pytest.raises(Failed, match=said) as caught:
        restoring.restore(backup, state, agree)
    assert caught.value.exit_code == 1
    assert "nothing was changed" in caught.value.message
    assert snapshot(state) | {LOCK: b""} == before | {LOCK: b""}


@pytest.mark.parametrize(
    "name",
    ["../outside.sqlite3", "/etc/passwd.sqlite3", "a/../../b.sqlite3", "interlock.lock", "x.txt", "", "./a.sqlite3"],
)
def test_a_manifest_cannot_name_what_is_no_store_of_the_directory(backup: Path, state: Path, name: str) -> None:
    manifest = json.loads((backup / "manifest.json").read_bytes())
    manifest["files"].append({"name": name, "bytes": 0, "sha256": ""})
    (backup / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    with pytest.raises(BadBackup, match="cannot be part of a backup"):
        restoring.restore(backup, state, agree)


def test_a_damaged_backup_leaves_no_directory_behind(backup: Path, tmp_path: Path) -> None:
    flip_a_byte(backup)
    with pytest.raises(BadBackup):
        restoring.restore(backup, tmp_path / "new", agree)
    assert not (tmp_path / "new").exists()


def test_who_says_no_is_asked_after_the_check_and_loses_nothing(backup: Path, state: Path) -> None:
    def decline(names: list[str]) -> None:
        raise click.Abort

    before = snapshot(state)
    with pytest.raises(click.Abort):
        restoring.restore(backup, state, decline)
    assert snapshot(state) | {LOCK: b""} == before | {LOCK: b""}


def test_a_failure_half_way_puts_everything_back(backup: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    make_database(state / NAMES[0], "present")
    # Where the second file must go stands a file: that is met only when the first has been replaced.
    (state / "workspaces").write_bytes(b"in the way")
    before = snapshot(state)
    with pytest.raises(Failed, match=r"Not a directory.*nothing was changed"):
        restoring.restore(backup, state, agree)
    assert snapshot(state) == before | {LOCK: b""}
    assert value_in(state / NAMES[0]) == "present"


@contextmanager
def led(state: Path) -> Iterator[None]:
    """The state directory, led by somebody."""
    lock = Lock(state / LOCK)
    owner = Owner(pid=1, start_time="", instance_id="i", version="1", kind="daemon", state_dir=str(state), socket="/s")
    assert lock.try_acquire(owner)
    yield
    lock.release()


def test_a_directory_that_is_led_is_refused_with_75_and_untouched(backup: Path, state: Path) -> None:
    with led(state):
        before = snapshot(state)
        with pytest.raises(AlreadyRunning, match="led by pid 1, kind daemon, socket /s") as caught:
            restoring.restore(backup, state, agree)
        assert caught.value.exit_code == 75
        assert snapshot(state) == before


def test_a_database_that_another_process_has_open_is_refused_with_75(backup: Path, state: Path) -> None:
    script = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM t').fetchall()\n"
        "print('open', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(state / NAMES[0])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(Failed, match=r"another process has .*interlock\.sqlite3 open") as caught:
            restoring.restore(backup, state, agree)
        assert caught.value.exit_code == 75
        assert value_in(state / NAMES[0]) == f"present:{NAMES[0]}"
        other.communicate()


def test_the_verb_needs_yes_without_a_terminal_and_says_so(backup: Path, home: Home) -> None:
    make_database(home.state / NAMES[0], "present")
    home.state.chmod(0o700)
    refused = home.run("restore", str(backup))
    assert refused.code == 2
    assert "--yes" in refused.err
    assert value_in(home.state / NAMES[0]) == "present"
    done = home.run("restore", str(backup), "--yes")
    assert (done.code, done.err) == (0, "")
    assert done.value["restored"] == list(NAMES)
    assert value_in(home.state / NAMES[0]) == f"backup:{NAMES[0]}"


def test_the_verb_tells_a_program_what_was_wrong(backup: Path, home: Home) -> None:
    flip_a_byte(backup)
    refused = home.run("restore", str(backup), "--json")
    assert refused.code == 1
    assert refused.error["data"]["file"] == NAMES[2]


def test_a_backup_that_lies_inside_the_state_directory_can_be_restored(state: Path, backup: Path) -> None:
    inside = state / "backups" / "monday"
    inside.parent.mkdir()
    shutil.move(backup, inside)
    restoring.restore(inside, state, agree)
    assert value_in(state / NAMES[0]) == f"backup:{NAMES[0]}"
    assert (inside / "manifest.json").exists()
