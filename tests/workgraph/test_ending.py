"""How a goal ends: who asks, what its policy needs, what follows in the same commit (contract workgraph 6, 7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness import served
from tests.ledger.common import head

from .common import claim, create, get, target, told
from .goals import ASK, CONFIRM, LATTICE, bound, goal, of


@pytest.mark.parametrize("status", ["completed", "cancelled", "failed"])
@pytest.mark.parametrize("paused", [False, True])
async def test_who_attends_may_ask_for_the_end_also_while_it_is_paused(
    tmp_path: Path, status: str, paused: bool
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await goal(client, mode="observe")
        if paused:
            await client.call("workgraph/attention/pause", **of(made))
        before = await head(client)
        ended = await client.call(ASK, **of(made), status=status)
        item, attention = ended["item"], ended["attention"]
        assert (item["status"], item["revision"]) == (status, 2)
        assert attention["status"] == {"state": "stopped"}
        assert attention["terminal_at"] == item["terminal_at"] == item["updated_at"]
        assert ended == await client.call("workgraph/goal/status", binding_id=attention["binding_id"])
        events = (await client.call("workgraph/events", after_seq=before))["events"]
        assert [(event["type"], event["data"].get("cause")) for event in events] == [
            ("item_closed", "goal"),
            ("attention_stopped", "item_closed"),
            ("namespace_terminal", None),
        ]
        assert events[0]["data"]["stopped_bindings"] == [attention["binding_id"]]


async def test_a_stopped_or_superseded_binding_asks_for_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await goal(client, mode="coordinate")
        await client.call("workgraph/attention/reassign", **of(made), target=target("b"))
        refused = await client.refused(ASK, **of(made))
        assert (refused.code, refused.data["reason"]) == ("invalid_transition", "binding_terminal")
        assert refused.data["status"]["state"] == "superseded"
        other = await goal(client, "c", **bound(made["item"]))
        await client.call("workgraph/attention/stop", **of(other))
        refused = await client.refused(ASK, **of(other))
        assert (refused.data["reason"], refused.data["status"]["state"]) == ("binding_terminal", "stopped")


async def test_to_ask_for_the_end_needs_the_fence_or_the_operators_reason_as_close_does(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client, daemon.client(role="w") as worker:
        made = await goal(client)
        taken = await claim(worker, made["item"])
        now = of({**made, **taken})
        assert (await worker.refused(ASK, **now)).code == "fence_required"
        assert (await worker.refused(ASK, **now, fence=9)).code == "stale_lease"
        assert (await worker.refused(ASK, **now, reason="it hangs")).code == "not_admin"
        assert (await client.refused(ASK, **now, reason=" ")).data["path"] == "/reason"
        assert (await client.refused(ASK, **of(made), fence=taken["fence"])).code == "stale_revision"
        ended = await client.call(ASK, **now, reason="it hangs")
        (event,) = await told(client, ended["item"]["id"], "item_closed")
        override = event["data"]["override"]
        assert (override["reason"], override["fence"]) == ("it hangs", taken["fence"])
        assert override["holder"]["key"] == {"kind": "agent", "id": "a"}
        assert override["principal"].startswith("principal:")
        other = await goal(client)
        taken = await claim(worker, other["item"])
        ended = await worker.call(ASK, **of({**other, **taken}), fence=taken["fence"])
        assert "claim" not in ended["item"]


async def test_to_ask_for_the_end_is_judged_as_a_close(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await goal(client, completion_policy={"kind": "host_confirmed"})
        child = await create(client)
        await client.call("workgraph/link", kind="parent", from_id=child["id"], to_id=made["item"]["id"])
        refused = await client.refused(ASK, **of(made), even_if_incomplete=True)
        assert (refused.code, refused.data["policy"]) == ("policy_unsatisfied", {"kind": "host_confirmed"})
        confirmed = await client.call("workgraph/goal/confirm", **of(made))
        refused = await client.refused(ASK, **of(confirmed))
        assert (refused.data["reason"], refused.data["open_children"]) == ("incomplete", 1)
        ended = await client.call(ASK, **of(confirmed), even_if_incomplete=True)
        assert ended["item"]["status"] == "completed"
        (event,) = await told(client, ended["item"]["id"], "item_closed")
        assert event["data"]["even_if_incomplete"] is True


async def test_whoever_asks_ends_the_attention_of_all(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        first = await goal(client, "a")
        others = [await goal(client, name, **bound(first["item"])) for name in ("b", "c")]
        await client.call(ASK, **of(others[0]))
        for made in (first, *others):
            found = await client.call("workgraph/attention/get", binding_id=made["attention"]["binding_id"])
            assert found["attention"]["status"] == {"state": "stopped"}
        for name in ("a", "b", "c"):
            await goal(client, name)


Close = tuple[str, dict[str, Any]]


def closing(made: dict[str, Any], way: str, **more: Any) -> Close:
    """The method and the params that end a goal's item this way."""
    if way == "close":
        at = {"id": made["item"]["id"], "expected_revision": made["item"]["revision"]}
        return "workgraph/close", {**at, **more}
    return "workgraph/goal/request_close", of(made, **more)


@pytest.mark.parametrize("way", ["close", "request_close"])
@pytest.mark.parametrize("name", LATTICE)
async def test_a_policy_is_asked_of_who_completes_and_never_of_who_gives_up(
    tmp_path: Path, name: str, way: str
) -> None:
    policy = LATTICE[name]
    async with served(tmp_path) as daemon, daemon.client() as client:
        for status in ("cancelled", "failed"):
            method, params = closing(await goal(client, completion_policy=policy), way, status=status)
            assert (await client.call(method, **params))["item"]["status"] == status
        made = await goal(client, completion_policy=policy)
        method, params = closing(made, way)
        before = await head(client)
        if name != "self":
            refused = await client.refused(method, **params, even_if_incomplete=True)
            assert (refused.code, refused.data["policy"]) == ("policy_unsatisfied", policy)
            assert "goal/confirm" in refused.data["missing"]
            assert await head(client) == before
            explained = await client.call("workgraph/explain", id=made["item"]["id"])
            wanted = {"satisfied": False, "policy": policy, "missing": refused.data["missing"]}
            assert explained["completion"] == wanted
        if name not in ("other", "quorum 2", "quorum 64"):
            made = await client.call(CONFIRM, **of(made))
            explained = await client.call("workgraph/explain", id=made["item"]["id"])
            assert explained["completion"] == {"satisfied": True, "policy": policy}
            method, params = closing(made, way)
            assert (await client.call(method, **params))["item"]["status"] == "completed"


async def test_evidence_that_came_with_the_item_confirms_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        evidence = [{"kind": "log", "id": "e", "confirmation_kind": "host_confirmation", "content_revision": 1}]
        made = await goal(client, completion_policy=LATTICE["host"], evidence_refs=evidence)
        assert made["item"]["evidence_refs"][0].keys() == {"kind", "id", "at", "by"}
        method, params = closing(made, "close")
        assert (await client.refused(method, **params)).code == "policy_unsatisfied"


async def test_a_close_stops_who_attends_and_makes_ready_who_waits_in_one_commit_and_in_order(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await goal(client, "a")
        second = await goal(client, "b", **bound(made["item"]))
        gone = await goal(client, "c", **bound(made["item"]))
        await client.call("workgraph/attention/stop", **of(gone))
        await client.call("workgraph/attention/pause", **of(second))
        waiting = await goal(client, "d")
        ends = {"from_id": made["item"]["id"], "to_id": waiting["item"]["id"]}
        await client.call("workgraph/link", kind="blocks", **ends)
        before = await head(client)
        method, params = closing(made, "close")
        done = await client.call(method, **params)
        ids = [one["attention"]["binding_id"] for one in (made, second)]
        assert done["stopped_bindings"] == ids
        events = (await client.call("workgraph/events", after_seq=before))["events"]
        assert [(event["type"], event["subject"]) for event in events] == [
            ("item_closed", made["item"]["id"]),
            ("attention_stopped", ids[0]),
            ("attention_stopped", ids[1]),
            ("item_ready", waiting["item"]["id"]),
        ]
        assert [event["seq"] for event in events] == list(range(before + 1, before + 5))
        assert len({event["at"] for event in events}) == 1
        assert events[1]["data"] == {"revision": 2, "cause": "item_closed"}
        assert events[3]["data"] | {"cause": "blocker_closed", "by": made["item"]["id"]} == events[3]["data"]
        for binding_id in ids:
            found = (await client.call("workgraph/attention/get", binding_id=binding_id))["attention"]
            assert (found["status"], found["terminal_at"]) == ({"state": "stopped"}, done["item"]["terminal_at"])
        assert (await get(client, waiting["item"]["id"]))["unresolved_blockers"] == 0
