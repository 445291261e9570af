"""The lock file of the admission gate: who holds it, what is never in it, and what may happen to it."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.admission import sidecar
from interlock.admission.sidecar import Sidecar
from interlock.lifecycle.refusal import Refusal

from .holder import holding


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / sidecar.NAME


@pytest.fixture
def one(path: Path) -> Iterator[Sidecar]:
    found = Sidecar(path)
    yield found
    found.close()


@pytest.fixture
def other(path: Path) -> Iterator[Sidecar]:
    found = Sidecar(path)
    yield found
    found.close()


def tables(path: Path) -> int:
    conn = sqlite3.connect(path)
    try:
        (count,) = conn.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return int(count)
    finally:
        conn.close()


def refused(lock: Sidecar) -> Refusal:
    with pytest.raises(Refusal) as caught:
        lock.try_lock()
    return caught.value


def test_nothing_is_made_before_the_first_use(one: Sidecar, path: Path) -> None:
    assert not path.exists()


def test_one_holds_it_at_a_time(one: Sidecar, other: Sidecar) -> None:
    assert one.try_lock()
    assert not other.try_lock()
    one.unlock()
    assert other.try_lock()
    assert not one.try_lock()


def test_the_file_is_private_and_empty_and_stays_so(one: Sidecar, path: Path) -> None:
    for _ in range(3):
        assert one.try_lock()
        one.unlock()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_size == 0
    assert tables(path) == 0
    assert os.listdir(path.parent) == [path.name]


async def test_another_process_keeps_it_until_it_lets_go(one: Sidecar, path: Path) -> None:
    async with holding(path) as holder:
        assert not one.try_lock()
        await holder.let_go()
        assert one.try_lock()


async def test_the_lock_of_a_killed_process_is_free(one: Sidecar, path: Path) -> None:
    async with holding(path) as holder:
        assert not one.try_lock()
        await holder.kill()
        assert one.try_lock()


def test_closing_lets_go(one: Sidecar, other: Sidecar) -> None:
    assert one.try_lock()
    one.close()
    assert other.try_lock()
    other.unlock()
    assert one.try_lock()


def test_letting_go_of_what_is_not_held_is_nothing(one: Sidecar) -> None:
    one.unlock()
    assert one.try_lock()
    one.unlock()
    one.unlock()
    assert one.try_lock()


def test_a_deleted_file_is_made_anew(one: Sidecar, other: Sidecar, path: Path) -> None:
    assert one.try_lock()
    one.unlock()
    path.unlink()
    assert one.try_lock()
    assert path.exists()
    assert not other.try_lock()


def test_who_waits_at_a_file_that_is_replaced_gets_the_lock_of_the_new_one(
    one: Sidecar, other: Sidecar, path: Path
) -> None:
    assert one.try_lock()
    assert not other.try_lock()
    path.rename(path.with_name("away"))
    third = Sidecar(path)
    try:
        assert third.try_lock()
        one.unlock()
        assert not other.try_lock()  # it got the old one's, and went on to the one that is there
        third.unlock()
        assert other.try_lock()
        assert not one.try_lock()
    finally:
        third.close()


@pytest.mark.parametrize("content", [b"no database at all", b"x" * 8192, b"\0" * 4096])
def test_a_file_that_is_no_database_is_refused_and_left_alone(one: Sidecar, path: Path, content: bytes) -> None:
    path.write_bytes(content)
    refusal = refused(one)
    assert refusal.code == "store_failed"
    assert refusal.data == {"reason": "SQLITE_NOTADB", "file": str(path)}
    assert str(path) in refusal.message
    assert path.read_bytes() == content
    path.unlink()
    assert one.try_lock()


def test_a_link_is_refused_wherever_it_leads(one: Sidecar, path: Path) -> None:
    store = path.with_name("interlock.sqlite3")
    sqlite3.connect(store).close()
    path.symlink_to(store)
    assert refused(one).code == "store_failed"
    path.unlink()
    os.link(store, path)
    assert refused(one).code == "store_failed"
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))
    assert refused(one).code == "store_failed"


def test_a_folder_in_its_place_is_refused(one: Sidecar, path: Path) -> None:
    path.mkdir()
    assert refused(one).code == "store_failed"


def test_a_directory_that_is_gone_is_refused(path: Path) -> None:
    lost = Sidecar(path.parent / "gone" / path.name)
    assert refused(lost).code == "store_failed"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_said_to_be_full(one: Sidecar, path: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", no_space)
        refusal = refused(one)
    assert refusal.code == "storage_full"
    assert str(path) in refusal.message
    assert one.try_lock()


def test_a_name_with_odd_characters_is_one_file(tmp_path: Path) -> None:
    folder = tmp_path / "a b?c#d%20"
    folder.mkdir()
    lock = Sidecar(folder / sidecar.NAME)
    assert lock.try_lock()
    lock.close()
    assert os.listdir(folder) == [sidecar.NAME]
