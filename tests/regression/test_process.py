"""What surrounds the store: other people's files, too few descriptors, a directory that is gone, backups."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio

from interlock.daemon.places import PROCESSES
from tests.harness import PATIENCE_S, Client, served, spawned


async def expired(client: Client, role: str) -> bool:
    """Whether a note that is over at once becomes `expired`: the sweeper lives."""
    sent = await client.call("ledger/send", kind="note", to=role, body={"text": "x"}, ttl_ms=1)
    wanted = {"subjects": [sent["msg_id"]]}
    after = (await client.call("daemon/wait", filter={"events": wanted}, after_seq=0))["event"]["seq"]
    found = await client.call("daemon/wait", filter={"events": wanted}, after_seq=after, timeout_ms=15_000)
    return bool(found["matched"]) and found["event"]["data"]["state"] == "expired"


async def test_a_foreign_file_beside_those_of_the_processes_does_not_stop_the_sweeper(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("worker",)) as daemon, daemon.client() as client:
        (daemon.state_dir / PROCESSES / "not one of ours.lock").touch()
        assert await expired(client, "worker")


@contextmanager
def no_more_files() -> Iterator[None]:
    """Every descriptor of this process is taken."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 400), hard))
    taken: list[int] = []
    try:
        try:
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            yield
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_the_sweeper_outlives_a_time_without_file_descriptors(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("worker",)) as daemon, daemon.client() as client:
        passes = daemon.app.services.metrics
        with no_more_files(), anyio.fail_after(PATIENCE_S):
            while not passes.sweep_failures:
                await client.call("daemon/ping")
        assert await expired(client, "worker")


async def test_a_follower_outlives_a_time_without_file_descriptors_and_leads_later(tmp_path: Path) -> None:
    async with spawned(tmp_path) as leader:
        first = await leader.client()
        async with spawned(tmp_path, stdio=True, socket="t.sock") as follower:
            client = follower.stdio()
            pid = (await client.call("daemon/status"))["pid"]
            soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))
            with anyio.fail_after(PATIENCE_S):
                while not any("leadership_failed" in line for line in follower.log):
                    await client.call("daemon/ping")
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
            await first.call("daemon/shutdown")
            with anyio.fail_after(PATIENCE_S):
                while not (await client.call("daemon/status"))["leader"]:
                    pass
            await client.end_input()
            await first.close()
            await client.close()


async def test_doctor_says_that_the_directory_is_gone(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        shutil.move(daemon.state_dir, tmp_path / "elsewhere")
        report = await client.call("daemon/doctor")
        assert not report["ok"]
        assert "state_dir_mode" in [finding["code"] for finding in report["findings"]]
        shutil.move(tmp_path / "elsewhere", daemon.state_dir)


def unfinished(folder: Path) -> list[str]:
    """What backups have left behind that are not complete."""
    return [name for name in os.listdir(folder) if "partial" in name]


async def test_of_several_backups_to_one_place_one_is_made_whole(tmp_path: Path) -> None:
    target = tmp_path / "backup"
    async with served(tmp_path) as daemon, daemon.client() as client, daemon.client() as other:
        asked = [one.start("daemon/backup", path=str(target)) for one in (client, other, client)]
        with anyio.fail_after(PATIENCE_S):
            answers = await asyncio.gather(*asked)
        assert sum("result" in answer for answer in answers) == 1
        assert {path.name for path in target.iterdir()} == {"interlock.sqlite3", "manifest.json"}
        assert not unfinished(tmp_path)


async def test_a_cancelled_backup_leaves_nothing_or_was_made(tmp_path: Path) -> None:
    target = tmp_path / "backup"
    async with served(tmp_path) as daemon, daemon.client() as client:
        request_id, answer = client.begin("daemon/backup", {"path": str(target)})
        with anyio.fail_after(PATIENCE_S):
            while not unfinished(tmp_path) and not answer.done():
                await client.call("daemon/ping")
            client.send({"jsonrpc": "2.0", "method": "cancel", "params": {"request_id": request_id}})
            made = "result" in await answer
        assert target.exists() == made
        assert not unfinished(tmp_path)
