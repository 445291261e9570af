"""A write said again under its op id is answered again, before any rule is asked (contract workgraph 2, daemon 1.6)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from interlock.protocol.methods import METHODS
from tests.harness import Client, served
from tests.ledger.common import head

from .common import claim, create, get, owner, target
from .goals import bound, goal, of

WITH_OP: Final = [method.name for method in METHODS if method.family == "workgraph" and method.idempotent == "op_id"]
EVIDENCE: Final = {"kind": "log", "id": "e"}


def at(item: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What names an item at its revision."""
    return {"id": item["id"], "expected_revision": item["revision"], **more}


async def params_of(client: Client, method: str) -> dict[str, Any]:
    """Params that the method accepts once, on things made for it."""
    name = method.removeprefix("workgraph/")
    item, other = await create(client), await create(client, "other")
    ends = {"kind": "blocks", "from_id": item["id"], "to_id": other["id"]}
    if name.startswith("attention/"):
        return await about_binding(client, name, item)
    if name in ("goal/confirm", "goal/request_close", "policy/escalate"):
        made = of(await goal(client, **bound(item)))
        return (
            made
            if name != "policy/escalate"
            else {**made, "id": item["id"], "completion_policy": {"kind": "host_confirmed"}}
        )
    if name == "release":
        taken = await claim(client, item)
        return at(taken["item"], fence=taken["fence"])
    if name == "unblock":
        return at((await client.call("workgraph/block", **at(item)))["item"])
    if name == "unlink":
        await client.call("workgraph/link", **ends)
    return {
        "create": {"title": "t"},
        "claim": at(item, owner=owner("a")),
        "claim_next": {"owner": owner("a")},
        "update": at(item, title="new"),
        "block": at(item),
        "close": at(item),
        "evidence/add": at(item, evidence=EVIDENCE),
        "link": ends,
        "unlink": ends,
        "goal/create": {"title": "t", "target": target("a")},
    }[name]


async def about_binding(client: Client, name: str, item: dict[str, Any]) -> dict[str, Any]:
    """The same for what is done with a binding."""
    made = await goal(client, **bound(item), mode="coordinate")
    params = {"binding_id": made["attention"]["binding_id"], "expected_revision": 1}
    if name == "attention/resume":
        paused = await client.call("workgraph/attention/pause", **params)
        return {**params, "expected_revision": paused["attention"]["revision"]}
    if name.endswith("reassign"):
        params |= {"target": target("b")}
    return params | ({"reason": "it hangs"} if name == "attention/break_glass_reassign" else {})


async def end_all(client: Client) -> None:
    """End every item, and by that every binding."""
    for item in (await client.call("workgraph/list"))["items"]:
        await client.call("workgraph/close", **at(await get(client, item["id"])), status="failed", reason="all is over")


def without_mark(answer: dict[str, Any]) -> str:
    """An answer as it was sent, without what says that it is a replay."""
    assert answer["replayed"] is True
    return json.dumps({name: value for name, value in answer.items() if name != "replayed"})


@pytest.mark.parametrize("method", WITH_OP)
async def test_the_same_call_again_is_answered_as_the_first_time_whatever_has_become_of_it(
    tmp_path: Path, method: str
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client, daemon.client() as other:
        params = await params_of(client, method) | {"op_id": "op"}
        first = json.dumps(await client.call(method, **params))
        before = await head(client)
        assert without_mark(await client.call(method, **params)) == first
        await end_all(client)
        ended = await head(client)
        assert ended > before
        reordered = dict(reversed(params.items()))
        assert without_mark(await other.call(method, **reordered, _meta={"trace": "1"})) == first
        assert await head(client) == ended


@pytest.mark.parametrize("method", WITH_OP)
async def test_an_op_id_stands_for_one_content_of_one_method_and_caller(tmp_path: Path, method: str) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client, daemon.client(role="w") as worker:
        params = await params_of(client, method) | {"op_id": "op"}
        await client.call(method, **params)
        before = await head(client)
        for who, called, more in (
            (client, method, {**params, "namespace": "nowhere"}),
            (client, "workgraph/create", {"title": "something else", "op_id": "op"}),
            (client, "ledger/events/publish", {"type": "handoff", "role": "w", "op_id": "op"}),
            (worker, method, params),
        ):
            refused = await who.refused(called, **more)
            assert (refused.code, refused.data["method"]) == ("op_conflict", method), called
        assert await head(client) == before


@pytest.mark.parametrize(
    "method", [name for name in WITH_OP if name not in ("workgraph/create", "workgraph/goal/create")]
)
async def test_a_refused_call_does_not_use_its_op_id_up(tmp_path: Path, method: str) -> None:
    wrong: dict[str, dict[str, Any]] = {
        "workgraph/claim_next": {"lease_seconds": -1},
        "workgraph/link": {"to_id": "work_none"},
        "workgraph/unlink": {"to_id": "work_none"},
    }
    async with served(tmp_path) as daemon, daemon.client() as client:
        params = await params_of(client, method) | {"op_id": "op"}
        await client.refused(method, **params | wrong.get(method, {"expected_revision": 99}))
        assert "replayed" not in await client.call(method, **params)


async def test_an_occupied_target_uses_no_op_id_up_either(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await goal(client)
        params = {"title": "t", "target": target("a"), "op_id": "op"}
        assert (await client.refused("workgraph/goal/create", **params)).code == "occupied"
        await client.call("workgraph/attention/stop", **of(made))
        assert "replayed" not in await client.call("workgraph/goal/create", **params)
