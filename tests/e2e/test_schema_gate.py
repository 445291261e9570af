"""A store that this build may not touch: exit code 6, what was found, and not a byte changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from .support import files, run


def foreign(path: Path) -> None:
    execute(path, "CREATE TABLE recipes(name TEXT)", "INSERT INTO recipes VALUES ('soup')")


def newer(path: Path) -> None:
    make(path)
    execute(path, "UPDATE schema_marker SET version = 99")


def other_protocol(path: Path) -> None:
    make(path)
    execute(path, "UPDATE schema_marker SET protocol_version = 7")


def garbage(path: Path) -> None:
    path.write_bytes(b"this is a letter to a friend\n" * 400)


def truncated(path: Path) -> None:
    make(path)
    path.write_bytes(path.read_bytes()[:-6000])


def make(path: Path) -> None:
    """A store of ours, made by a process that has ended."""
    code, _, log = run(path.parent, "--stdio", "--state-dir", str(path.parent), "--socket", "none")
    assert code == 0, log
    assert {found.name for found in path.parent.glob("interlock.sqlite3*")} == {path.name}


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as conn, conn:
        for statement in statements:
            conn.execute(statement)


@pytest.mark.parametrize("stdio", [(), ("--stdio",)], ids=["daemon", "stdio"])
@pytest.mark.parametrize(
    ("spoil", "found"),
    [(foreign, "recipes"), (newer, "99"), (other_protocol, "7"), (garbage, "no SQLite"), (truncated, "truncated")],
)
def test_a_store_that_is_not_ours_is_named_and_left_as_it_was(
    tmp_path: Path, spoil: Callable[[Path], None], found: str, stdio: tuple[str, ...]
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    spoil(state / "interlock.sqlite3")
    before = files(state)
    code, out, log = run(tmp_path, "--state-dir", str(state), "--socket", str(tmp_path / "s.sock"), *stdio)
    assert (code, out) == (6, "")
    last = log.splitlines()[-1]
    assert found in last
    assert str(state / "interlock.sqlite3") in last
    after = files(state)
    lock = after.pop("interlock.lock")
    before.pop("interlock.lock", None)
    assert lock == b""
    assert after == before
    assert not (tmp_path / "s.sock").exists()


def test_a_state_directory_that_is_a_file_is_refused_with_6(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("mine")
    code, _, log = run(tmp_path, "--state-dir", str(tmp_path / "state"), "--socket", "none")
    assert code == 6
    assert str(tmp_path / "state") in log.splitlines()[-1]
    assert (tmp_path / "state").read_text() == "mine"
