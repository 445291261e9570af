"""Ends that something held up."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import anyio

from interlock.stores.health import STORE
from tests.harness import served, spawned


async def test_a_checkpoint_that_waits_for_another_process_does_not_keep_the_end_back(tmp_path: Path) -> None:
    async with spawned(tmp_path, stdio=True, socket=None) as daemon:
        client = daemon.stdio()
        await client.call("daemon/ping")
        with closing(sqlite3.connect(daemon.state_dir / STORE, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            asked = client.start("ledger/send", kind="note", to="operator", body={"text": "x"})
            await client.end_input()
            assert await daemon.ended() == 0
            with anyio.fail_after(1):
                assert (await asked)["error"]["data"]["retryable"]


async def test_a_store_that_was_moved_away_is_seen_at_once_and_so_is_its_return(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client:
        store, away = daemon.state_dir / STORE, daemon.state_dir / "away"
        store.rename(away)
        found = await client.call("daemon/doctor")
        assert "file_replaced" in [finding["code"] for finding in found["findings"]]
        assert (await client.call("daemon/status"))["state"] == "failed"
        away.rename(store)
        assert (await client.call("daemon/status"))["state"] == "ready"
        assert (await client.call("daemon/doctor"))["ok"]


async def test_a_backup_whose_name_is_too_long_is_refused_and_the_nearest_method_is_always_named(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        refused = await client.refused("daemon/backup", path=f"{tmp_path}/{'y' * 300}")
        assert (refused.code, refused.data["path"]) == ("invalid_params", "/path")
        assert (await client.refused("x")).data["expected"]
