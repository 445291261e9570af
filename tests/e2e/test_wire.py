"""Every row of contract daemon 1.1, and batches, in both framings on the socket and on stdio."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from interlock.protocol.limits import DEPTH, HEADER_BYTES, ID_BYTES, LIMITS, MESSAGE_BYTES, TEXT_BYTES

from .support import WHERES, Where, Wire, request, wire

every_where = pytest.mark.parametrize("where", WHERES, ids="-".join)


class Row(NamedTuple):
    """A message, and the number, code, id and data of the error that answers it."""

    payload: bytes
    number: int
    code: str
    id: Any = None
    data: dict[str, Any] = {}


def send_params(**changed: Any) -> dict[str, Any]:
    """A send that is right but for what is changed."""
    return {"kind": "note", "to": "w", "body": {"text": "x"}, **changed}


def nested(depth: int) -> bytes:
    """Arrays in arrays."""
    return b"[" * depth + b"]" * depth


BAD_IDS: Final[tuple[Any, ...]] = (True, 1.5, 1.0, None, [1], {}, 2**53, -(2**53), 2**80)
BIG: Final = "x" * (TEXT_BYTES + 1)
ENVELOPES: Final = {
    "syntax": Row(b'{"jsonrpc":"2.0",', -32700, "parse_error"),
    "bad utf-8": Row(b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700, "parse_error"),
    "NaN": Row(b'{"jsonrpc":"2.0","id":1,"method":"daemon/ping","params":{"a":NaN}}', -32700, "parse_error"),
    "Infinity": Row(b'{"jsonrpc":"2.0","id":1,"method":"daemon/ping","params":{"a":-Infinity}}', -32700, "parse_error"),
    "beyond double": Row(
        b'{"jsonrpc":"2.0","id":1,"method":"daemon/ping","params":{"a":1e999}}', -32700, "parse_error"
    ),
    "two values": Row(b"{} {}", -32700, "parse_error"),
    "no value": Row(b'{"a":x}', -32700, "parse_error", data={"position": 5}),
    "too deep": Row(
        b'{"jsonrpc":"2.0","id":7,"method":"daemon/ping","params":{"a":%b}}' % nested(DEPTH), -32600, "too_deep", 7
    ),
    "only depth": Row(nested(100_000), -32600, "too_deep"),
    "a number": Row(b"12", -32600, "invalid_request"),
    "a string": Row(b'"daemon/ping"', -32600, "invalid_request"),
    "no version": Row(b'{"id":1,"method":"daemon/ping"}', -32600, "invalid_request", 1, {"path": "#/jsonrpc"}),
    "another version": Row(request("a", "daemon/ping", jsonrpc="1.0"), -32600, "invalid_request", "a"),
    "no method": Row(b'{"jsonrpc":"2.0","id":1}', -32600, "invalid_request", 1, {"path": "#/method"}),
    "method is a number": Row(b'{"jsonrpc":"2.0","id":1,"method":1}', -32600, "invalid_request", 1),
    **{
        f"id {bad}": Row(request(bad, "daemon/ping"), -32600, "invalid_request", None, {"path": "#/id"})
        for bad in BAD_IDS
    },
    "long id": Row(request("i" * (ID_BYTES + 1), "daemon/ping"), -32600, "invalid_request", None, {"path": "#/id"}),
    "empty batch": Row(b"[]", -32600, "invalid_request"),
    "large batch": Row(json.dumps([0] * 257).encode(), -32600, "too_large"),
}
PARAMS: Final = {
    "unknown method": Row(request(1, "daemon/pin"), -32601, "method_not_found", 1, {"expected": "daemon/ping"}),
    "unknown before params": Row(request(1, "daemon/pin", [1]), -32601, "method_not_found", 1),
    "params is an array": Row(request(1, "daemon/ping", [1]), -32602, "invalid_params", 1, {"path": ""}),
    "params is a text": Row(request(1, "daemon/ping", "x"), -32602, "invalid_params", 1, {"path": ""}),
    "lone surrogate": Row(
        b'{"jsonrpc":"2.0","id":1,"method":"ledger/role/upsert","params":{"name":"\\ud800"}}',
        -32602, "invalid_params", 1, {"path": "/name"},
    ),
    "NUL": Row(
        request(1, "ledger/send", send_params(body={"text": "a\0b"})),
        -32602, "invalid_params", 1, {"path": "/body/text"},
    ),
    "beyond 64 bit": Row(
        request(1, "ledger/events/since", {"after_seq": 2**63}), -32602, "invalid_params", 1, {"path": "/after_seq"}
    ),
    "unknown field": Row(
        request(1, "ledger/role/upsert", {"nam": "w"}),
        -32602, "invalid_params", 1, {"path": "/nam", "expected": "name"},
    ),
    "missing field": Row(request(1, "ledger/role/upsert", {}), -32602, "invalid_params", 1, {"path": "/name"}),
    "wrong type": Row(request(1, "ledger/role/upsert", {"name": 1}), -32602, "invalid_params", 1, {"path": "/name"}),
    "unknown word": Row(
        request(1, "ledger/send", send_params(kind="tusk")),
        -32602, "invalid_params", 1, {"path": "/kind", "expected": "task"},
    ),
    "large text": Row(
        request(1, "ledger/send", send_params(body={"text": BIG})),
        -32004, "too_large", 1, {"path": "/body/text", "max": TEXT_BYTES},
    ),
    "long name": Row(
        request(1, "ledger/role/upsert", {"name": "n" * 257}), -32004, "too_large", 1, {"path": "/name", "max": 256}
    ),
    "large limit": Row(
        request(1, "ledger/query", {"limit": 501}), -32004, "limit_out_of_range", 1, {"path": "/limit", "max": 500}
    ),
    "long wait": Row(
        request(1, "daemon/wait", {"filter": {"events": {}}, "timeout_ms": 60_001}),
        -32004, "limit_out_of_range", 1, {"path": "/timeout_ms", "max": 60_000},
    ),
    "a negative seq": Row(request(1, "ledger/events/since", {"after_seq": -1}), -32602, "invalid_params", 1),
}  # fmt: skip
UNANSWERED: Final = {
    "a notification": b'{"jsonrpc":"2.0","method":"daemon/ping"}',
    "one that fails": b'{"jsonrpc":"2.0","method":"ledger/depth","params":{"role":"nobody"}}',
    "one with bad params": b'{"jsonrpc":"2.0","method":"daemon/ping","params":[1]}',
    "one that is unknown": b'{"jsonrpc":"2.0","method":"no/such"}',
    "initialize": b'{"jsonrpc":"2.0","method":"initialize","params":{"a":1}}',
    "initialized": b'{"jsonrpc":"2.0","method":"initialized","params":{}}',
    "the other initialized": b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
    "a result": b'{"jsonrpc":"2.0","id":"srv-1","result":{}}',
    "an error": b'{"jsonrpc":"2.0","id":4,"error":{"code":1,"message":"no"}}',
    "a cancel of nothing": b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":99}}',
    "a cancel without sense": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}',
    "a batch of them": b'[{"jsonrpc":"2.0","method":"daemon/ping"},{"jsonrpc":"2.0","method":"no/such"}]',
}


async def check(name: str, row: Row, client: Wire) -> None:
    (answer,) = await client.answers(row.payload)
    assert answer["id"] == row.id, (name, answer)
    assert type(answer["id"]) is type(row.id), (name, answer)
    error = answer["error"]
    assert (error["code"], error["data"]["code"]) == (row.number, row.code), (name, answer)
    assert row.data.items() <= error["data"].items(), (name, answer)


@every_where
async def test_each_message_that_cannot_be_taken_is_answered_as_the_table_says_and_the_connection_lives(
    tmp_path: Path, where: Where
) -> None:
    async with wire(tmp_path, where) as client:
        for name, row in {**ENVELOPES, **PARAMS}.items():
            await check(name, row, client)


@every_where
async def test_what_needs_no_answer_gets_none(tmp_path: Path, where: Where) -> None:
    async with wire(tmp_path, where) as client:
        for payload in UNANSWERED.values():
            assert await client.answers(payload, 0) == []


@every_where
async def test_an_oversized_message_is_skipped_and_its_id_is_named_where_it_stands_early(
    tmp_path: Path, where: Where
) -> None:
    filler = b" " * MESSAGE_BYTES
    early = b'{"jsonrpc":"2.0","id":"big","method":"daemon/ping"%b}' % filler
    late = b'{"jsonrpc":"2.0"%b,"id":"big","method":"daemon/ping"}' % filler
    async with wire(tmp_path, where) as client:
        await check("early", Row(early, -32600, "too_large", "big", {"max_bytes": MESSAGE_BYTES}), client)
        await check("late", Row(late, -32600, "too_large", None, {"max_bytes": MESSAGE_BYTES}), client)


@every_where
async def test_the_largest_message_is_taken(tmp_path: Path, where: Where) -> None:
    exact = request(1, "daemon/ping", {"_meta": {"pad": ""}})
    exact = exact.replace(b'""', b'"%b"' % (b"p" * (MESSAGE_BYTES - len(exact))))
    assert len(exact) == MESSAGE_BYTES
    async with wire(tmp_path, where) as client:
        (answer,) = await client.answers(exact)
        assert "now" in answer["result"]


@every_where
async def test_ids_come_back_as_they_were(tmp_path: Path, where: Where) -> None:
    ids = [0, -1, 2**53 - 1, 1 - 2**53, "", "1", "ü\u2028", "i" * ID_BYTES]
    async with wire(tmp_path, where) as client:
        for known in ids:
            (answer,) = await client.answers(request(known, "daemon/ping", {"_meta": {"any": 1}}, beside="ignored"))
            assert answer["id"] == known
            assert "instance_id" in answer["result"]


@every_where
async def test_an_id_in_flight_is_refused_and_the_first_request_goes_on(tmp_path: Path, where: Where) -> None:
    waits = {"filter": {"events": {"types": ["fault"]}}}
    async with wire(tmp_path, where) as client:
        client.send(request(5, "daemon/wait", waits))
        await check("double", Row(request(5, "daemon/ping"), -32600, "invalid_request", 5, {"path": "#/id"}), client)
        await check("with bad params", Row(request(5, "daemon/ping", []), -32600, "invalid_request", 5), client)
        (other,) = await client.answers(request("5", "daemon/ping"))
        assert other["id"] == "5"
        (answer,) = await client.answers(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":5}}')
        assert answer["id"] == 5
        assert answer["error"]["data"]["code"] == "cancelled"


@every_where
async def test_a_batch_is_answered_by_one_array_with_each_members_own_answer(tmp_path: Path, where: Where) -> None:
    members: list[Any] = [
        {"jsonrpc": "2.0", "id": 1, "method": "daemon/ping"},
        {"jsonrpc": "2.0", "method": "daemon/ping"},
        {"jsonrpc": "2.0", "id": 2, "method": "no/such"},
        {"jsonrpc": "2.0", "id": 1, "method": "daemon/ping"},
        17,
        [{"jsonrpc": "2.0", "id": 3, "method": "daemon/ping"}],
        {"jsonrpc": "2.0", "id": "x", "method": "ledger/role/list"},
    ]
    async with wire(tmp_path, where) as client:
        (answer,) = await client.answers(json.dumps(members).encode())
        seen = sorted((str(one["id"]), one.get("error", {}).get("data", {}).get("code", "ok")) for one in answer)
        assert seen == [
            ("1", "invalid_request"), ("1", "ok"), ("2", "method_not_found"), ("None", "invalid_request"),
            ("None", "invalid_request"), ("x", "ok"),
        ]  # fmt: skip


@every_where
async def test_a_full_batch_is_answered_whole(tmp_path: Path, where: Where) -> None:
    members = [{"jsonrpc": "2.0", "id": n, "method": "daemon/ping"} for n in range(256)]
    async with wire(tmp_path, where) as client:
        (answer,) = await client.answers(json.dumps(members).encode())
        assert sorted(one["id"] for one in answer) == list(range(256))


@pytest.mark.parametrize("where", [("socket", "line"), ("stdio", "line")], ids="-".join)
async def test_lines_may_end_with_crlf_and_blank_ones_mean_nothing(tmp_path: Path, where: Where) -> None:
    async with wire(tmp_path, where) as client:
        client.writer.write(b"\r\n\n  \n" + request(1, "daemon/ping") + b"\r\n\r\n")
        assert (await client.read())["id"] == 1
        client.writer.write(request(2, "daemon/ping"))
        client.writer.write_eof()
        assert (await client.read())["id"] == 2
        assert await client.read() is None


@pytest.mark.parametrize(
    "block",
    [
        b"Content-Type: x\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 1e3\r\n\r\n",
        b"C" * (HEADER_BYTES + 9),
    ],
)
@pytest.mark.parametrize("where", [("socket", "header"), ("stdio", "header")], ids="-".join)
async def test_a_header_block_that_leads_nowhere_is_answered_and_ends_the_connection(
    tmp_path: Path, where: Where, block: bytes
) -> None:
    async with wire(tmp_path, where) as client:
        client.send(request("before", "daemon/ping"))
        assert (await client.read())["id"] == "before"
        client.writer.write(block + request("after", "daemon/ping"))
        answer = await client.read()
        assert answer["id"] is None
        assert answer["error"]["data"]["code"] == "invalid_request"
        assert await client.read() is None


async def test_other_headers_are_ignored_and_an_unfinished_body_is_nothing(tmp_path: Path) -> None:
    async with wire(tmp_path, ("socket", "header")) as client:
        body = request(1, "daemon/ping")
        client.writer.write(b"Content-Type: application/json\r\ncontent-length:%d\r\n\r\n" % len(body) + body)
        assert (await client.read())["id"] == 1
        client.writer.write(b"Content-Length: 500\r\n\r\n" + body)
        client.writer.write_eof()
        assert await client.read() is None


@every_where
async def test_initialize_takes_anything_and_announces_the_limits(tmp_path: Path, where: Where) -> None:
    async with wire(tmp_path, where) as client:
        (answer,) = await client.answers(request(1, "initialize", {"capabilities": {"x": [None]}, "no such": 1}))
        result = answer["result"]
        assert result["server_info"]["name"] == "interlock"
        assert result["protocol_version"] == 1
        assert result["limits"] == LIMITS
        assert result["capabilities"] == sorted(result["capabilities"])
