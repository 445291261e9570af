"""Mail and work in one transaction: a batch does all of it or nothing (contract daemon 3; workgraph 5.3)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from interlock.protocol.methods import METHODS
from tests.harness import Client, served, spawned
from tests.ledger.common import feed, head, row_of, send

from .common import claim, create, get, owner, target
from .goals import goal, of

BATCHED: Final = {method.name for method in METHODS if method.family == "workgraph" and method.batch}


def step(method: str, **params: Any) -> dict[str, Any]:
    """One step."""
    return {"method": method, "params": params}


def ref(pointer: str) -> dict[str, str]:
    """What stands for a part of an earlier result."""
    return {"$ref": pointer}


async def ran(client: Client, *steps: dict[str, Any], **more: Any) -> list[Any]:
    """The results of a batch."""
    results: list[Any] = (await client.call("daemon/batch", steps=list(steps), **more))["results"]
    return results


async def test_a_message_is_acknowledged_and_its_item_closed_together(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client, daemon.client(role="w") as worker:
        item = await create(client)
        msg_id = await send(client, "w")
        taken = await claim(worker, item)
        before = await head(client)
        ack = step("ledger/ack", msg_id=msg_id)
        close = step("workgraph/close", id=item["id"], expected_revision=taken["item"]["revision"])
        refused = await worker.refused("daemon/batch", steps=[ack, close])
        assert (refused.code, refused.data["step"], refused.data["method"]) == ("fence_required", 1, "workgraph/close")
        assert await head(client) == before
        assert (await row_of(client, msg_id))["state"] == "queued"
        close["params"]["fence"] = taken["fence"]
        _, closed = await ran(worker, ack, close)
        assert closed["item"]["status"] == "completed"
        assert (await row_of(client, msg_id))["state"] == "acked"
        events = await feed(client, before)
        assert [(event["family"], event["type"]) for event in events] == [
            ("ledger", "ledger_state"),
            ("ledger", "ledger_state"),
            ("workgraph", "item_closed"),
            ("workgraph", "namespace_terminal"),
        ]
        assert [event["seq"] for event in events] == list(range(before + 1, before + 5))
        assert len({event["at"] for event in events}) == 1


async def test_work_that_cannot_be_closed_keeps_its_message_and_the_other_way_round(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client:
        item = await create(client)
        close = step("workgraph/close", id=item["id"], expected_revision=1)
        before = await head(client)
        refused = await client.refused("daemon/batch", steps=[close, step("ledger/ack", msg_id="none")])
        assert (refused.code, refused.data["step"], refused.data["kind"]) == ("not_found", 1, "message")
        assert await head(client) == before
        assert await get(client, item["id"]) == item


async def test_later_steps_take_ids_and_fences_from_earlier_ones(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made, taken, renewed, noted, closed = await ran(
            client,
            step("workgraph/create", title="t"),
            step("workgraph/claim", id=ref("/0/item/id"), expected_revision=ref("/0/item/revision"), owner=owner("a")),
            step("workgraph/renew", id=ref("/0/item/id"), fence=ref("/1/fence"), lease_seconds=10),
            step("workgraph/evidence/add", id=ref("/0/item/id"), evidence={"kind": "log", "id": ref("/0/item/id")},
                 fence=ref("/1/fence")),
            step("workgraph/close", id=ref("/0/item/id"), expected_revision=ref("/3/item/revision"),
                 fence=ref("/1/item/claim/fence")),
        )  # fmt: skip
        item_id = made["item"]["id"]
        assert (taken["fence"], renewed["fence"]) == (1, 1)
        assert noted["item"]["evidence_refs"][0]["id"] == item_id
        assert await get(client, item_id) == closed["item"]
        assert len({made["item"]["created_at"], taken["item"]["updated_at"], closed["item"]["terminal_at"]}) == 1


async def test_claim_next_and_its_fence_make_one_step_of_taking_and_blocking(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        taken, blocked = await ran(
            client,
            step("workgraph/claim_next", owner=owner("a")),
            step(
                "workgraph/block",
                id=ref("/0/item/id"),
                expected_revision=ref("/0/item/revision"),
                fence=ref("/0/fence"),
            ),
        )
        assert (taken["item"]["id"], blocked["item"]["status"]) == (item["id"], "blocked")


async def test_an_admission_in_a_batch_is_undone_with_the_rest(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client:
        await goal(client, "taken")
        steps = [
            step("ledger/send", kind="task", to="w", body={"text": "t"}, causality={"task": "T"}),
            step("workgraph/create", title="t"),
            step("workgraph/goal/create", item_id=ref("/1/item/id"), expected_revision=1, target=target("free")),
            step("workgraph/goal/create", item_id=ref("/1/item/id"), expected_revision=1, target=target("taken")),
        ]
        before = await head(client)
        refused = await client.refused("daemon/batch", steps=steps, op_id="op")
        assert (refused.code, refused.data["step"], refused.data["target_key"]) == ("occupied", 3, "owner:agent:taken")
        assert await head(client) == before
        steps[3]["params"]["target"] = target("other")
        done = await client.call("daemon/batch", steps=steps, op_id="op")
        assert [result["item"]["id"] for result in done["results"][2:]] == [done["results"][1]["item"]["id"]] * 2
        again = await client.call("daemon/batch", steps=steps, op_id="op")
        assert again == {**done, "replayed": True}
        assert len((await client.call("workgraph/attention/list"))["attention"]) == 3


async def test_a_step_sees_that_an_earlier_one_has_freed_the_target(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        first = await goal(client)
        for frees in (
            step("workgraph/goal/request_close", **of(first)),
            step("workgraph/attention/stop", binding_id=ref("/0"), expected_revision=1),
        ):
            if frees["method"].endswith("stop"):
                (found,) = (await client.call("workgraph/attention/list", status="occupying"))["attention"]
                frees["params"]["binding_id"] = found["binding_id"]
            _, made = await ran(client, frees, step("workgraph/goal/create", title="t", target=target("a")))
            assert made["attention"]["status"] == {"state": "active"}


async def test_a_whole_goal_in_one_step_of_many(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        binding, revision = ref("/0/attention/binding_id"), ref("/0/item/revision")
        _, stricter, confirmed, ended = await ran(
            client,
            step("workgraph/goal/create", title="t", target=target("a")),
            step("workgraph/policy/escalate", binding_id=binding, id=ref("/0/item/id"), expected_revision=revision,
                 completion_policy={"kind": "principal_confirmed"}),
            step("workgraph/goal/confirm", binding_id=binding, expected_revision=ref("/1/item/revision")),
            step("workgraph/goal/request_close", binding_id=binding, expected_revision=ref("/2/item/revision")),
        )  # fmt: skip
        assert stricter["item"]["completion_policy"] == {"kind": "principal_confirmed"}
        assert confirmed["item"]["confirmations"]["principal"] == 1
        assert ended["attention"]["status"] == {"state": "stopped"}


async def test_of_two_batches_that_want_one_item_exactly_one_has_it(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as one, daemon.client() as two:
        item = await create(one)
        steps = [
            step("ledger/send", kind="note", to="w", body={"text": "mine"}),
            step("workgraph/claim", id=item["id"], expected_revision=1, owner=owner("a")),
        ]
        answers = await asyncio.gather(*(client.start("daemon/batch", steps=steps) for client in (one, two)))
        codes = sorted(answer["error"]["data"]["code"] if "error" in answer else "" for answer in answers)
        assert codes == ["", "stale_revision"]
        assert len((await one.call("ledger/query", role="w"))["rows"]) == 1


async def test_glass_that_is_broken_in_a_batch_is_in_the_log_once_it_is_sure_and_not_before(tmp_path: Path) -> None:
    async with spawned(tmp_path) as daemon:
        client = await daemon.client()
        made = await goal(client, mode="review")
        by_force = of(made, target=target("b"), reason="it hangs")
        broken = step("workgraph/attention/break_glass_reassign", **by_force)
        refused = await client.refused("daemon/batch", steps=[broken, step("ledger/ack", msg_id="none")])
        assert (refused.code, refused.data["step"]) == ("not_found", 1)
        (moved,) = await ran(client, broken)
        assert moved["attention"]["mode"] == "review"
        await client.call("daemon/shutdown")
        await client.close()
        assert await daemon.ended() == 0
        warned = [line for line in daemon.log if '"break_glass"' in line]
        assert len(warned) == 1
        assert moved["attention"]["binding_id"] in warned[0]


READS: Final[dict[str, dict[str, Any]]] = {
    "workgraph/list": {},
    "workgraph/ready": {},
    "workgraph/snapshot": {},
    "workgraph/events": {},
    "workgraph/attention/list": {},
    "workgraph/attention/current": {"identity": "a"},
    "workgraph/member/list": {},
    "workgraph/member/resolve": {"identity": "a"},
    "workgraph/get": {"id": "item"},
    "workgraph/explain": {"id": "item"},
    "workgraph/goal/status": {"binding_id": "binding"},
    "workgraph/attention/get": {"binding_id": "binding"},
    "workgraph/attention/projection": {"binding_id": "binding"},
}


def test_every_method_reads_or_can_be_a_step() -> None:
    assert READS.keys() | BATCHED == {method.name for method in METHODS if method.family == "workgraph"}


async def test_where_only_the_socket_operates_who_is_unattached_reads_work_and_changes_none(tmp_path: Path) -> None:
    async with spawned(tmp_path, "--operator", "socket", stdio=True) as daemon:
        operator, agent = await daemon.client(), daemon.stdio()
        await operator.call("ledger/role/upsert", name="w")
        made = await goal(operator)
        known = {"item": made["item"]["id"], "binding": made["attention"]["binding_id"]}
        before = await head(operator)
        for method, params in READS.items():
            await agent.call(method, **{name: known.get(value, value) for name, value in params.items()})
        for method, params in writes(made).items():
            refused = await agent.refused(method, **params)
            assert (refused.number, refused.code) == (-32003, "not_admin"), method
            assert (await agent.refused("daemon/batch", steps=[step(method, **params)])).code == "not_admin", method
        assert await head(operator) == before
        await agent.call("ledger/attach", role="w")
        item = await create(agent)
        await agent.call("workgraph/update", id=item["id"], expected_revision=1, title="new")
        await agent.call("ledger/detach")
        assert (await agent.refused("workgraph/create", title="t")).code == "not_admin"
        await operator.close()


def writes(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every write, with params of the right shape."""
    item, binding = {"id": made["item"]["id"], "expected_revision": 1}, of(made)
    ends = {"kind": "related", "from_id": item["id"], "to_id": item["id"]}
    moved = {**binding, "target": target("b")}
    params: dict[str, dict[str, Any]] = {
        "create": {"title": "t"},
        "claim": {**item, "owner": owner("a")},
        "claim_next": {"owner": owner("a")},
        "renew": {"id": item["id"], "fence": 1},
        "release": item,
        "update": {**item, "title": "new"},
        "block": item,
        "unblock": item,
        "close": item,
        "evidence/add": {**item, "evidence": {"kind": "log", "id": "e"}},
        "link": ends,
        "unlink": ends,
        "goal/create": {"title": "t", "target": target("b")},
        "goal/confirm": binding,
        "goal/request_close": binding,
        "policy/escalate": {**binding, "id": item["id"], "completion_policy": {"kind": "host_confirmed"}},
        "attention/pause": binding,
        "attention/resume": binding,
        "attention/reassign": moved,
        "attention/break_glass_reassign": {**moved, "reason": "it hangs"},
        "attention/stop": binding,
        "attention/prune": {},
        "member/register": {"identity": "a", "session_id": "0199c3a2-7c11-7d4e-8a51-3f1d2b6c9e07"},
        "member/retire": {"identity": "a"},
    }
    assert {f"workgraph/{name}" for name in params} == BATCHED
    return {f"workgraph/{name}": value for name, value in params.items()}
