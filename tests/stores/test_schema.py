"""The gate and the migrations: what is not ours is named and left byte for byte as it was; ours is brought up to date
by one process while the others wait."""

from __future__ import annotations

import asyncio
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.lifecycle.refusal import Refusal
from interlock.stores import schema
from interlock.stores.connection import connect
from interlock.stores.errors import CorruptStore, StoreUnusable, UnsupportedSchema
from interlock.stores.schema import Migration, inspect, migrations, prepare, split
from tests.stores.engine import note, opened, stored, subjects

LAST = migrations()[-1].version
OPEN = """
import asyncio, sys
from pathlib import Path
from tests.stores.engine import note, opened

async def main():
    print("ready", flush=True)
    sys.stdin.readline()
    async with opened(Path(sys.argv[1])) as db:
        await db.write(note("x"))

asyncio.run(main())
"""


def run(path: Path, *statements: str) -> None:
    """Another program's work on the file."""
    conn = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        conn.execute(statement)
    conn.close()


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    """The bytes and the time of change of each file, but for the shared memory that readers of a log need."""
    files = (file for file in folder.iterdir() if not file.name.endswith("-shm"))
    return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


def marker(path: Path, name: str = "interlock", version: object = 1, protocol: object = 1) -> None:
    """A file whose marker says this."""
    run(
        path,
        "CREATE TABLE schema_marker(name TEXT, version INTEGER, protocol_version INTEGER)",
        f"INSERT INTO schema_marker VALUES ('{name}', {version}, {protocol})",
        "CREATE TABLE events(x)",
    )


def foreign(path: Path) -> None:
    run(path, "CREATE TABLE notes(x)", "CREATE TABLE tags(x)", "INSERT INTO notes VALUES (1)")


def foreign_with_log(path: Path) -> None:
    run(path, "PRAGMA journal_mode = WAL", "CREATE TABLE notes(x)")


def many_tables(path: Path) -> None:
    run(path, *(f"CREATE TABLE t{i:02}(x)" for i in range(14)))


def other_marker(path: Path) -> None:
    run(path, "CREATE TABLE schema_marker(what TEXT)", "INSERT INTO schema_marker VALUES ('x')")


def two_markers(path: Path) -> None:
    marker(path)
    run(path, "INSERT INTO schema_marker VALUES ('other', 1, 1)")


def garbage(path: Path) -> None:
    path.write_bytes(b"this is no database\n" * 500)


def truncated(path: Path) -> None:
    marker(path)
    run(path, "INSERT INTO events VALUES (zeroblob(100000))")
    path.write_bytes(path.read_bytes()[:12000])


def emptied(path: Path) -> None:
    path.write_bytes(b"")
    Path(f"{path}-wal").write_bytes(b"x" * 5000)


CASES: list[tuple[Callable[[Path], None], type[StoreUnusable], str]] = [
    (foreign, UnsupportedSchema, r"found 2 tables of something else \(notes, tags\), expected an empty file"),
    (foreign_with_log, UnsupportedSchema, r"1 tables of something else \(notes\)"),
    (many_tables, UnsupportedSchema, r"14 tables of something else \(t00, .*, t09, …\)"),
    (lambda path: marker(path, name="onlyne-server"), UnsupportedSchema, r"found the marker of 'onlyne-server'"),
    (two_markers, UnsupportedSchema, r"found the marker of 'interlock' and 'other'"),
    (other_marker, UnsupportedSchema, r"found a schema_marker table of another shape"),
    (lambda path: marker(path, version=LAST + 1), UnsupportedSchema, rf"version {LAST + 1}, expected .* 1 to {LAST}\."),
    (lambda path: marker(path, version=0), UnsupportedSchema, r"found schema version 0"),
    (lambda path: marker(path, version="'x'"), UnsupportedSchema, r"found schema version x"),
    (lambda path: marker(path, version=LAST + 1, protocol=2), UnsupportedSchema, r"found schema version"),
    (
        lambda path: marker(path, protocol=2),
        UnsupportedSchema,
        r"found protocol version 2, expected protocol version 1",
    ),
    (garbage, CorruptStore, r"found no SQLite database"),
    (truncated, CorruptStore, r"found a truncated or damaged database"),
    (emptied, CorruptStore, r"found an empty file with a write-ahead log"),
]


@pytest.mark.parametrize(("make", "kind", "message"), CASES)
async def test_what_is_not_ours_is_named_and_left_as_it_was(
    tmp_path: Path, make: Callable[[Path], None], kind: type[StoreUnusable], message: str
) -> None:
    path = tmp_path / "store"
    make(path)
    before = content(tmp_path)
    with pytest.raises(StoreUnusable, match=message) as refused:
        async with opened(path):
            pass
    assert type(refused.value) is kind
    assert str(refused.value).startswith(f"{path}: found ")
    assert re.search(r"Nothing was changed\. .*(Move the file aside|Run the version|Restore)", str(refused.value))
    assert content(tmp_path) == before


async def test_a_foreign_file_whose_tables_are_still_in_its_log_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "store"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("CREATE TABLE notes(x)")
    before = content(tmp_path)
    with pytest.raises(UnsupportedSchema, match="notes"):
        async with opened(path):
            pass
    assert content(tmp_path) == before
    other.close()


async def test_a_fresh_file_gets_our_marker_and_a_second_opening_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "store"
    for _ in range(2):
        async with opened(path) as db:
            rows = await db.read(lambda snap: snap.execute(schema.MARKER).fetchall())
            assert rows == [("interlock", LAST, 1)]
            assert (await db.read(lambda snap: snap.execute("PRAGMA journal_mode").fetchone())) == ("wal",)
    assert inspect(path) == LAST


@pytest.mark.parametrize("content", [None, b""])
def test_an_absent_or_empty_file_is_version_zero_and_is_not_made(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "store"
    if content is not None:
        path.write_bytes(content)
    assert inspect(path) == 0
    assert path.exists() is (content is not None)


async def test_a_name_with_signs_of_its_own_is_a_name_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "a b?mode=memory#%41" / "störe"
    path.parent.mkdir()
    async with opened(path) as db:
        await db.write(note("a"))
    assert stored(path) == ["a"]


async def test_a_store_that_was_killed_is_opened_with_what_its_log_holds(tmp_path: Path) -> None:
    path, killed = tmp_path / "store", tmp_path / "killed"
    async with opened(path) as db:
        await db.write(note("a"))
        killed.mkdir()
        for file in ("store", "store-wal"):
            shutil.copy(tmp_path / file, killed)
    async with opened(killed / "store") as db:
        assert await db.read(subjects) == ["a"]


async def test_a_creation_that_was_killed_half_way_is_taken_up_again(tmp_path: Path) -> None:
    # the first page is written in rollback mode; killed inside that leaves a torn page and a journal to undo it
    path = tmp_path / "store"
    killed = "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
    killed += "c.execute('PRAGMA cache_size = 1'); c.execute('BEGIN');"
    killed += "[c.execute(f'CREATE TABLE t{i}(x)') for i in range(200)]; os._exit(0)"
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", killed, str(path)], check=True)
    assert content(tmp_path).keys() == {"store", "store-journal"}
    path.write_bytes(b"torn" + path.read_bytes()[4:])
    async with opened(path) as db:
        await db.write(note("a"))
    assert stored(path) == ["a"]
    assert content(tmp_path).keys() == {"store"}


def test_our_migrations_are_numbered_without_a_gap() -> None:
    assert [migration.version for migration in migrations()] == list(range(1, LAST + 1))
    assert all(migration.statements for migration in migrations())


STEPS = (
    Migration(1, ("CREATE TABLE one(x)", "INSERT INTO one VALUES (1)")),
    Migration(2, ("ALTER TABLE one ADD COLUMN y", "UPDATE one SET y = 2")),
    Migration(3, ("CREATE TABLE three(x)",)),
)


def versions(path: Path, known: tuple[Migration, ...]) -> int:
    """Bring the file up to date with these and say which version it has."""
    conn = connect(path, "mode=rwc")
    try:
        prepare(conn, path, known)
        return inspect(path, STEPS)
    finally:
        conn.close()


def test_an_older_store_is_brought_up_to_date_step_by_step_and_keeps_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "store"
    assert versions(path, STEPS[:1]) == 1
    assert versions(path, STEPS) == 3
    conn = sqlite3.connect(path)
    assert conn.execute("SELECT x, y FROM one").fetchall() == [(1, 2)]
    conn.close()
    with pytest.raises(UnsupportedSchema, match=r"found schema version 3, expected .* 1 to 2"):
        versions(path, STEPS[:2])


def test_a_migration_that_fails_leaves_the_version_before_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "store"
    broken = (*STEPS[:1], Migration(2, ("CREATE TABLE two(x)", "INSERT INTO nowhere VALUES (1)")))
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        versions(path, broken)
    assert inspect(path, STEPS) == 1
    assert versions(path, STEPS) == 3


async def test_processes_that_start_at_once_make_one_store(tmp_path: Path) -> None:
    path = tmp_path / "store"
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", OPEN, str(path), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
    await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    assert [process.returncode for process in processes] == [0] * 4
    async with opened(path) as db:
        assert await db.read(subjects) == ["x"] * 4
        assert await db.read(lambda snap: snap.execute(schema.MARKER).fetchall()) == [("interlock", LAST, 1)]


async def test_opening_does_not_wait_for_a_neighbour_that_writes(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with opened(path):
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        async with opened(path) as db:
            assert await db.read(subjects) == []
        other.close()


async def test_a_directory_that_is_not_there_is_a_failed_store(tmp_path: Path) -> None:
    with pytest.raises(Refusal) as refused:
        async with opened(tmp_path / "absent" / "store"):
            pass
    assert (refused.value.code, refused.value.data["reason"]) == ("store_failed", "SQLITE_CANTOPEN")


def test_scripts_are_split_where_statements_end() -> None:
    script = """
    -- a comment; with a semicolon
    CREATE TABLE a(x TEXT DEFAULT ';');  /* another; one */
    CREATE TRIGGER t AFTER INSERT ON a BEGIN
        UPDATE a SET x = 'end;';
        DELETE FROM a;
    END;
    INSERT INTO a VALUES ('it''s; fine'); -- last; words
    """
    statements = split(script)
    assert [statement.split()[-1] for statement in statements] == ["';');", "END;", "fine');"]
    conn = sqlite3.connect(":memory:")
    for statement in statements:
        conn.execute(statement)
    conn.close()


def test_a_statement_without_an_end_is_an_error() -> None:
    with pytest.raises(ValueError, match="without an end: SELECT 1"):
        split("SELECT 2; SELECT 1 -- ;")


def test_the_gate_looks_again_when_the_file_was_just_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the first look falls between a neighbour's first commit and its checkpoint: half of the file is there
    path = tmp_path / "store"
    whole = tmp_path / "whole"
    marker(whole)
    path.write_bytes(whole.read_bytes()[:5000])
    look = schema._look

    def interfere(path: Path, log_size: int, known: tuple[Migration, ...] | None) -> int:
        try:
            return look(path, log_size, known)
        finally:
            if not Path(f"{path}-wal").exists():
                run(whole, "PRAGMA journal_mode = WAL")
                path.write_bytes(whole.read_bytes())
                Path(f"{path}-wal").write_bytes(b"\0" * 32)

    monkeypatch.setattr(schema, "_look", interfere)
    assert inspect(path) == 1
