"""A process that serves its stdin and stdout: it ends with them, and nothing but the protocol is on them."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

import anyio
import pytest

from tests.harness import PATIENCE_S, Spawned, environment, spawned

from .support import check_lawful, locked, note, request, rows, run, until

ROLE: Final = request(0, "ledger/role/upsert", {"name": "w"})
GONE_S: Final = 8
"""The promise is 2 s on a machine that has time for it. One that would not end by itself is noticed all the same."""


def command(tmp_path: Path, *arguments: str) -> list[str]:
    """How a client spawns a server."""
    places = ("--state-dir", str(tmp_path / "state"), "--socket", str(tmp_path / "s.sock"))
    return [sys.executable, "-m", "interlock.daemon", *places, "--stdio", *arguments]


def serve(tmp_path: Path, sent: bytes, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """A process from the first byte of its input to its end."""
    given = {"input": sent, "capture_output": True, "timeout": PATIENCE_S, "check": False, **options}
    return subprocess.run(command(tmp_path), env=environment(tmp_path), cwd=tmp_path, **given)


def lines(output: bytes) -> list[dict[str, Any]]:
    """The answers in an output that holds nothing else."""
    found = [json.loads(line) for line in output.splitlines()]
    for message in found:
        check_lawful(message)
    return found


def sends(count: int) -> bytes:
    """A role, then mail for it."""
    return b"\n".join([ROLE, *(request(n, "ledger/send", note(n)) for n in range(1, count + 1)), b""])


def stored(state_dir: Path) -> set[str]:
    """The op ids of the messages on disk."""
    with closing(sqlite3.connect(f"file:{state_dir / 'interlock.sqlite3'}?mode=ro", uri=True)) as conn:
        return {row[0] for row in conn.execute("SELECT op_id FROM messages")}


def test_all_that_was_written_before_the_end_of_input_is_answered_and_on_disk(tmp_path: Path) -> None:
    done = serve(tmp_path, sends(600))
    answers = lines(done.stdout)
    assert done.returncode == 0, done.stderr
    assert [answer for answer in answers if "error" in answer] == []
    assert sorted(answer["id"] for answer in answers) == list(range(601))
    assert stored(tmp_path / "state") == {f"op-{n}" for n in range(1, 601)}


def test_the_end_of_input_ends_waiting_calls_and_says_why(tmp_path: Path) -> None:
    waits = b"".join(request(n, "daemon/wait", {"filter": {"events": {}}}) + b"\n" for n in range(3))
    done = serve(tmp_path, waits)
    assert done.returncode == 0
    assert {answer["error"]["data"]["code"] for answer in lines(done.stdout)} <= {"cancelled", "draining"}
    assert len(lines(done.stdout)) == 3


def test_starts_and_stops_in_a_row_never_hang(tmp_path: Path) -> None:
    for _ in range(10):
        parts = [
            subprocess.Popen(
                command(tmp_path), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=environment(tmp_path),
            )
            for _ in range(3)
        ]  # fmt: skip
        for process in parts:
            output, log = process.communicate(timeout=PATIENCE_S)
            assert (process.returncode, output) == (0, b""), log


PARENT: Final = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
n = 0
def ask(line):
    child.stdin.write(line + b"\\n"); child.stdin.flush()
    return child.stdout.readline()
ask(sys.stdin.buffer.readline().strip())
print(child.pid, flush=True)
while True:
    n += 1
    text = b'{"jsonrpc":"2.0","id":%d,"method":"ledger/send","params":' % n
    answer = ask(text + b'{"kind":"task","to":"w","op_id":"op-%d","body":{"text":"x"}}}' % n)
    assert b"msg_id" in answer, answer
    print(n, flush=True)
"""


def test_a_process_whose_parent_was_killed_is_gone_soon_and_all_it_acknowledged_is_on_disk(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, *command(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(tmp_path),
    ) as parent:  # fmt: skip
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.write(ROLE + b"\n")
        parent.stdin.flush()
        child = os.pidfd_open(int(parent.stdout.readline()))
        for _ in range(50):
            assert parent.stdout.readline()
        parent.kill()
        said = 50 + len(parent.stdout.read().splitlines())
    wait_for(child)
    assert {f"op-{n}" for n in range(1, said + 1)} <= stored(tmp_path / "state")


def wait_for(pidfd: int) -> None:
    """Until a process that is not our child has ended."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    assert poll.poll(GONE_S * 1000), "it lives on"
    os.close(pidfd)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("stdio", [True, False])
async def test_a_signal_stops_it_in_order(tmp_path: Path, number: signal.Signals, stdio: bool) -> None:
    async with spawned(tmp_path, stdio=stdio) as daemon:
        client = daemon.stdio() if stdio else await daemon.client()
        await client.call("daemon/ping")
        daemon.process.send_signal(number)
        assert await daemon.ended() == 0
        assert not (tmp_path / "s.sock").exists()
        await client.close()


async def test_a_signal_stops_it_while_it_waits_for_the_store_and_so_does_the_end_of_input(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    with locked(tmp_path / "state" / "interlock.sqlite3"):
        async with spawned(tmp_path, stdio=True) as daemon, spawned(tmp_path, stdio=True) as other:
            for process in (daemon, other):
                client = process.stdio()
                refused = await client.refused("ledger/role/list")
                assert (refused.code, refused.data["retryable"]) == ("starting", True)
                assert refused.data["retry_after_ms"] > 0
                assert (await client.call("daemon/status"))["state"] == "starting"
                assert await client.call("daemon/ping")
            daemon.process.send_signal(signal.SIGTERM)
            assert other.process.stdin is not None
            other.process.stdin.close()
            with anyio.fail_after(GONE_S):
                assert await daemon.ended() == 0
                assert await other.ended() == 0


async def test_it_begins_to_serve_as_soon_as_the_store_is_free(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    async with spawned(tmp_path, stdio=True) as daemon:
        client = daemon.stdio()
        with locked(tmp_path / "state" / "interlock.sqlite3"):
            assert (await client.refused("ledger/role/list")).code == "starting"

        async def listed() -> bool:
            return "result" in await client.start("ledger/role/list")

        assert await until(listed)
        assert (await client.call("daemon/status"))["state"] == "ready"


@pytest.mark.parametrize("stdio", [True, False])
async def test_a_signal_right_after_the_start_stops_it_too(tmp_path: Path, stdio: bool) -> None:
    for _ in range(3):
        async with spawned(tmp_path, stdio=stdio) as daemon:
            lock = tmp_path / "state" / "interlock.lock"
            await until(partial(asyncio.to_thread, begun, lock))
            daemon.process.send_signal(signal.SIGTERM)
            assert await daemon.ended() == 0


def begun(lock: Path) -> bool:
    return lock.exists() and lock.stat().st_size > 0


async def test_a_second_signal_cuts_the_wait(tmp_path: Path) -> None:
    async with spawned(tmp_path) as daemon:
        client = await daemon.client()
        await client.call("ledger/role/upsert", name="w")
        with locked(daemon.state_dir / "interlock.sqlite3"):
            held = client.start("ledger/send", **note(1))
            await client.call("daemon/ping")
            daemon.process.send_signal(signal.SIGTERM)
            await until(lambda: draining(daemon))
            daemon.process.send_signal(signal.SIGTERM)
            queued = await client.start("ledger/send", **note(2))
            assert queued["error"]["data"]["code"] == "draining"
        answer = await held
        assert "result" in answer or answer["error"]["data"]["code"] in ("draining", "busy")
        assert await daemon.ended() == 0
        await client.close()


async def draining(daemon: Spawned) -> bool:
    return any('"draining"' in line for line in daemon.log)


NOISE: Final = """
import os, runpy, subprocess, sys
from interlock.daemon.methods import process

shown = process.status_of
async def loud(services):
    print("a stray word")
    sys.stdout.write("another"); sys.stdout.flush()
    os.write(1, b"straight to the descriptor")
    subprocess.run(["echo", "a child"], check=True)
    return await shown(services)

process.status_of = loud
sys.argv[0] = "interlockd"
runpy.run_module("interlock.daemon", run_name="__main__")
"""


def test_stdout_holds_nothing_but_protocol_whatever_prints(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", NOISE, *command(tmp_path)[3:]]
    done = subprocess.run(
        argv, input=request(1, "daemon/status") + b"\n", capture_output=True, timeout=PATIENCE_S, check=False,
        env=environment(tmp_path),
    )  # fmt: skip
    (answer,) = lines(done.stdout)
    assert answer["result"]["state"] in ("ready", "draining")
    for word in (b"a stray word", b"another", b"straight to the descriptor", b"a child"):
        assert word in done.stderr


def test_files_serve_as_input_and_output(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(sends(20))
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as sink:
        done = serve(tmp_path, b"", **{"input": None, "capture_output": False, "stdin": source, "stdout": sink})
    assert done.returncode == 0
    answers = lines((tmp_path / "out").read_bytes())
    assert sorted(answer["id"] for answer in answers) == list(range(21))
    assert all("result" in answer for answer in answers)


@pytest.mark.parametrize("closed", [(0,), (1,), (0, 1), (0, 1, 2)], ids=str)
def test_descriptors_that_are_closed_at_the_start_end_it_in_order(tmp_path: Path, closed: tuple[int, ...]) -> None:
    def close() -> None:
        for fd in closed:
            os.close(fd)

    done = serve(tmp_path, b"" if 0 in closed else sends(3), preexec_fn=close)
    assert done.returncode == 0, done.stderr
    assert done.stdout == b""
    if 0 not in closed:
        assert stored(tmp_path / "state") == {"op-1", "op-2", "op-3"}


def test_null_for_both_ends_it_in_order(tmp_path: Path) -> None:
    code, _, log = run(tmp_path, *command(tmp_path)[3:], stdout=subprocess.DEVNULL, capture_output=False)
    assert (code, log) == (0, "")


def broken_pipe() -> IO[bytes]:
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "wb")


def full_device() -> IO[bytes]:
    return open("/dev/full", "wb")


@pytest.mark.parametrize("output", [broken_pipe, full_device])
async def test_an_output_that_nobody_reads_ends_it_although_input_stays_open(
    tmp_path: Path, output: Callable[[], IO[bytes]]
) -> None:
    with output() as sink:
        process = await asyncio.create_subprocess_exec(
            *command(tmp_path), stdin=subprocess.PIPE, stdout=sink, stderr=subprocess.DEVNULL, env=environment(tmp_path)
        )
    assert process.stdin is not None
    try:
        process.stdin.write(sends(3))
        with anyio.fail_after(GONE_S):
            assert await process.wait() == 0
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        process.stdin.close()
        with suppress(OSError):
            await process.stdin.wait_closed()


async def test_one_socket_for_both_directions_serves(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        process = await asyncio.create_subprocess_exec(
            *command(tmp_path),
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
            env=environment(tmp_path),
        )
    reader, writer = await asyncio.open_connection(sock=ours)
    writer.write(sends(5))
    writer.write_eof()
    with anyio.fail_after(PATIENCE_S):
        answers = lines(await reader.read())
        assert await process.wait() == 0
    assert sorted(answer["id"] for answer in answers) == list(range(6))
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def test_a_client_that_speaks_at_once_is_not_told_to_wait(tmp_path: Path) -> None:
    async with spawned(tmp_path, stdio=True) as daemon:
        client = daemon.stdio()
        await client.call("ledger/role/upsert", name="w")
        await client.call("ledger/send", **note(1))
        assert list((await rows(client)).values()) == ["queued"]
