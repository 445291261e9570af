"""A backup that is taken under load, put back; and a damaged one, refused."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import stat
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import Client, spawned
from tests.ledger.common import feed

from .support import files, folded, note, on, rows, run, until

CLI: Final = "interlock.daemon.cli"


async def work(client: Client, name: str) -> None:
    """Send, pull, acknowledge, until cancelled."""
    n = 0
    await client.call("ledger/attach", role="w")
    with suppress(ConnectionError):
        while True:
            n += 1
            await client.call("ledger/send", **note(f"{name}-{n}"))
            pulled = await client.call("ledger/pull", role="w", limit=3)
            for delivery in pulled["deliveries"][1:]:
                await client.call("ledger/ack", msg_id=delivery["envelope"]["msg_id"])


def restore(tmp_path: Path, backup: Path, state: Path) -> tuple[int, str, str]:
    return run(tmp_path, "restore", str(backup), "--state-dir", str(state), "--yes", "--json", module=CLI)


async def backed_up(
    tmp_path: Path, *, load: bool = True
) -> tuple[dict[str, Any], dict[str, str], list[dict[str, Any]]]:
    """A backup taken while clients work: its manifest, and the table and the feed as they were at the end."""
    async with spawned(tmp_path) as daemon, on(daemon) as one, on(daemon) as other, on(daemon) as operator:
        await operator.call("ledger/role/upsert", name="w")
        working = [asyncio.create_task(work(one, "a")), asyncio.create_task(work(other, "b"))]
        await until(lambda: grown(operator, 300))
        manifest = await operator.call("daemon/backup", path=str(tmp_path / "backup"))
        await until(lambda: grown(operator, manifest["event_head"] + 50 if load else 0))
        for task in working:
            task.cancel()
        await asyncio.wait(working)
        table, events = await rows(operator), await feed(operator)
        await operator.call("daemon/shutdown")
        assert await daemon.ended() == 0
        return manifest, table, events


async def grown(client: Client, head: int) -> bool:
    return bool((await client.call("ledger/events/head"))["head"] >= head)


async def test_a_backup_under_load_restores_to_what_the_feed_up_to_its_head_folds_to(tmp_path: Path) -> None:
    manifest, table, events = await backed_up(tmp_path)
    backup, state = tmp_path / "backup", tmp_path / "state"
    assert json.loads((backup / "manifest.json").read_bytes()) == manifest
    assert stat.S_IMODE(backup.stat().st_mode) == 0o700
    for file in manifest["files"]:
        content = (backup / file["name"]).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file["bytes"], file["sha256"])
    head = manifest["event_head"]
    assert events[-1]["seq"] > head
    code, out, log = restore(tmp_path, backup, state)
    assert code == 0, log
    done = json.loads(out)
    assert done["event_head"] == head
    assert all((state / name).exists() for name in done["kept"])
    covered = [event for event in events if event["seq"] <= head]
    restored = stored(state / "interlock.sqlite3")  # before a process takes back what the connections of then held
    assert restored == folded(covered)
    assert set(restored) < set(table)
    async with spawned(tmp_path) as daemon, on(daemon) as client:
        assert [event for event in await feed(client) if event["seq"] <= head] == covered
        assert set(await rows(client)) == set(restored)
        assert (await client.call("daemon/doctor"))["ok"]


def stored(store: Path) -> dict[str, str]:
    """The state of each message in a file that nobody has open."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as conn:
        return dict(conn.execute("SELECT msg_id, state FROM messages").fetchall())


def flip(backup: Path) -> None:
    store = bytearray((backup / "interlock.sqlite3").read_bytes())
    store[len(store) // 2] ^= 1
    (backup / "interlock.sqlite3").write_bytes(store)


def shorten(backup: Path) -> None:
    store = (backup / "interlock.sqlite3").read_bytes()
    (backup / "interlock.sqlite3").write_bytes(store[:-4096])


def lose(backup: Path) -> None:
    (backup / "manifest.json").unlink()


async def test_a_damaged_backup_is_refused_and_the_present_state_stays(tmp_path: Path) -> None:
    await backed_up(tmp_path, load=False)
    backup, state = tmp_path / "backup", tmp_path / "state"
    whole = files(backup)
    before = files(state)
    for damage in (flip, shorten, lose):
        damage(backup)
        code, _, log = restore(tmp_path, backup, state)
        assert code != 0
        assert "nothing was changed" in log
        assert files(state) == before
        for name, content in whole.items():
            (backup / name).write_bytes(content)
    assert restore(tmp_path, backup, state)[0] == 0


async def test_a_directory_that_is_led_is_not_restored_into(tmp_path: Path) -> None:
    async with spawned(tmp_path) as daemon, on(daemon) as client:
        await client.call("daemon/backup", path=str(tmp_path / "backup"))
        code, _, log = await asyncio.to_thread(restore, tmp_path, tmp_path / "backup", daemon.state_dir)
        assert code == 75
        assert str(daemon.process.pid) in log
        assert await client.call("ledger/events/head")


@pytest.mark.parametrize(
    ("path", "expected"), [("backup", "absolute"), ("{}/there", "nothing"), ("{}/no/such/parent", "exists")]
)
async def test_a_place_that_cannot_be_is_refused(tmp_path: Path, path: str, expected: str) -> None:
    (tmp_path / "there").mkdir()
    async with spawned(tmp_path) as daemon, on(daemon) as client:
        refused = await client.refused("daemon/backup", path=path.format(tmp_path))
        assert (refused.code, refused.data["path"]) == ("invalid_params", "/path")
        assert expected in refused.data["expected"]
    assert files(tmp_path / "there") == {}
