"""`nc -U`: a person with netcat is a client, one message per line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.harness import PATIENCE_S, served

pytestmark = pytest.mark.needs("nc")


async def netcat(socket: Path, *options: str) -> asyncio.subprocess.Process:
    """`nc` on the daemon's socket."""
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec("nc", *options, "-U", str(socket), stdin=pipe, stdout=pipe)


async def piped(socket: Path, text: bytes) -> list[Any]:
    """What `printf … | nc -N -U` prints, line by line, once it has ended by itself."""
    process = await netcat(socket, "-N")
    with anyio.fail_after(PATIENCE_S):
        out, _ = await process.communicate(text)
    assert process.returncode == 0
    return [json.loads(line) for line in out.splitlines()]


async def test_lines_from_a_pipe_are_answered_before_netcat_ends(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("worker",)) as daemon:
        send = {"kind": "task", "to": "worker", "body": {"text": "Prüfe das."}}
        requests = [
            {"jsonrpc": "2.0", "id": "a", "method": "ledger/send", "params": send},
            {"jsonrpc": "2.0", "id": 2, "method": "daemon/ping"},
            {"jsonrpc": "2.0", "method": "daemon/ping"},
        ]
        answers = await piped(daemon.socket, "".join(f"{json.dumps(request)}\n" for request in requests).encode())
        assert {answer["id"]: "result" in answer for answer in answers} == {"a": True, 2: True}


async def test_the_last_line_needs_no_end_and_windows_ends_do_no_harm(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon:
        text = b'{"jsonrpc":"2.0","id":1,"method":"daemon/ping"}\r\n\r\n{"jsonrpc":"2.0","id":2,"method":"daemon/ping"}'
        assert sorted(answer["id"] for answer in await piped(daemon.socket, text)) == [1, 2]


async def test_a_typing_mistake_is_answered_and_the_connection_goes_on(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon:
        process = await netcat(daemon.socket)
        assert process.stdin is not None
        assert process.stdout is not None
        with anyio.fail_after(PATIENCE_S):
            process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"daemon/ping"\n')
            mistaken = json.loads(await process.stdout.readline())
            process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"daemon/ping"}\n')
            answered = json.loads(await process.stdout.readline())
            process.terminate()
            await process.wait()
        assert (mistaken["id"], mistaken["error"]["code"]) == (None, -32700)
        assert (answered["id"], list(answered["result"])) == (1, ["now", "instance_id"])


async def test_mail_that_a_killed_netcat_held_goes_back(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("worker",)) as daemon, daemon.client() as operator:
        await operator.call("ledger/send", kind="task", to="worker", body={"text": "x"})
        process = await netcat(daemon.socket)
        assert process.stdin is not None
        assert process.stdout is not None
        answer: Any = None
        with anyio.fail_after(PATIENCE_S):
            for n, (method, params) in enumerate([("ledger/attach", {"role": "worker"}), ("ledger/pull", {})]):
                request = {"jsonrpc": "2.0", "id": n, "method": method, "params": params}
                process.stdin.write(f"{json.dumps(request)}\n".encode())
                answer = json.loads(await process.stdout.readline())
            assert len(answer["result"]["deliveries"]) == 1
            head = answer["result"]["as_of_seq"]
            process.kill()
            await process.wait()
            found = await operator.call(
                "daemon/wait", filter={"events": {"types": ["ledger_state"]}}, after_seq=head, timeout_ms=10_000
            )
        assert (found["event"]["data"]["state"], found["event"]["data"]["reason"]) == ("queued", "connection_lost")
