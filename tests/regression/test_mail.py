"""Sending, reading and putting back."""

from __future__ import annotations

import sqlite3
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from interlock.stores.health import STORE
from tests.harness import served


async def test_a_control_is_for_its_own_task_whatever_its_causality_names(tmp_path: Path) -> None:
    async with (
        served(tmp_path, roles=("alice", "mallory", "worker")) as daemon,
        daemon.client(role="alice") as alice,
        daemon.client(role="mallory") as mallory,
    ):
        hers = (await alice.call("ledger/send", kind="task", to="worker", body={"text": "hers"}))["task"]
        his = (await mallory.call("ledger/send", kind="task", to="worker", body={"text": "his"}))["task"]
        cancel: dict[str, Any] = {"kind": "control", "to": "worker", "control": {"op": "cancel", "task_id": hers}}
        refused = await mallory.refused("ledger/send", **cancel, causality={"task": his})
        assert refused.code == "not_owner"
        await alice.call("ledger/send", **cancel, causality={"task": his})


async def test_a_repeated_send_may_begin_to_count_its_attempts(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("worker",)) as daemon, daemon.client() as client:
        said = {"kind": "note", "to": "worker", "body": {"text": "x"}, "op_id": "once"}
        first = await client.call("ledger/send", **said)
        again = await client.call("ledger/send", **said, causality={"attempt": 1})
        assert again == {**first, "replayed": True}
        assert (await client.refused("ledger/send", **said, causality={"hop": 1})).code == "op_conflict"


async def test_a_note_that_is_about_nothing_carries_its_attempt(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("worker",)) as daemon, daemon.client() as client:
        sent = await client.call("ledger/send", kind="note", to="worker", body={"text": "x"}, causality={"attempt": 3})
        found = await client.call("ledger/get", msg_id=sent["msg_id"])
        assert found["envelope"]["causality"]["attempt"] == 3


@pytest.mark.parametrize("key", [str(2**63), "9" * 40, "-1", "-" + "9" * 40])
async def test_a_cursor_with_an_impossible_key_is_no_cursor(tmp_path: Path, key: str) -> None:
    async with served(tmp_path, roles=("worker",)) as daemon, daemon.client() as client:
        for _ in range(2):
            await client.call("ledger/send", kind="note", to="worker", body={"text": "x"})
        cursor = (await client.call("ledger/query", limit=1))["next_cursor"]
        mark = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))[:8]
        forged = urlsafe_b64encode(mark + key.encode()).decode().rstrip("=")
        refused = await client.refused("ledger/query", limit=1, cursor=forged)
        assert (refused.code, refused.data["path"]) == ("invalid_params", "/cursor")


async def test_near_names_are_found_among_a_thousand_without_comparing_them_all(tmp_path: Path) -> None:
    names = ["planner-main", *(f"worker-of-the-fleet-{n:04}" for n in range(999))]
    async with served(tmp_path) as daemon, daemon.client() as client:
        await client.call("ledger/role/sync", roles=[{"name": name} for name in names])
        assert (await client.refused("ledger/depth", role="planer-main")).data["near"] == ["planner-main"]
        near = (await client.refused("ledger/depth", role="worker-of-the-fleet-500")).data["near"]
        assert len(set(near)) == 5
        assert set(near) < set(names)
        assert (await client.refused("ledger/depth", role="?")).data["near"] == []


async def test_a_detach_that_was_refused_can_be_asked_for_again(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("worker",)) as daemon, daemon.client(role="worker") as client:
        sent = await client.call("ledger/send", kind="note", to="worker", body={"text": "x"})
        await client.call("ledger/pull")
        daemon.app.services.database.hurry()
        with closing(sqlite3.connect(daemon.state_dir / STORE, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert (await client.refused("ledger/detach", role="worker")).code == "busy"
            other.execute("ROLLBACK")
        assert await client.call("ledger/detach", role="worker") == {"role": "worker", "requeued": 1}
        async with daemon.client() as operator:
            assert (await operator.call("ledger/get", msg_id=sent["msg_id"]))["row"]["state"] == "queued"
            found = await operator.call("ledger/role/list")
            assert [info["presence"] for info in found["roles"]] == ["offline", "offline"]
