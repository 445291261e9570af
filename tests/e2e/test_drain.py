"""Stopping in order: what was read is finished, what waits is told, what is new is refused; and who may do what."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import anyio
import pytest

from tests.harness import PATIENCE_S, Client, Spawned, spawned

from .support import locked, note, on, rows

NEVER: Final = {"filter": {"events": {"types": ["fault"]}}, "timeout_ms": 60_000}


async def test_a_shutdown_is_answered_first_then_what_waits_is_told_and_the_process_ends_with_0(tmp_path: Path) -> None:
    async with spawned(tmp_path) as daemon, on(daemon) as client, on(daemon) as other:
        subscription = await client.call("ledger/events/subscribe")
        waiting = client.start("daemon/wait", **NEVER)
        await client.call("daemon/ping")
        assert await other.call("daemon/shutdown") == {"state": "draining"}
        assert (await waiting)["error"]["data"]["code"] == "draining"
        closed = await client.notified("events/closed")
        assert (closed["subscription"], closed["reason"]) == (subscription["subscription"], "draining")
        assert await daemon.ended() == 0
        for one in (client, other):
            with anyio.fail_after(PATIENCE_S):
                await one.ended.wait()
    assert not (tmp_path / "s.sock").exists()


async def test_while_it_drains_what_runs_is_finished_and_what_is_new_is_refused_but_ping_and_status(
    tmp_path: Path,
) -> None:
    async with spawned(tmp_path) as daemon, on(daemon) as client, on(daemon) as other:
        await client.call("ledger/role/upsert", name="w")
        with locked(daemon.state_dir / "interlock.sqlite3"):
            running = [client.start("ledger/send", **note(n)) for n in range(200)]
            await client.call("daemon/ping")  # they are read
            await other.call("daemon/shutdown")
            late = await other.refused("ledger/events/head")
            assert (late.number, late.code, late.data["retryable"]) == (-32006, "draining", True)
            assert (await other.call("daemon/status"))["state"] == "draining"
            assert await other.call("daemon/ping")
            again = await other.call("daemon/shutdown", drain_ms=60_000)  # cannot lengthen, and does not cut, the time
            assert again == {"state": "draining"}
            assert not running[0].done()
        with anyio.fail_after(PATIENCE_S):
            answers = [await one for one in running]
        assert [answer for answer in answers if "error" in answer] == []
        assert await daemon.ended() == 0
    async with spawned(tmp_path) as daemon, on(daemon) as client:
        assert len(await rows(client)) == 200


async def test_a_second_shutdown_shortens_the_time(tmp_path: Path) -> None:
    async with spawned(tmp_path) as daemon, on(daemon) as client, on(daemon) as other:
        await client.call("ledger/role/upsert", name="w")
        with locked(daemon.state_dir / "interlock.sqlite3"):
            running = client.start("ledger/send", **note(1))
            await client.call("daemon/ping")
            await other.call("daemon/shutdown", drain_ms=60_000)
            await other.call("daemon/shutdown", drain_ms=0)
            with anyio.fail_after(PATIENCE_S):
                assert (await running)["error"]["data"]["code"] in ("draining", "busy")
            assert await daemon.ended() == 0


async def test_a_client_that_never_stops_sending_does_not_keep_it(tmp_path: Path) -> None:
    async with spawned(tmp_path) as daemon, on(daemon) as client:
        await client.call("ledger/role/upsert", name="w")

        async def flood() -> None:
            n = 0
            while not client.ended.is_set():
                n += 1
                client.start("ledger/send", **note(n))
                await asyncio.sleep(0)

        flooding = asyncio.create_task(flood())
        daemon.process.terminate()
        assert await daemon.ended() == 0
        with anyio.fail_after(PATIENCE_S):
            await client.ended.wait()
        flooding.cancel()


async def test_the_time_to_drain_is_bounded(tmp_path: Path) -> None:
    async with spawned(tmp_path) as daemon, on(daemon) as client:
        refused = await client.refused("daemon/shutdown", drain_ms=60_001)
        assert (refused.code, refused.data["path"], refused.data["max"]) == (
            "limit_out_of_range",
            "/drain_ms",
            60_000,
        )


async def test_only_the_operator_may_stop_it(tmp_path: Path) -> None:
    async with spawned(tmp_path) as daemon, on(daemon) as client:
        await client.call("ledger/role/upsert", name="w")
        await client.call("ledger/attach", role="w")
        assert (await client.refused("daemon/shutdown")).code == "not_admin"
        assert (await client.refused("daemon/backup", path=str(tmp_path / "b"))).code == "not_admin"
        await client.call("ledger/detach")
        assert (await client.call("daemon/shutdown"))["state"] == "draining"


async def test_an_idle_process_leaves_once_nobody_is_there_and_no_mail_is_in_flight(tmp_path: Path) -> None:
    async with spawned(tmp_path, "--idle-exit", "1") as daemon:
        async with on(daemon) as client:
            await client.call("daemon/ping")
        assert await daemon.ended() == 0
        assert any('"idle"' in line for line in daemon.log)


async def test_mail_in_flight_elsewhere_keeps_an_idle_process(tmp_path: Path) -> None:
    async with spawned(tmp_path, "--idle-exit", "1") as daemon, on(daemon) as client:
        await client.call("ledger/role/upsert", name="w")
        async with spawned(tmp_path, stdio=True) as agent:
            consumer = agent.stdio()
            await consumer.call("ledger/attach", role="w")
            await client.call("ledger/send", **note(1))
            (delivery,) = (await consumer.call("ledger/pull"))["deliveries"]
            await client.close()
            await still_there(daemon, consumer)
            await consumer.call("ledger/ack", msg_id=delivery["envelope"]["msg_id"])
            assert await daemon.ended() == 0


async def still_there(daemon: Spawned, consumer: Client) -> None:
    """It has had the time that an idle one needs, and longer: waits of as long have passed on the same machine."""
    for _ in range(3):
        await consumer.call("daemon/wait", filter=NEVER["filter"], timeout_ms=1000)
    assert daemon.process.returncode is None


OPERATOR: Final = {
    "ledger/role/upsert": {"name": "x"},
    "ledger/send": note(1),
    "daemon/shutdown": {},
    "ledger/prune": {"before": "2020-01-01T00:00:00Z"},
}
FOR_ALL: Final = ("daemon/ping", "daemon/status", "daemon/doctor", "daemon/metrics", "ledger/role/list", "ledger/query")


async def test_where_only_the_socket_operates_an_unattached_stdio_client_may_read_and_attach(tmp_path: Path) -> None:
    async with spawned(tmp_path, "--operator", "socket", stdio=True) as daemon, on(daemon) as operator:
        agent = daemon.stdio()
        await operator.call("ledger/role/upsert", name="w")
        for method, params in OPERATOR.items():
            assert (await agent.refused(method, **params)).code == "not_admin", method
        step = {"method": "ledger/role/upsert", "params": {"name": "x"}}
        assert (await agent.refused("daemon/batch", steps=[step])).code == "not_admin"
        for method in FOR_ALL:
            assert await agent.call(method)
        subscription = await agent.call("ledger/events/subscribe")
        await agent.call("ledger/events/unsubscribe", subscription=subscription["subscription"])
        await agent.call("ledger/attach", role="w")
        await agent.call("ledger/send", **note(2))
        assert (await agent.refused("daemon/shutdown")).code == "not_admin"
        await agent.call("ledger/detach")
        assert (await agent.refused("ledger/send", **note(3))).code == "not_admin"


@pytest.mark.parametrize("stdio", [True, False])
async def test_a_start_after_any_stop_serves(tmp_path: Path, stdio: bool) -> None:
    for n in range(3):
        async with spawned(tmp_path, stdio=stdio) as daemon:
            if stdio:
                client = daemon.stdio()
                await client.call("ledger/role/upsert", name=f"w{n}")
                await client.end_input()
            else:
                async with on(daemon) as operator:
                    await operator.call("ledger/role/upsert", name=f"w{n}")
                    await operator.call("daemon/shutdown")
            assert await daemon.ended() == 0
    async with spawned(tmp_path) as daemon, on(daemon) as operator:
        names = {role["role"]["name"] for role in (await operator.call("ledger/role/list"))["roles"]}
        assert {"w0", "w1", "w2"} <= names
