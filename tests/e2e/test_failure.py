"""A store that cannot be written, or is another: what is answered, what goes on, and that it recovers."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Client, Spawned, spawned

from .support import locked, note, on, rows, until

STORE = "interlock.sqlite3"


def limit(daemon: Spawned, size: int) -> None:
    """Let no file of the process grow beyond so many bytes; what fails then fails as on a full disk."""
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def mounted(folder: Path) -> bool:
    """Whether a small file system could be mounted there: only root may, and not everywhere."""
    folder.mkdir(mode=0o700)
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.mount(b"none", os.fsencode(folder), b"tmpfs", 0, b"size=6m,mode=0700") == 0)


@asynccontextmanager
async def small_disk(tmp_path: Path) -> AsyncIterator[Path]:
    """A state directory on a disk of its own where that is possible."""
    folder = tmp_path / "state"
    is_mounted = mounted(folder)
    try:
        yield folder
    finally:
        if is_mounted:
            ctypes.CDLL(None).umount2(os.fsencode(folder), 2)


async def fill(client: Client) -> str:
    """Send until it is refused; the code."""
    for n in range(400):
        answer = await client.start("ledger/send", **{**note(n), "body": {"text": "x" * 100_000}})
        if "error" in answer:
            assert answer["error"]["code"] == -32006
            assert answer["error"]["data"]["retryable"]
            return str(answer["error"]["data"]["code"])
    raise AssertionError("it was never refused")


async def sent(client: Client, name: str) -> bool:
    return "result" in await client.start("ledger/send", **note(name))


async def test_a_full_disk_refuses_writes_alone_and_is_over_when_there_is_room(tmp_path: Path) -> None:
    async with small_disk(tmp_path) as folder, spawned(tmp_path) as daemon, on(daemon) as client:
        await client.call("ledger/role/upsert", name="w")
        is_small = os.statvfs(folder).f_blocks * os.statvfs(folder).f_frsize < 16 << 20
        if not is_small:
            limit(daemon, 3 << 20)
        assert await fill(client) == "storage_full"
        table = await rows(client)
        assert len(table) > 3
        assert (await client.call("daemon/status"))["messages"]["queued"] == len(table)
        assert await client.call("daemon/metrics")
        if is_small:
            ctypes.CDLL(None).mount(b"none", os.fsencode(folder), b"tmpfs", 32, b"size=64m,mode=0700")
        else:
            limit(daemon, 1 << 30)
        assert await until(lambda: sent(client, "after"))
        assert (await client.call("daemon/status"))["state"] == "ready"
        assert len(await rows(client)) == len(table) + 1


async def test_a_replaced_file_is_a_failed_store_that_doctor_names_and_it_recovers_when_put_back(
    tmp_path: Path,
) -> None:
    async with spawned(tmp_path) as daemon, on(daemon) as client:
        await client.call("ledger/role/upsert", name="w")
        store = daemon.state_dir / STORE
        os.rename(store, tmp_path / "aside")
        with closing(sqlite3.connect(store)) as other, other:
            other.execute("CREATE TABLE recipes(name TEXT)")
        refused = await client.refused("ledger/send", **note(1))
        assert (refused.number, refused.code, refused.data["retryable"]) == (-32007, "store_failed", False)
        assert "file_replaced" in refused.message
        status = await client.call("daemon/status")
        assert status["state"] == "failed"
        assert "file_replaced" in status["reason"]
        found = await codes(client)
        assert found["file_replaced"]["severity"] == "error"
        assert found["schema_unsupported"]["subject"] == STORE
        os.rename(tmp_path / "aside", store)
        assert await until(lambda: sent(client, "back"))
        assert (await client.call("daemon/status"))["state"] == "ready"
        assert "file_replaced" not in await codes(client)


async def codes(client: Client) -> dict[str, dict[str, Any]]:
    return {finding["code"]: finding for finding in (await client.call("daemon/doctor"))["findings"]}


async def test_a_lock_that_another_process_holds_too_long_is_busy_and_reads_are_answered_meanwhile(
    tmp_path: Path,
) -> None:
    async with spawned(tmp_path) as daemon, on(daemon) as client, on(daemon) as reader:
        await client.call("ledger/role/upsert", name="w")
        with locked(daemon.state_dir / STORE):
            writing = asyncio.ensure_future(client.refused("ledger/send", **note(1)))
            for _ in range(20):
                assert await rows(reader) == {}
                assert (await reader.call("daemon/status"))["state"] == "ready"
                assert await reader.call("ledger/events/head")
            assert not writing.done()
            refused = await writing
            assert (refused.number, refused.code, refused.data["retryable"]) == (-32006, "busy", True)
            assert refused.data["retry_after_ms"] > 0
        await client.call("ledger/send", **note(1))
        assert len(await rows(reader)) == 1


async def test_a_commit_survives_a_kill_right_after_its_answer(tmp_path: Path) -> None:
    said = []
    for n in range(5):
        async with spawned(tmp_path) as daemon, on(daemon) as client:
            await client.call("ledger/role/upsert", name="w")
            said.append((await client.call("ledger/send", **note(n)))["msg_id"])
            daemon.process.kill()
            await daemon.ended()
    async with spawned(tmp_path) as daemon, on(daemon) as client:
        assert sorted(await rows(client)) == sorted(said)
        assert (await client.call("daemon/doctor"))["ok"]


@pytest.mark.parametrize("damaged", ["overwritten", "cut"])
async def test_damage_to_a_living_store_is_found_by_doctor(tmp_path: Path, damaged: str) -> None:
    async with spawned(tmp_path) as daemon, on(daemon) as client:
        await client.call("ledger/role/upsert", name="w")
        await asyncio.gather(*[client.start("ledger/send", **note(n, "x" * 500)) for n in range(200)])
        await client.call("daemon/shutdown")
        assert await daemon.ended() == 0  # everything is in the file itself
    async with spawned(tmp_path) as daemon, on(daemon) as client:
        store = daemon.state_dir / STORE
        with store.open("r+b") as file:
            if damaged == "cut":
                file.truncate(store.stat().st_size - 8 * 4096)
            else:
                file.seek(20 * 4096)
                file.write(b"\xee" * 4096 * 6)
        found = await codes(client)
        assert found["integrity_failed"]["severity"] == "error"
        assert found["integrity_failed"]["subject"] == STORE
        assert await client.call("daemon/ping")


async def test_another_store_that_is_damaged_is_named(tmp_path: Path) -> None:
    async with spawned(tmp_path) as daemon, on(daemon) as client:
        (daemon.state_dir / "other.sqlite3").write_bytes(b"no database at all" * 300)
        found = await codes(client)
        assert found["integrity_failed"]["subject"] == "other.sqlite3"
