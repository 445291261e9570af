"""Several processes on one state directory: one leads, the others serve too and take over; and who may not start."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from tests.harness import Client, Spawned, listening, spawned
from tests.ledger.common import feed

from .support import files, folded, inode, locked, note, on, rows, run, until

FREE_S: Final = 10
"""The promise is 3 s, on a machine that has time for it."""


async def status(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = await client.call("daemon/status")
    return found


def mode(path: Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


@pytest.mark.parametrize("first_is_stdio", [False, True])
async def test_two_processes_serve_and_both_say_who_leads(tmp_path: Path, first_is_stdio: bool) -> None:
    async with (
        spawned(tmp_path, stdio=first_is_stdio) as first,
        on(first) as leader,
        spawned(tmp_path, stdio=True) as second,
    ):
        follower = second.stdio()
        await leader.call("ledger/role/upsert", name="w")
        await follower.call("ledger/send", **note(1))
        assert len(await rows(leader)) == 1
        mine, theirs = await status(leader), await status(follower)
        assert (mine["leader"], theirs["leader"]) == (True, False)
        assert mine["kind"] == ("stdio" if first_is_stdio else "daemon")
        assert theirs["kind"] == "stdio"
        named = {"instance_id": mine["instance_id"], "pid": first.process.pid, "kind": mine["kind"]}
        assert mine["leader_process"] == theirs["leader_process"] == {**named, "socket": str(first.socket)}
        assert mine["socket"] == str(first.socket)
        assert "socket" not in theirs


class Load:
    """Clients that send, attach and pull until their process is gone; what was acknowledged is remembered."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, str] = {}

    async def send(self, client: Client, name: str) -> None:
        n = 0
        with suppress(ConnectionError, OSError):
            while True:
                n += 1
                op_id = f"op-{name}-{n}"
                receipt = await client.call("ledger/send", **{**note(n), "op_id": op_id})
                self.acknowledged[receipt["msg_id"]] = op_id

    async def hold(self, client: Client, role: str) -> list[str]:
        """Take mail and keep it."""
        await client.call("ledger/attach", role=role)
        pulled = await client.call("ledger/pull", role=role, limit=20, wait_ms=5000)
        return [delivery["envelope"]["msg_id"] for delivery in pulled["deliveries"]]


@pytest.mark.parametrize("first_is_stdio", [False, True])
async def test_the_other_takes_over_from_a_killed_leader_and_nothing_acknowledged_is_lost(
    tmp_path: Path, first_is_stdio: bool
) -> None:
    load = Load()
    async with (
        spawned(tmp_path, stdio=first_is_stdio) as first,
        AsyncExitStack() as stack,
    ):
        clients = [await first.client() for _ in range(4)]
        for client in clients:
            stack.push_async_callback(client.close)
        await clients[0].call("ledger/role/upsert", name="w")
        second = await stack.enter_async_context(spawned(tmp_path, stdio=True))
        follower = second.stdio()
        assert not (await status(follower))["leader"]
        for n in range(40):
            await follower.call("ledger/send", **note(f"first-{n}"))
        held = await load.hold(clients[3], "w")
        assert held
        async with asyncio.TaskGroup() as group:
            for n, client in enumerate(clients[:3]):
                group.create_task(load.send(client, str(n)))
            steady = group.create_task(load.send(follower, "follower"))
            await until(lambda: asyncio.sleep(0, len(load.acknowledged) > 200))
            first.process.kill()
            await first.ended()  # else its own socket might still take us in
            with anyio.fail_after(FREE_S):
                operator = await listening(tmp_path / "s.sock")
            stack.push_async_callback(operator.close)
            steady.cancel()
        await after_the_fall(operator, second, first, held)
        table = await rows(operator)
        assert set(load.acknowledged) <= set(table)
        assert folded(await feed(operator)) == table


async def after_the_fall(operator: Client, second: Spawned, first: Spawned, held: list[str]) -> None:
    """The survivor leads, and what the dead one's connection held is queued again, once, with one event each."""

    async def back() -> bool:
        table = await rows(operator)
        return all(table[msg_id] == "queued" for msg_id in held)

    await until(back, FREE_S)
    seen = await status(operator)
    assert seen["leader"]
    assert seen["pid"] == second.process.pid
    assert seen["leader_process"]["pid"] == second.process.pid
    events = await feed(operator)
    told = Counter(
        event["data"]["msg_id"]
        for event in events
        if event["type"] == "ledger_state" and event["data"]["state"] == "queued" and event["data"].get("requeued")
    )
    assert told == dict.fromkeys(held, 1)
    leaders = [event["data"]["pid"] for event in events if event["type"] == "leader"]
    assert leaders == [first.process.pid, second.process.pid]


async def test_what_a_killed_follower_held_comes_back_although_its_role_was_attached_elsewhere_before(
    tmp_path: Path,
) -> None:
    async with spawned(tmp_path) as first, AsyncExitStack() as stack:
        operator, consumer = await first.client(), await first.client()
        stack.push_async_callback(operator.close)
        stack.push_async_callback(consumer.close)
        await operator.call("ledger/role/upsert", name="w")
        await consumer.call("ledger/attach", role="w")
        # The sweeper has nothing to do any more, and no event will tell it that another process attaches.
        second = await stack.enter_async_context(spawned(tmp_path, stdio=True))
        agent = second.stdio()
        await agent.call("ledger/attach", role="w")
        await operator.call("ledger/send", **note(1))
        (delivery,) = (await agent.call("ledger/pull", wait_ms=5000))["deliveries"]
        second.process.kill()
        with anyio.fail_after(FREE_S):
            (again,) = (await consumer.call("ledger/pull", wait_ms=15_000))["deliveries"]
        assert again["envelope"]["msg_id"] == delivery["envelope"]["msg_id"]
        assert again["requeued"] == 1


async def test_leadership_passes_on_when_the_leader_stops_in_order(tmp_path: Path) -> None:
    async with spawned(tmp_path) as first, AsyncExitStack() as stack:
        await (await first.client()).close()
        second = await stack.enter_async_context(spawned(tmp_path, stdio=True))
        follower = second.stdio()
        await follower.call("daemon/ping")
        first.process.terminate()
        assert await first.ended() == 0
        operator = await listening(tmp_path / "s.sock")
        assert (await status(operator))["pid"] == second.process.pid
        await operator.close()


async def test_a_second_daemon_refuses_and_the_first_keeps_its_socket(tmp_path: Path) -> None:
    async with spawned(tmp_path) as first, on(first) as client:
        assert first.socket is not None
        before = inode(first.socket)
        async with spawned(tmp_path) as second:
            assert await second.ended() == 75
        last = second.log[-1]
        for word in (f"pid {first.process.pid}", "kind daemon", str(first.socket), "already running"):
            assert word in last
        assert inode(first.socket) == before
        assert await client.call("daemon/ping")
        async with on(first) as fresh:
            assert await fresh.call("daemon/ping")


async def test_a_socket_that_a_killed_one_left_is_taken_over(tmp_path: Path) -> None:
    async with spawned(tmp_path) as first:
        await (await first.client()).close()
        first.process.kill()
        await first.ended()
    assert (tmp_path / "s.sock").exists()
    async with spawned(tmp_path) as second, on(second) as client:
        assert (await status(client))["leader"]


def a_file(path: Path) -> socket.socket | None:
    path.write_text("precious")
    return None


def a_listener(path: Path) -> socket.socket | None:
    foreign = socket.socket(socket.AF_UNIX)
    foreign.bind(str(path))
    foreign.listen(5)
    return foreign


@pytest.mark.parametrize("what", [a_file, a_listener])
def test_what_is_in_the_sockets_place_and_not_ours_is_left_alone(
    tmp_path: Path, what: Callable[[Path], socket.socket | None]
) -> None:
    path = tmp_path / "s.sock"
    foreign = what(path)
    before = inode(path)
    code, out, log = run(tmp_path, "--state-dir", str(tmp_path / "state"), "--socket", str(path))
    assert (code, out) == (69, "")
    assert str(path) in log.splitlines()[-1]
    assert inode(path) == before
    if foreign is None:
        assert path.read_text() == "precious"
    else:
        with foreign, socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))


async def test_a_stdio_process_serves_although_its_socket_is_taken(tmp_path: Path) -> None:
    foreign = a_listener(tmp_path / "s.sock")
    assert foreign is not None
    with foreign:
        async with spawned(tmp_path, stdio=True) as daemon:
            found = await status(daemon.stdio())
            assert found["leader"]
            assert "socket" not in found


def test_a_socket_path_of_108_bytes_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    path = tmp_path / ("s" * (107 - len(bytes(tmp_path))))
    assert len(bytes(path)) == 108
    code, _, log = run(tmp_path, "--state-dir", str(tmp_path / "state"), "--socket", str(path))
    assert code == 2
    for word in (str(path), "108", "107", "--socket"):
        assert word in log.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


async def test_a_socket_path_of_107_bytes_serves(tmp_path: Path) -> None:
    name = "s" * (106 - len(bytes(tmp_path)))
    async with spawned(tmp_path, socket=name) as daemon, on(daemon) as client:
        assert (await status(client))["socket"] == str(tmp_path / name)


@pytest.mark.parametrize(
    ("arguments", "near"),
    [(("--stat-dir", "x"), "--state-dir"), (("--durability", "most"), "full"), (("--idle-exit", "soon"), "number")],
)
def test_an_unknown_option_or_value_is_refused_with_2_and_what_was_meant(
    tmp_path: Path, arguments: tuple[str, ...], near: str
) -> None:
    code, out, log = run(tmp_path, "--state-dir", str(tmp_path / "state"), "--socket", "none", *arguments)
    assert (code, out) == (2, "")
    assert near in log.splitlines()[-1]
    assert files(tmp_path) == {}


async def test_directory_and_socket_are_ours_alone_and_a_wider_mode_is_narrowed(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    (tmp_path / "state").chmod(0o755)
    async with spawned(tmp_path) as daemon, on(daemon) as client:
        assert daemon.socket is not None
        assert (mode(daemon.state_dir), mode(daemon.socket)) == (0o700, 0o600)
        assert any("state_dir_narrowed" in line for line in daemon.log)
        assert (await client.call("daemon/doctor"))["ok"]


async def test_a_socket_file_that_a_cleaner_removed_is_bound_again_and_told(tmp_path: Path) -> None:
    async with spawned(tmp_path) as daemon, on(daemon) as client:
        assert daemon.socket is not None
        os.unlink(daemon.socket)
        async with on(daemon) as fresh:
            assert mode(daemon.socket) == 0o600
            waits = {"filter": {"events": {"types": ["socket_restored"]}}, "after_seq": 0}
            told = await fresh.call("daemon/wait", **waits)
            assert told["event"]["data"] == {"socket": str(daemon.socket)}
            assert (await status(client))["socket"] == str(daemon.socket)


async def test_a_leader_that_cannot_record_itself_leads_all_the_same(tmp_path: Path) -> None:
    async with spawned(tmp_path) as daemon:
        await (await daemon.client()).close()
    with locked(tmp_path / "state" / "interlock.sqlite3"):
        async with spawned(tmp_path) as daemon:
            async with on(daemon) as client:
                found = await status(client)
                assert (found["state"], found["leader"]) == ("ready", True)
            daemon.process.terminate()
            assert await daemon.ended() == 0


async def test_a_client_that_comes_while_the_daemon_starts_is_served(tmp_path: Path) -> None:
    for _ in range(3):
        async with spawned(tmp_path) as daemon, on(daemon) as client:  # the first moment at which somebody listens
            assert "head" in await client.call("ledger/events/head")
