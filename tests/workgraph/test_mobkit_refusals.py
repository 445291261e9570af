"""Refusals under MobKit's names, each as its row of contract workgraph 11 says, through the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from interlock.stores.health import STORE
from tests.e2e.support import locked
from tests.harness import Client, Refused, served

ADA = {"kind": "agent", "id": "ada"}
LABEL = {"kind": "owner", "owner_key": {"kind": "label", "id": "l"}}
ADA_TARGET = {"kind": "identity", "identity": "ada"}
OTHER = {"kind": "owner", "owner_key": {"kind": "label", "id": "m"}}
INVALID, ERROR, CONFLICT, DENIED = -32602, -32000, -32042, -32030


def alias(name: str) -> str:
    """The alias of `workgraph/<name>`."""
    return f"mobkit/workgraph/{name}"


async def item(client: Client, **params: Any) -> dict[str, Any]:
    """What names a new item and its revision in params."""
    made = (await client.call(alias("create"), title="x", **params))["item"]
    return {"id": made["id"], "expected_revision": made["revision"]}


async def goal(client: Client, **params: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What names a new goal's binding: with the item's revision, and with its own."""
    made = await client.call(alias("goal/create"), **{"title": "x", "target": LABEL, **params})
    binding_id = made["attention"]["binding_id"]
    by_item = {"binding_id": binding_id, "expected_revision": made["item"]["revision"]}
    return by_item, {"binding_id": binding_id, "expected_revision": made["attention"]["revision"]}


def row(refused: Refused) -> tuple[int, str, str | None]:
    """Number, our code and MobKit's kind; the detail is the end of the message in every row."""
    assert refused.message.endswith(refused.data["detail"])
    return refused.number, refused.code, refused.data.get("kind")


async def test_what_is_wrong_with_params_is_minus_32602_without_a_kind(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for name, params, code in (
            ("create", {}, "invalid_params"),
            ("create", {"title": " "}, "invalid_params"),
            ("create", {"title": "x" * 1025}, "too_large"),
            ("create", {"title": "x", "completion_policy": {"kind": "host_confirmed"}}, "invalid_params"),
            ("list", {"limit": 501}, "limit_out_of_range"),
            ("close", {**await item(client), "status": "open"}, "invalid_params"),
            ("update", {**await item(client), "expected_revision": "1"}, "invalid_params"),
            ("goal/create", {"title": "x", "target": {"kind": "robot"}}, "invalid_params"),
            ("attention/list", {"status": "sleeping"}, "invalid_params"),
        ):
            refused = await client.refused(alias(name), **params)
            assert row(refused) == (INVALID, code, None)
            assert refused.message.startswith("Invalid params: ")


async def test_a_policy_that_does_not_become_stricter_is_minus_32602(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await client.call(alias("goal/create"), title="x", target=LABEL)
        params = {
            "id": made["item"]["id"],
            "binding_id": made["attention"]["binding_id"],
            "expected_revision": made["item"]["revision"],
        }
        refused = await client.refused(alias("policy/escalate"), **params, completion_policy={"kind": "self_attest"})
        assert (*row(refused), refused.data["reason"]) == (INVALID, "invalid_transition", None, "not_an_escalation")
        stricter = await client.call(alias("policy/escalate"), **params, completion_policy={"kind": "host_confirmed"})
        assert stricter["item"]["machine_state"]["completion_policy"] == "host_confirmed"


async def test_a_confirmation_without_a_trusted_principal_is_minus_32602(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("worker",)) as daemon, daemon.client() as client:
        by_item, _ = await goal(client, completion_policy={"kind": "principal_confirmed"})
        await client.call("ledger/attach", role="worker")
        refused = await client.refused(alias("goal/confirm"), **by_item)
        assert row(refused) == (INVALID, "authority_missing", None)
        assert "principal" in refused.data["detail"]


async def test_conflicts_are_minus_32042_with_a_detail_to_go_on_with(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        first, second = await item(client), await item(client)
        await client.call(alias("update"), **first, title="y")
        stale = await client.refused(alias("update"), **first, title="z")
        assert row(stale) == (CONFLICT, "stale_revision", "workgraph_conflict")
        assert (stale.data["record_kind"], stale.data["current_revision"]) == ("item", 2)
        assert "stale" in stale.data["detail"]
        edge = {"kind": "related", "from_id": first["id"], "to_id": second["id"]}
        await client.call(alias("link"), **edge)
        double = await client.refused(alias("link"), **edge)
        assert row(double) == (CONFLICT, "duplicate", "workgraph_conflict")
        for conflict in stale, double:
            assert conflict.message == f"workgraph conflict: {conflict.data['detail']}"


async def test_a_taken_target_is_a_conflict_that_names_who_has_it_and_the_way_out(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        _, by_binding = await goal(client)
        taken = await client.refused(alias("goal/create"), title="y", target=LABEL)
        assert row(taken) == (CONFLICT, "occupied", "workgraph_conflict")
        for part in ("owner:label:l", by_binding["binding_id"], "attention/reassign", "goal/request_close"):
            assert part in taken.data["detail"]
        paused = (await client.call(alias("attention/pause"), **by_binding))["attention"]
        taken = await client.refused(alias("goal/create"), title="y", target=LABEL)
        assert "attention/resume" in taken.data["detail"]
        by_binding["expected_revision"] = paused["machine_state"]["revision"]
        resumed = (await client.call(alias("attention/resume"), **by_binding))["attention"]
        assert resumed["status"] == {"state": "active"}


async def test_what_is_not_there_or_cannot_be_is_minus_32000(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        held = await item(client)
        await client.call(alias("claim"), **held, owner=ADA)
        proud, (_, by_binding) = await item(client), await goal(client)
        guarded, _ = await goal(client, target=OTHER, completion_policy={"kind": "host_confirmed"})
        for name, params, code in (
            ("get", {"id": "work_none"}, "not_found"),
            ("goal/status", {"binding_id": "attention_none"}, "not_found"),
            ("claim", {**held, "expected_revision": 2, "owner": ADA}, "already_claimed"),
            ("release", proud, "invalid_transition"),
            ("create", {"title": "x", "status": "completed"}, "invalid_transition"),
            ("link", {"kind": "blocks", "from_id": proud["id"], "to_id": proud["id"]}, "invalid_transition"),
            ("attention/resume", by_binding, "invalid_transition"),
            ("attention/reassign", {**by_binding, "target": ADA_TARGET}, "authority_missing"),
            ("goal/request_close", guarded, "policy_unsatisfied"),
        ):
            refused = await client.refused(alias(name), **params)
            assert row(refused) == (ERROR, code, "workgraph_error")


async def test_reassigning_what_is_pursued_names_the_binding_its_mode_and_the_way_out(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        _, by_binding = await goal(client)
        refused = await client.refused(alias("attention/reassign"), **by_binding, target=ADA_TARGET)
        assert by_binding["binding_id"] in refused.message
        assert "pursue" in refused.message
        assert "coordinate" in refused.data["remedy"]


async def test_what_the_operator_alone_may_do_is_minus_32030(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("worker",)) as daemon, daemon.client() as client:
        by_item, by_binding = await goal(client, completion_policy={"kind": "host_confirmed"})
        broken = {**by_binding, "target": ADA_TARGET, "reason": "it is stuck"}
        await client.call("ledger/attach", role="worker")
        for name, params in ("goal/confirm", by_item), ("attention/break_glass_reassign", broken):
            assert row(await client.refused(alias(name), **params)) == (DENIED, "not_admin", "access_denied")
        await client.call("ledger/detach", role="worker")
        assert (await client.call(alias("goal/confirm"), **by_item))["item"]["machine_state"][
            "host_confirmation_count"
        ] == 1
        moved = await client.call(alias("attention/break_glass_reassign"), **broken)
        assert moved["previous"]["machine_state"]["superseded_by_binding_key"] == moved["attention"]["binding_id"]


async def test_a_reason_is_needed_to_break_glass(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        _, by_binding = await goal(client)
        for reason in {}, {"reason": "  "}, {"reason": None}:
            refused = await client.refused(
                alias("attention/break_glass_reassign"), **by_binding, target=ADA_TARGET, **reason
            )
            assert row(refused) == (INVALID, "invalid_params", None)


async def test_a_store_that_is_held_is_minus_32000_and_may_be_tried_again(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        with locked(daemon.state_dir / STORE):
            refused = await client.refused(alias("create"), title="x")
        assert row(refused) == (ERROR, "busy", "workgraph_error")
        assert refused.data["retryable"] is True


async def test_breaking_glass_without_a_trusted_principal_is_minus_32030(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        _, by_binding = await goal(client)
        [connection] = daemon.app.services.connections
        connection.caller = replace(connection.caller, principal=None)  # as where the system does not say who it is
        broken = {**by_binding, "target": ADA_TARGET, "reason": "it is stuck"}
        refused = await client.refused(alias("attention/break_glass_reassign"), **broken)
        assert row(refused) == (DENIED, "authority_missing", "access_denied")


class Deaf:
    """A runtime that cannot be read."""

    async def member_of(self, realm_id: str, session_id: str) -> None:
        raise ConnectionError("the wire is cut")


async def test_a_runtime_that_cannot_be_read_is_minus_32041(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        daemon.app.services.runtimes.register("default", Deaf())
        target = {"kind": "session", "session_id": "0199c3a2-7c11-7d4e-8a51-3f1d2b6c9e07"}
        refused = await client.refused(alias("goal/create"), title="x", target=target)
        assert row(refused) == (-32041, "unavailable", "workgraph_unavailable")
        assert (await client.call(alias("list")))["items"] == []


async def test_of_many_claims_of_one_item_one_wins_and_the_others_are_conflicts_or_late(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        free = await item(client)
        answers = [await one for one in [client.start(alias("claim"), **free, owner=ADA) for _ in range(20)]]
        assert len([answer for answer in answers if "result" in answer]) == 1
        assert {answer["error"]["code"] for answer in answers if "error" in answer} <= {CONFLICT, ERROR}
