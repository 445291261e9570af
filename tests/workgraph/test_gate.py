"""Admissions pass the gate one at a time, across processes too; nothing else waits for it (contract workgraph 5.3)."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from interlock.admission import sidecar
from tests.admission.holder import Holder, holding
from tests.harness import PATIENCE_S, Client, Served, result_of, served, spawned

SHORT_MS: Final = 50


def owner(name: str) -> dict[str, Any]:
    """A target."""
    return {"kind": "owner", "owner_key": {"kind": "agent", "id": name}}


async def goal(client: Client, name: str, **more: Any) -> Any:
    """A new goal for the target of this name."""
    return await client.call("workgraph/goal/create", title="t", target=owner(name), **more)


async def head(client: Client) -> int:
    """Where the feed ends."""
    found: int = (await client.call("ledger/events/head"))["head"]
    return found


async def code_of(answer: asyncio.Future[dict[str, Any]]) -> str:
    """The string code of a refusal that must come."""
    with anyio.fail_after(PATIENCE_S):
        code: str = (await answer)["error"]["data"]["code"]
    return code


@asynccontextmanager
async def shut(daemon: Served) -> AsyncIterator[Holder]:
    """Another process is at the gate."""
    async with holding(daemon.state_dir / sidecar.NAME) as holder:
        yield holder


@asynccontextmanager
async def at_the_gate(tmp_path: Path) -> AsyncIterator[tuple[Served, Client]]:
    """A daemon and a client of it."""
    async with served(tmp_path) as daemon, daemon.client() as client:
        yield daemon, client


async def test_the_lock_file_is_made_on_first_use_private_and_without_a_table(tmp_path: Path) -> None:
    async with at_the_gate(tmp_path) as (daemon, client):
        path = daemon.state_dir / sidecar.NAME
        await client.call("workgraph/create", title="no admission")
        assert sidecar.NAME not in os.listdir(daemon.state_dir)
        made = await goal(client, "a")
        await client.call("workgraph/attention/stop", binding_id=made["attention"]["binding_id"], expected_revision=1)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        with sqlite3.connect(path) as conn:
            assert conn.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        conn.close()
        os.unlink(path)
        await goal(client, "a")
        assert os.stat(path).st_size == 0


async def admissions(client: Client) -> dict[str, dict[str, Any]]:
    """Each method that takes the gate, with params that it accepts."""
    pursued, coordinated, forced = [
        (await goal(client, name, mode="coordinate"))["attention"]["binding_id"] for name in ("p", "c", "f")
    ]
    paused = await client.call("workgraph/attention/pause", binding_id=pursued, expected_revision=1)
    at = {"expected_revision": 1}
    return {
        "workgraph/goal/create": {"title": "t", "target": owner("new")},
        "workgraph/attention/resume": {
            "binding_id": pursued,
            "expected_revision": paused["attention"]["revision"],
        },
        "workgraph/attention/reassign": {"binding_id": coordinated, "target": owner("c2"), **at},
        "workgraph/attention/break_glass_reassign": {
            "binding_id": forced,
            "target": owner("f2"),
            "reason": "gone",
            **at,
        },
        "daemon/batch": {
            "steps": [
                {"method": "workgraph/create", "params": {"title": "t"}},
                {
                    "method": "workgraph/goal/create",
                    "params": {
                        "item_id": {"$ref": "/0/item/id"},
                        "expected_revision": 1,
                        "target": owner("b"),
                    },
                },
            ]
        },
    }


async def test_every_admission_waits_for_another_process_and_then_goes_on(tmp_path: Path) -> None:
    async with at_the_gate(tmp_path) as (daemon, client):
        calls = await admissions(client)
        before = await head(client)
        async with shut(daemon) as holder:
            begun = [client.start(method, **params) for method, params in calls.items()]
            assert await head(client) == before
            assert not any(answer.done() for answer in begun)
            await holder.let_go()
            with anyio.fail_after(PATIENCE_S):
                for answer in begun:
                    result_of(await answer)


async def test_past_its_time_every_admission_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    async with at_the_gate(tmp_path) as (daemon, client):
        calls = await admissions(client)
        before = await head(client)
        daemon.app.services.gate.wait_ms = SHORT_MS
        async with shut(daemon) as holder:
            for method, params in calls.items():
                refused = await client.refused(method, **params, op_id=method)
                assert (refused.number, refused.code) == (-32006, "admission_lock_timeout"), method
                assert refused.data["retryable"] is True
                assert refused.data["file"] == str(daemon.state_dir / sidecar.NAME)
                assert refused.data["waited_ms"] >= SHORT_MS
                assert "step" not in refused.data
            assert await head(client) == before
            await holder.let_go()
        for method, params in calls.items():
            assert "replayed" not in await client.call(method, **params, op_id=method)


async def test_an_admission_by_its_other_name_waits_too(tmp_path: Path) -> None:
    async with at_the_gate(tmp_path) as (daemon, client):
        daemon.app.services.gate.wait_ms = SHORT_MS
        async with shut(daemon):
            refused = await client.refused("mobkit/workgraph/goal/create", title="t", target=owner("a"))
            assert (refused.number, refused.code) == (-32000, "admission_lock_timeout")


async def test_nothing_but_an_admission_waits_for_the_gate(tmp_path: Path) -> None:
    async with at_the_gate(tmp_path) as (daemon, client):
        one = await goal(client, "one")
        two = await goal(client, "two")
        three = await goal(client, "three")
        session = "0199c3a2-7c11-7d4e-8a51-3f1d2b6c9e07"

        def of(made: Any, revision: int = 1) -> dict[str, Any]:
            return {"binding_id": made["attention"]["binding_id"], "expected_revision": revision}

        item = two["item"]
        async with shut(daemon):
            await client.call("workgraph/attention/pause", **of(one))
            await client.call("workgraph/attention/stop", **of(one, 2))
            await client.call("workgraph/goal/confirm", **of(two, item["revision"]))
            for method, params in {
                "workgraph/attention/list": {},
                "workgraph/attention/get": {"binding_id": of(two)["binding_id"]},
                "workgraph/attention/current": {"owner_key": owner("two")["owner_key"]},
                "workgraph/attention/projection": {"binding_id": of(two)["binding_id"]},
                "workgraph/goal/status": {"binding_id": of(two)["binding_id"]},
                "workgraph/member/register": {"identity": "anna", "session_id": session},
                "workgraph/member/list": {},
                "workgraph/member/resolve": {"session_id": session},
                "workgraph/member/retire": {"identity": "anna"},
                "workgraph/attention/prune": {},
                "workgraph/create": {"title": "t"},
            }.items():
                await client.call(method, **params)
            await client.call("workgraph/goal/request_close", **of(three, three["item"]["revision"]))
            await client.call("daemon/batch", steps=[{"method": "workgraph/attention/stop", "params": of(two)}])


async def test_what_was_answered_before_is_answered_again_without_the_gate(tmp_path: Path) -> None:
    async with at_the_gate(tmp_path) as (daemon, client):
        first = await goal(client, "a", op_id="once")
        steps = [{"method": "workgraph/goal/create", "params": {"title": "t", "target": owner("b")}}]
        batch = await client.call("daemon/batch", steps=steps, op_id="twice")
        async with shut(daemon):
            assert await goal(client, "a", op_id="once") == {**first, "replayed": True}
            assert await client.call("daemon/batch", steps=steps, op_id="twice") == {**batch, "replayed": True}
            other = await client.refused("workgraph/goal/create", title="t", target=owner("b"), op_id="once")
            assert other.code == "op_conflict"


async def test_an_admission_that_waits_can_be_cancelled_and_leaves_the_gate_free(tmp_path: Path) -> None:
    async with at_the_gate(tmp_path) as (daemon, client):
        before = await head(client)
        async with shut(daemon) as holder:
            first_id, first = client.begin("workgraph/goal/create", {"title": "t", "target": owner("a")})
            second = client.start("workgraph/goal/create", title="t", target=owner("b"))
            third_id, third = client.begin("workgraph/goal/create", {"title": "t", "target": owner("c")})
            await client.call("daemon/ping")
            for request_id in (first_id, third_id):
                client.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": request_id}})
            assert await code_of(first) == "cancelled"
            assert await code_of(third) == "cancelled"
            assert await head(client) == before
            await holder.let_go()
            with anyio.fail_after(PATIENCE_S):
                result_of(await second)
        await goal(client, "a")
        await goal(client, "c")


async def test_cancelled_at_any_moment_an_admission_is_either_answered_or_did_not_happen(tmp_path: Path) -> None:
    async with at_the_gate(tmp_path) as (_, client):
        begun = []
        for n in range(100):
            request_id, answer = client.begin("workgraph/goal/create", {"title": "t", "target": owner(f"a{n}")})
            begun.append(answer)
            if n % 10 == 9:
                await asyncio.wait([begun[n - n % 7]])
            client.send({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": request_id}})
        with anyio.fail_after(PATIENCE_S):
            answers = [await answer for answer in begun]
        made = [found["result"]["attention"]["binding_id"] for found in answers if "result" in found]
        assert {found["error"]["data"]["code"] for found in answers if "error" in found} <= {"cancelled"}
        stored = (await client.call("workgraph/attention/list", limit=500))["attention"]
        assert sorted(one["binding_id"] for one in stored) == sorted(made)
        await goal(client, "last")


async def test_who_says_nothing_more_while_it_waits_is_still_answered(tmp_path: Path) -> None:
    async with at_the_gate(tmp_path) as (daemon, client):
        async with shut(daemon) as holder, daemon.client() as leaving:
            answer = leaving.start("workgraph/goal/create", title="t", target=owner("a"))
            await leaving.call("daemon/ping")
            leaving.writer.write_eof()
            await holder.let_go()
            with anyio.fail_after(PATIENCE_S):
                await leaving.ended.wait()
            made = result_of(await answer)
        assert (await client.call("workgraph/attention/list"))["attention"] == [made["attention"]]


async def test_at_the_end_of_the_drain_an_admission_that_waits_is_told_so(tmp_path: Path) -> None:
    async with spawned(tmp_path) as daemon:
        client, other = await daemon.client(), await daemon.client()
        async with holding(daemon.state_dir / sidecar.NAME):
            waiting = client.start("workgraph/goal/create", title="t", target=owner("a"))
            await client.call("daemon/ping")
            await other.call("daemon/shutdown", drain_ms=100)
            assert await code_of(waiting) == "draining"
            assert await daemon.ended() == 0
        await client.close()
        await other.close()


async def test_admissions_that_were_read_before_the_drain_are_finished(tmp_path: Path) -> None:
    async with spawned(tmp_path) as daemon:
        client, other = await daemon.client(), await daemon.client()
        async with holding(daemon.state_dir / sidecar.NAME) as holder:
            waiting = [client.start("workgraph/goal/create", title="t", target=owner(f"a{n}")) for n in range(10)]
            await client.call("daemon/ping")
            await other.call("daemon/shutdown")
            await holder.let_go()
            with anyio.fail_after(PATIENCE_S):
                for answer in waiting:
                    result_of(await answer)
        assert await daemon.ended() == 0
        await client.close()
        await other.close()


async def test_an_admission_at_the_end_of_input_is_still_made(tmp_path: Path) -> None:
    async with spawned(tmp_path, stdio=True, socket=None) as daemon:
        client = daemon.stdio()
        answer = client.start("workgraph/goal/create", title="t", target=owner("a"))
        await client.end_input()
        assert result_of(await answer)["attention"]["status"] == {"state": "active"}
        assert await daemon.ended() == 0


async def test_a_lock_file_that_is_none_refuses_admissions_and_nothing_else(tmp_path: Path) -> None:
    async with at_the_gate(tmp_path) as (daemon, client):
        path = daemon.state_dir / sidecar.NAME
        await asyncio.to_thread(path.write_bytes, b"no database at all")
        refused = await client.refused("workgraph/goal/create", title="t", target=owner("a"))
        assert (refused.number, refused.code, refused.data["file"]) == (-32007, "store_failed", str(path))
        assert (await client.call("workgraph/list"))["items"] == []
        os.unlink(path)
        await goal(client, "a")


@pytest.mark.parametrize("processes", [2, 3])
async def test_of_racers_in_several_processes_one_gets_each_target(tmp_path: Path, processes: int) -> None:
    targets, racers = 5, 4
    async with AsyncExitStack() as stack:
        clients = []
        for n in range(processes):
            daemon = await stack.enter_async_context(spawned(tmp_path, stdio=True, socket=None if n else "s.sock"))
            clients.append(daemon.stdio())
        for client in clients:
            await client.call("daemon/ping")
        begun = [
            (f"a{n}", client.start("workgraph/goal/create", title="t", target=owner(f"a{n}")))
            for n in range(targets)
            for _ in range(racers)
            for client in clients
        ]
        won: dict[str, str] = {}
        lost: dict[str, set[str]] = {}
        with anyio.fail_after(PATIENCE_S):
            for name, answer in begun:
                found = await answer
                if "result" in found:
                    assert name not in won
                    won[name] = found["result"]["attention"]["binding_id"]
                else:
                    assert found["error"]["data"]["code"] == "occupied"
                    lost.setdefault(name, set()).add(found["error"]["data"]["occupant"]["binding_id"])
        assert {name: {winner} for name, winner in won.items()} == lost
        assert len(won) == targets
