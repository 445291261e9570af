"""100,000 random byte strings and 10,000 mutated requests: every answer is lawful, and the daemon serves on."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from tests.harness import PATIENCE_S, spawned

from .support import Framing, Wire, check_lawful, note, on, request

SEED: Final = 20260101
STRINGS: Final = 25_000
MUTANTS: Final = 2_500
"""Of each on every one of four connections."""
CHUNK: Final = 500
PARTS: Final = [
    *(b'{}[]",:0', b'{"jsonrpc":"2.0"', b'"id":', b'"method":', b'"params":{', b'"daemon/ping"', b"null", b"1e999"),
    *(b"\\u0000", b"\\ud800", b"\xff", b"\xed\xa0\x80", b"9" * 40, b"[" * 200, b"true", b"-", b".", b" ", b"\r", b"C"),
]
VALID: Final = [
    request(1, "daemon/ping"),
    request("a", "daemon/status", {"_meta": {"x": 1}}),
    request(2, "initialize", {"clientInfo": {"name": "x"}}),
    request(3, "ledger/send", note(1)),
    request(4, "ledger/pull", {"role": "w", "limit": 3, "wait_ms": 0}),
    request(5, "ledger/attach", {"role": "w", "holds": ["msg_1"]}),
    request(6, "ledger/query", {"state": "queued", "limit": 5}),
    request(7, "ledger/events/since", {"after_seq": 0, "types": ["ledger_state"]}),
    request(8, "daemon/wait", {"filter": {"mail": {"role": "w"}}, "timeout_ms": 5}),
    request(9, "daemon/batch", {"steps": [{"method": "ledger/send", "params": note(2)}], "op_id": "b"}),
    request(10, "ledger/role/upsert", {"name": "w", "note_queue": True}),
    request(11, "ledger/cursor/set", {"name": "w", "seq": 1}),
    b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":8}}',
    b'[{"jsonrpc":"2.0","id":12,"method":"daemon/ping"},{"jsonrpc":"2.0","method":"daemon/ping"}]',
]
VALUES: Final[list[Any]] = [
    None,
    True,
    -1,
    2**63,
    1.5,
    "",
    "\0",
    "x" * 300,
    [],
    [1],
    {},
    {"a": {}},
    "msg_1",
    "w",
    1e300,
]


def strings(chance: random.Random) -> Iterator[bytes]:
    """Random bytes, and pieces of JSON in random order."""
    for n in range(STRINGS):
        if n % 2:
            yield chance.randbytes(chance.randrange(120))
        else:
            yield b"".join(chance.choices(PARTS, k=chance.randrange(12)))


def mutants(chance: random.Random) -> Iterator[bytes]:
    """Valid requests with a few bytes, or one value, changed."""
    for n in range(MUTANTS):
        valid = chance.choice(VALID)
        yield changed_value(valid, chance) if n % 2 else changed_bytes(valid, chance)


def changed_bytes(valid: bytes, chance: random.Random) -> bytes:
    data = bytearray(valid)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(data) or 1)
        match chance.randrange(4):
            case 0:
                data[at : at + 1] = chance.randbytes(1)
            case 1:
                del data[at : at + chance.randrange(1, 9)]
            case 2:
                data[at:at] = chance.choice(PARTS)
            case _:
                data[at:at] = data[at : at + chance.randrange(1, 30)]
    return bytes(data)


def changed_value(valid: bytes, chance: random.Random) -> bytes:
    message = json.loads(valid)
    holder = message if isinstance(message, dict) else message[0]
    while True:
        key = chance.choice([*holder, "extra"])
        inner = holder.get(key)
        if not (isinstance(inner, dict) and inner and chance.random() < 0.7):
            break
        holder = inner
    holder[key] = chance.choice(VALUES)
    return json.dumps(message).encode()


async def bombard(wire: Wire, seed: int) -> int:
    """Send everything, end the input, and read to the end; how many answers there were."""
    chance = random.Random(seed)
    messages = [*strings(chance), *mutants(chance)]
    chance.shuffle(messages)
    reading = asyncio.create_task(read_all(wire))
    wire.send(request("first", "daemon/ping"))  # fixes the framing
    for start in range(0, len(messages), CHUNK):
        for message in messages[start : start + CHUNK]:
            wire.send(message.replace(b"\n", b" ") if wire.framing == "line" else message)
        await wire.writer.drain()
    wire.send(request("last", "daemon/ping"))
    wire.writer.write_eof()
    answers = await reading
    ids = {json.dumps(answer["id"]) for answer in answers if isinstance(answer, dict) and "id" in answer}
    assert {'"first"', '"last"', "null"} <= ids
    return len(answers)


async def read_all(wire: Wire) -> list[Any]:
    """Every message to the end of output: read in bulk, and nothing between them."""
    data = await wire.reader.read()
    pieces = lines(data) if wire.framing == "line" else blocks(data)
    answers = [json.loads(piece) for piece in pieces]
    for answer in answers:
        for member in answer if isinstance(answer, list) else [answer]:
            check_lawful(member)
    return answers


def lines(data: bytes) -> list[bytes]:
    *found, end = data.split(b"\n")
    assert end == b""
    return found


def blocks(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        end = data.index(b"\r\n\r\n", at)
        name, length = data[at:end].split(b": ")
        assert name == b"Content-Length"
        at = end + 4 + int(length)
        yield data[end + 4 : at]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("framing", ["line", "header"])
async def test_no_input_stops_the_daemon_or_gets_an_answer_that_is_no_json_rpc(
    tmp_path: Path, framing: Framing
) -> None:
    async with spawned(tmp_path, stdio=True) as daemon, on(daemon) as operator:
        assert daemon.process.stdin is not None
        assert daemon.process.stdout is not None
        await operator.call("ledger/role/upsert", name="w")
        reader, writer = await asyncio.open_unix_connection(str(daemon.socket), limit=1 << 26)
        with anyio.fail_after(100):
            first = await bombard(Wire(reader, writer, framing), SEED)
            assert (await operator.call("daemon/status"))["state"] == "ready"
            assert await operator.call("ledger/role/list")
            second = await bombard(Wire(daemon.process.stdout, daemon.process.stdin, framing), SEED + 1)
        writer.close()
        assert min(first, second) > STRINGS // 2
        assert await daemon.ended() == 0
        assert not [line for line in daemon.log if '"internal_error"' in line or "Traceback" in line]


async def test_connections_that_begin_with_garbage_harm_nobody(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    async with spawned(tmp_path) as daemon, on(daemon) as operator:
        for n in range(200):
            reader, writer = await asyncio.open_unix_connection(str(daemon.socket))
            writer.write((b"C" if n % 3 == 0 else b"") + chance.randbytes(chance.randrange(5000)))
            if n % 2:
                writer.write_eof()
                with anyio.fail_after(PATIENCE_S):
                    await reader.read()
            writer.transport.abort()
        assert (await operator.call("daemon/status"))["state"] == "ready"
