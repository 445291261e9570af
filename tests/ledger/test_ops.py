"""Op ids: one namespace, the same content answers the first result again (contract daemon 1.6)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.protocol.methods import METHODS
from tests.harness import Client, Served, served
from tests.ledger.common import body, head, other_process, pulled, send

Params = dict[str, Any]


async def nothing(client: Client) -> None:
    """What needs no preparation."""


async def in_flight(client: Client) -> None:
    await send(client, "b", "note", msg_id="m")
    await pulled(client, role="b")


NOTE: Params = {"kind": "note", "to": "b", "body": {"text": "x", "details": {"k": 1, "l": [1, 2]}}}
ONCE: dict[str, tuple[Params, Callable[[Client], Awaitable[None]]]] = {
    "ledger/send": (NOTE, nothing),
    "ledger/requeue": ({"msg_id": "m", "reason": "again"}, in_flight),
    "ledger/events/publish": ({"type": "handoff", "role": "b", "payload": {"k": 1, "l": [1, 2]}}, nothing),
    "ledger/fault/record": ({"kind": "k", "reason": "r", "role": "b", "detail": {"k": 1, "l": [1, 2]}}, nothing),
    "daemon/batch": ({"steps": [{"method": "ledger/send", "params": NOTE}]}, nothing),
}
"""Every method that is idempotent by `op_id`: params, and what must be there before."""

CHANGED: dict[str, Params] = {
    "ledger/send": {"ttl_ms": None},
    "ledger/requeue": {"reason": None},
    "ledger/events/publish": {"task_id": "other"},
    "ledger/fault/record": {"task_id": "other"},
    "daemon/batch": {"steps": [{"method": "ledger/send", "params": NOTE}] * 2},
}
"""What makes other content of each; an absent field and null are not the same."""

every_method = pytest.mark.parametrize("method", sorted(ONCE))


def test_the_table_has_every_method_that_takes_an_op_id() -> None:
    assert set(ONCE) == {
        method.name for method in METHODS if method.idempotent == "op_id" and method.family in ("ledger", "daemon")
    }


async def first_call(client: Client, method: str) -> Any:
    params, prepare = ONCE[method]
    await prepare(client)
    return await client.call(method, **params, op_id="op-1")


def turned(value: Any) -> Any:
    """The same JSON with the keys of every object in another order."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(inner) for inner in value] if isinstance(value, list) else value


@every_method
async def test_the_first_result_is_answered_again_byte_for_byte_whatever_the_order_of_keys(
    tmp_path: Path, method: str
) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        first = await first_call(operator, method)
        before = await head(operator)
        for params in (ONCE[method][0], turned(ONCE[method][0]), {**ONCE[method][0], "_meta": {"any": "thing"}}):
            again = await operator.call(method, **params, op_id="op-1")
            assert json.dumps(again) == json.dumps({**first, "replayed": True})
        assert await head(operator) == before


@every_method
async def test_a_replay_survives_a_restart_and_works_in_every_process(tmp_path: Path, method: str) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        first = await first_call(operator, method)
    async with served(tmp_path) as daemon, daemon.client() as operator:
        assert await operator.call(method, **ONCE[method][0], op_id="op-1") == {**first, "replayed": True}


async def test_another_process_replays_what_this_one_did(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, other_process(tmp_path) as other:
        first = await first_call(operator, "ledger/send")
        assert await other.call("ledger/send", **NOTE, op_id="op-1") == {**first, "replayed": True}


@every_method
@pytest.mark.parametrize("other", sorted(ONCE))
async def test_other_content_conflicts_and_names_the_method_of_the_first_use(
    tmp_path: Path, method: str, other: str
) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        await first_call(operator, method)
        params = ONCE[other][0] | (CHANGED[method] if other == method else {})
        refused = await operator.refused(other, **params, op_id="op-1")
        assert (refused.number, refused.message) == (-32002, "this op_id was used for something else")
        assert refused.data == {"code": "op_conflict", "retryable": False, "method": method}


@pytest.mark.parametrize("method", sorted({*ONCE} - {"ledger/events/publish"}))
async def test_another_role_repeating_it_conflicts(tmp_path: Path, method: str) -> None:
    """The content is the caller's role, too: here the operator first, then a role that is attached.

    Publishing is left out: there the operator must name the role, and then it is the same content.
    """
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        params, prepare = ONCE[method]
        plain = {name: value for name, value in params.items() if name != "role"}
        plain |= {"task_id": "T"} if method == "ledger/fault/record" else {}
        await prepare(operator)
        await operator.call(method, **plain, op_id="op-1")
        assert (await b.refused(method, **plain, op_id="op-1")).code == "op_conflict"


async def test_a_named_role_is_the_callers_role_in_the_content(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b", "c")) as daemon, daemon.client(role="b") as b:
        await b.call("ledger/attach", role="c")
        params = {"type": "handoff", "role": "c"}
        first = await b.call("ledger/events/publish", **params, op_id="op-1")
        async with daemon.client(role="c") as c:
            assert await c.call("ledger/events/publish", **params, op_id="op-1") == {**first, "replayed": True}
            # Left out it is the same role, but not the same params.
            refused = await c.refused("ledger/events/publish", type="handoff", op_id="op-1")
            assert refused.code == "op_conflict"


@every_method
async def test_a_refused_call_does_not_use_its_op_id_up(tmp_path: Path, method: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as operator:
        params, prepare = ONCE[method]
        refused = await operator.refused(method, **params, op_id="op-1")
        assert refused.code == "not_found"
        await operator.call("ledger/role/upsert", name="b")
        await prepare(operator)
        assert "replayed" not in await operator.call(method, **params, op_id="op-1")


@every_method
@pytest.mark.parametrize("op_id", ["", " op", "o" * 129, "a\nb", 7])
async def test_an_op_id_is_trimmed_text_of_at_most_128_bytes(tmp_path: Path, method: str, op_id: object) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        params, prepare = ONCE[method]
        await prepare(operator)
        refused = await operator.refused(method, **params, op_id=op_id)
        assert refused.data["path"] == "/op_id"
        assert (refused.code, refused.data.get("max")) in (("too_large", 128), ("invalid_params", None))
        assert "op_id" not in await operator.call(method, **params, op_id="o" * 128) or method == "ledger/send"


async def test_a_repeat_in_flight_with_the_first_is_one_operation(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        answers = await all_at_once(daemon, "ledger/send", {**NOTE, "op_id": "op-1"})
        assert len({answer["msg_id"] for answer in answers}) == 1
        assert [answer.get("replayed", False) for answer in answers].count(False) == 1
        assert (await operator.call("ledger/depth", role="b"))["depths"][0]["notes"] == 1


async def all_at_once(daemon: Served, method: str, params: Params) -> list[Any]:
    """The results of twenty calls from four connections."""
    async with daemon.client() as a, daemon.client() as b, daemon.client() as c, daemon.client() as d:
        starts = [client.start(method, **params) for _ in range(5) for client in (a, b, c, d)]
        return [(await begun)["result"] for begun in starts]


async def test_a_method_without_op_ids_refuses_one(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        refused = await operator.refused("ledger/ack", msg_id="m", op_id="op-1")
        assert (refused.code, refused.data["path"]) == ("invalid_params", "/op_id")


async def test_a_body_that_retention_took_is_still_the_content_of_its_op_id(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        first = await first_call(operator, "ledger/send")
        await operator.call("ledger/ack", msg_id=first["msg_id"])
        assert (await operator.call("ledger/prune", before="2999-01-01T00:00:00Z"))["pruned"] == 1
        assert await operator.call("ledger/send", **NOTE, op_id="op-1") == {**first, "replayed": True}
        refused = await operator.refused("ledger/send", **NOTE | {"body": body("other")}, op_id="op-1")
        assert refused.code == "op_conflict"
