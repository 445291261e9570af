"""A full disk, failing I/O, an exchanged file: refused in words, reads go on, and it passes without a restart."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.lifecycle.refusal import Refusal
from interlock.stores import batch, errors
from interlock.stores.database import Database
from interlock.stores.tx import Tx
from tests.stores.engine import note, opened, stored, subjects

LIMITED = """
import asyncio, resource, sys
from pathlib import Path
from tests.stores.engine import note, opened, subjects

async def main():
    async with opened(Path(sys.argv[1])) as db:
        await db.write(note("before"))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (db.stats.wal_bytes() + 4096, hard))
        for _ in range(2):
            try:
                await db.write(lambda tx: tx.emit("test", "noted", "lost", b'"' + b"x" * (1 << 20) + b'"'))
            except Exception as error:
                print(error.code, error.data["reason"], db.failed)
            print(await db.read(subjects))
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        await db.write(note("after"))
        print(await db.read(subjects), db.failed)

asyncio.run(main())
"""


async def refusal_of(db: Database, subject: str = "refused") -> Refusal:
    """Write, and be refused."""
    with pytest.raises(Refusal) as refused:
        await db.write(note(subject))
    return refused.value


def limit_pages(more: int | None) -> batch.JobFn:
    """A job that lets the file grow by so many pages and no further; None takes the limit away."""

    def job(tx: Tx) -> None:
        (pages,) = tx.execute("PRAGMA page_count").fetchone()
        tx.execute(f"PRAGMA max_page_count = {2**32 - 2 if more is None else pages + more}")

    return job


def large(subject: str) -> batch.JobFn:
    """A job that needs more than ten pages."""
    return lambda tx: tx.emit("test", "noted", subject, b'"' + b"x" * 65536 + b'"')


async def test_without_room_the_whole_batch_is_refused_and_with_room_it_works_again(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with opened(path) as db:
        await db.write(note("before"))
        await db.write(limit_pages(4))
        results = await asyncio.gather(db.write(note("a")), db.write(large("b")), return_exceptions=True)
        assert [getattr(result, "code", None) for result in results] == ["storage_full", "storage_full"]
        assert await db.read(subjects) == ["before"]
        await db.write(note("small"))
        await db.write(limit_pages(None))
        assert await db.write(large("after")) == 3
        assert db.failed is None
    assert stored(path) == ["before", "small", "after"]


async def test_a_job_that_swallows_a_full_disk_is_not_answered_with_success(tmp_path: Path) -> None:
    path = tmp_path / "store"

    def swallow(tx: Tx) -> str:
        with pytest.raises(sqlite3.OperationalError, match="full"):
            large("lost")(tx)
        return "swallowed"

    async with opened(path) as db:
        await db.write(limit_pages(4))
        results = await asyncio.gather(db.write(note("a")), db.write(swallow), return_exceptions=True)
        assert [getattr(result, "code", None) for result in results] == ["store_failed", "store_failed"]
        await db.write(note("b"))
    assert stored(path) == ["b"]


async def test_failing_writes_are_refused_and_the_connection_is_opened_anew(tmp_path: Path) -> None:
    # a limit on the size of files makes the kernel fail the write itself, in the middle of the log
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "error", "-c", LIMITED, str(tmp_path / "store")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "store_failed SQLITE_IOERR_WRITE SQLITE_IOERR_WRITE",
        "['before']",
        "store_failed SQLITE_IOERR_WRITE SQLITE_IOERR_WRITE",
        "['before']",
        "['before', 'after'] None",
    ]


async def test_nothing_is_written_to_a_file_that_was_moved_away(tmp_path: Path) -> None:
    path, aside = tmp_path / "store", tmp_path / "aside"
    async with opened(path) as db:
        await db.write(note("before"))
        await db.read(subjects)
        path.rename(aside)
        refused = await refusal_of(db)
        assert (refused.code, db.failed) == ("store_failed", refused.data["reason"])
        assert str(db.failed).startswith("file_replaced: ")
        assert await db.read(subjects) == ["before"]

        aside.rename(path)
        assert await db.write(note("after")) == 2
        assert db.failed is None
    assert stored(path) == ["before", "after"]


async def test_nothing_is_written_when_another_file_lies_at_the_path(tmp_path: Path) -> None:
    path, aside = tmp_path / "store", tmp_path / "aside"
    async with opened(path) as db:
        await db.write(note("before"))
        await db.checkpoint(truncate=True)
        path.rename(aside)
        path.write_bytes(aside.read_bytes())
        before = path.read_bytes()
        assert (await refusal_of(db)).code == "store_failed"
        for call in (db.read(subjects), db.data_version()):  # their connections were not open yet
            with pytest.raises(Refusal, match="file_replaced"):
                await call
        assert path.read_bytes() == before
        os.replace(aside, path)
        assert await db.read(subjects) == ["before"]
        assert await db.data_version() > 0
        await db.write(note("after"))
    assert stored(path) == ["before", "after"]


async def test_a_row_that_went_into_an_unlinked_file_is_not_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with opened(path) as db:

        def unlink(tx: Tx) -> None:
            tx.emit("test", "noted", "lost", {})
            path.unlink()

        with pytest.raises(Refusal, match="is gone from its path"):
            await db.write(unlink)
        assert str(db.failed).startswith("file_replaced: ")


async def test_a_broken_connection_is_not_opened_on_another_file(tmp_path: Path) -> None:
    path, aside = tmp_path / "store", tmp_path / "aside"
    async with opened(path) as db:
        await db.write(note("before"))

        def break_it(tx: Tx) -> None:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ
            error.sqlite_errorname = "SQLITE_IOERR_READ"
            raise error

        with pytest.raises(Refusal):
            await db.write(break_it)
        assert db.failed == "SQLITE_IOERR_READ"
        path.rename(aside)
        assert str((await refusal_of(db)).data["reason"]).startswith("file_replaced")
        aside.rename(path)
        assert await db.write(note("after")) == 2
    assert stored(path) == ["before", "after"]


async def test_damage_is_noticed_by_the_read_that_meets_it_and_a_mended_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with opened(path) as db:
        for _ in range(20):
            await db.write(large("x"))
        assert await db.checkpoint(truncate=True)
        # kept open: closing a descriptor of the file would drop the locks that SQLite holds in this process
        descriptor = os.open(path, os.O_RDWR)
        try:
            whole = os.pread(descriptor, path.stat().st_size, 0)
            os.pwrite(descriptor, b"\xff" * (len(whole) - 4096), 4096)
            with pytest.raises(Refusal) as refused:
                await db.read(subjects)
            assert (refused.value.code, refused.value.data["reason"]) == ("store_failed", "SQLITE_CORRUPT")
            os.pwrite(descriptor, b"\xff" * 4096, 0)
            with pytest.raises(Refusal) as refused:
                await db.read(subjects)
            assert refused.value.data["reason"] == "SQLITE_NOTADB"
            os.pwrite(descriptor, whole, 0)
            assert len(await db.read(subjects)) == 20
        finally:
            await db.close()
            os.close(descriptor)


@pytest.mark.parametrize(
    ("code", "disk_full", "expected"),
    [
        (sqlite3.SQLITE_BUSY, False, "busy"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, False, "busy"),
        (sqlite3.SQLITE_LOCKED, False, "busy"),
        (sqlite3.SQLITE_FULL, False, "storage_full"),
        (sqlite3.SQLITE_IOERR_SHMSIZE, True, "storage_full"),
        (sqlite3.SQLITE_IOERR_SHMSIZE, False, "store_failed"),
        (sqlite3.SQLITE_IOERR_FSYNC, False, "store_failed"),
        (sqlite3.SQLITE_CORRUPT_INDEX, False, "store_failed"),
        (sqlite3.SQLITE_NOTADB, False, "store_failed"),
        (sqlite3.SQLITE_CANTOPEN, False, "store_failed"),
        (sqlite3.SQLITE_READONLY_DBMOVED, False, "store_failed"),
        (sqlite3.SQLITE_INTERRUPT, False, "store_failed"),
    ],
)
def test_each_error_of_sqlite_has_a_refusal(code: int, disk_full: bool, expected: str) -> None:
    error = sqlite3.OperationalError("SELECT secret")
    error.sqlite_errorcode = code
    error.sqlite_errorname = "SQLITE_NAME"
    refusal = errors.translate(error, disk_full=disk_full)
    assert isinstance(refusal, Refusal)
    assert refusal.code == expected
    assert "secret" not in refusal.message


def test_the_operating_systems_errors_have_one_too() -> None:
    full = errors.translate(OSError(28, "No space left on device"))
    gone = errors.translate(FileNotFoundError(2, "No such file"))
    assert isinstance(full, Refusal)
    assert isinstance(gone, Refusal)
    assert (full.code, gone.code) == ("storage_full", "store_failed")


def test_any_other_error_is_left_as_it_is() -> None:
    bug = ValueError("mine")
    assert errors.translate(bug) is bug
    assert errors.another(bug) is bug
