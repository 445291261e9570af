"""The daemon as the gateway of MobKit's SDK: its greeting, its end, what it says of itself (contract workgraph 11)."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any

import anyio
import pytest

from interlock.daemon import connection
from interlock.protocol.limits import REQUESTS_IN_FLIGHT
from interlock.stores.health import STORE
from tests.e2e.support import locked
from tests.harness import PATIENCE_S, Refused, environment, served, spawned

GREETING = {"contract_version": "0.5.0", "stdio_shutdown_handshake": True, "stdio_shutdown_horizon_ms": 10_000}
DONE = {"shutdown": True, "runtime_cleanup_completed": True}
WAITED = {"events": {"types": ["role_changed"]}}
TWO_STEPS = {"init_protocol": "accepted_then_settled", "init_id": "init-1"}


@pytest.mark.parametrize(
    "params",
    [{}, TWO_STEPS, {"runtime_options": {"workgraph": True}, "modules": None, "mob_config": 7}, {"mob_config": "="}],
    ids=["bare", "two steps", "what it does not know", "no TOML"],
)
async def test_the_greeting_is_one_answer_whatever_is_asked(tmp_path: Path, params: dict[str, Any]) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        assert await client.call("mobkit/init", **params) == GREETING
        assert client.notifications.empty()


async def test_status_and_capabilities_need_no_greeting(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        status = {"contract_version": "0.5.0", "running": True, "loaded_modules": [], "mob_state": "running"}
        assert await client.call("mobkit/status", verbose=True) == status
        found = await client.call("mobkit/capabilities")
        assert found.pop("methods") == sorted(name for name in daemon.app.services.methods if name[:7] == "mobkit/")
        assert found == {
            "contract_version": "0.5.0",
            "workgraph": True,
            "loaded_modules": [],
            "feature_capabilities": [],
            "runtime_type": "interlock",
        }


async def test_an_unknown_name_is_answered_as_mobkit_does_and_the_nearest_is_one_of_its_own(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        refused = await client.refused("mobkit/statos")
        assert (refused.number, refused.data["expected"], "kind" in refused.data) == (-32601, "mobkit/status", False)
        assert refused.message.startswith("Method not found")
        assert (await client.refused("statos")).data["expected"] == "daemon/status"


async def test_params_that_are_no_object_are_answered_as_mobkit_does(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        wrong = Refused((await client.begin("mobkit/status", [1])[1])["error"])
        assert (wrong.number, wrong.message) == (-32602, "Invalid params: params must be an object")
        unknown = Refused((await client.begin("mobkit/nothing", [1])[1])["error"])
        assert (unknown.number, unknown.message[:16]) == (-32601, "Method not found")


async def test_a_process_that_is_shut_down_answers_refuses_and_ends_with_its_input(tmp_path: Path) -> None:
    async with spawned(tmp_path, stdio=True, socket=None) as process:
        client = process.stdio()
        assert await client.call("mobkit/init") == GREETING
        assert await client.call("mobkit/shutdown") == DONE
        late = await client.refused("mobkit/workgraph/list")
        assert (late.number, late.code, late.data["kind"]) == (-32000, "draining", "workgraph_error")
        assert (await client.refused("ledger/role/list")).code == "draining"
        assert (await client.refused("mobkit/init")).code == "draining"
        assert await client.call("mobkit/shutdown") == DONE
        assert (await client.call("daemon/ping"))["instance_id"]
        assert process.process.returncode is None
        await client.end_input()
        assert await process.ended() == 0


async def test_what_is_said_in_one_breath_is_answered_before_the_process_ends(tmp_path: Path) -> None:
    async with spawned(tmp_path, stdio=True, socket=None) as process:
        client = process.stdio()
        answers = [client.start(name) for name in ("mobkit/init", "mobkit/shutdown", "mobkit/shutdown")]
        await client.end_input()
        assert [(await answer)["result"] for answer in answers] == [GREETING, DONE, DONE]
        assert await process.ended() == 0


async def test_persistent_is_another_word_for_stdio(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "interlock.daemon", "--persistent"]
    places = {"INTERLOCK_STATE_DIR": str(tmp_path / "state"), "INTERLOCK_SOCKET": "none"}
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment(tmp_path, **places)
    )
    with anyio.fail_after(PATIENCE_S):
        out, _ = await process.communicate(b'{"jsonrpc":"2.0","id":"mobkit/init:1","method":"mobkit/init"}\n')
    assert json.loads(out) == {"jsonrpc": "2.0", "id": "mobkit/init:1", "result": GREETING}
    assert process.returncode == 0


async def test_the_greeting_waits_until_the_store_is_there_and_everything_else_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    async with spawned(tmp_path, stdio=True, socket=None) as process:
        client = process.stdio()
        with locked(tmp_path / "state" / STORE):
            early = await client.refused("mobkit/workgraph/list")
            assert (early.number, early.code, early.data["kind"]) == (-32018, "starting", "init_in_progress")
            greeting = client.start("mobkit/init")
            assert (await client.call("mobkit/status"))["running"] is True
            assert not greeting.done()
        with anyio.fail_after(PATIENCE_S):
            assert (await greeting)["result"] == GREETING
        assert (await client.call("ledger/role/list"))["roles"]


async def test_a_process_that_is_still_starting_can_be_shut_down(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    with locked(tmp_path / "state" / STORE):
        async with spawned(tmp_path, stdio=True, socket=None) as process:
            client = process.stdio()
            await client.call("mobkit/status")
            greeting = client.start("mobkit/init")
            assert await client.call("mobkit/shutdown") == DONE
            with anyio.fail_after(PATIENCE_S):
                assert (await greeting)["error"]["data"]["code"] == "draining"
            await client.end_input()
            assert await process.ended() == 0


async def test_what_waits_ends_before_the_shutdown_is_answered_and_only_this_connection_ends(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client, daemon.client() as other:
        order: list[str] = []
        waiting = client.start("daemon/wait", filter=WAITED, timeout_ms=60_000)
        waiting.add_done_callback(lambda _: order.append("wait"))
        elsewhere = other.start("daemon/wait", filter=WAITED, timeout_ms=60_000)
        assert (await client.call("daemon/status"))["requests_in_flight"] == 3
        ending = client.start("mobkit/shutdown")
        ending.add_done_callback(lambda _: order.append("shutdown"))
        with anyio.fail_after(PATIENCE_S):
            assert (await ending)["result"] == DONE
        assert (await waiting)["error"]["data"]["code"] == "draining"
        assert order == ["wait", "shutdown"]
        assert (await client.refused("daemon/wait", filter=WAITED)).code == "draining"
        await client.end_input()
        await other.call("ledger/role/upsert", name="worker")
        with anyio.fail_after(PATIENCE_S):
            assert (await elsewhere)["result"]["matched"]


async def test_what_was_begun_is_done_before_the_shutdown_is_answered(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        written = [client.start("ledger/role/upsert", name=f"role-{n}") for n in range(50)]
        assert await client.call("mobkit/shutdown") == DONE
        assert all(answer.done() and "result" in answer.result() for answer in written)


async def test_what_does_not_end_in_time_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LEAVE_S", 0.1)
    async with served(tmp_path) as daemon, daemon.client() as client:
        with locked(daemon.state_dir / STORE):
            held = [client.start("ledger/role/upsert", name=f"role-{n}") for n in range(REQUESTS_IN_FLIGHT - 1)]
            ending = client.start("mobkit/shutdown")
            behind = [client.start("ledger/role/upsert", name=f"late-{n}") for n in range(9)]
            with anyio.fail_after(PATIENCE_S):
                assert (await ending)["result"] == DONE
            assert all(answer.done() for answer in held)
            answers = [await answer for answer in held + behind]
            assert {answer["error"]["data"]["code"] for answer in answers} <= {"draining", "busy"}
            assert "draining" in {answer["error"]["data"]["code"] for answer in answers}


async def test_a_subscription_ends_with_the_connection_that_it_is_of(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        subscription = (await client.call("ledger/events/subscribe"))["subscription"]
        assert await client.call("mobkit/shutdown") == DONE
        closed = await client.notified("events/closed")
        assert (closed["subscription"], closed["reason"]) == (subscription, "draining")


async def test_where_only_the_socket_operates_a_gateway_is_greeted_and_may_not_write(tmp_path: Path) -> None:
    async with spawned(tmp_path, "--operator", "socket", stdio=True, socket=None) as process:
        client = process.stdio()
        assert await client.call("mobkit/init") == GREETING
        assert (await client.call("mobkit/capabilities"))["workgraph"] is True
        refused = await client.refused("mobkit/workgraph/create", title="x")
        assert (refused.number, refused.code, refused.data["kind"]) == (-32030, "not_admin", "access_denied")
        assert (await client.call("mobkit/workgraph/list"))["items"] == []
        assert await client.call("mobkit/shutdown") == DONE
