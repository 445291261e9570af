"""What completes an item, and how that becomes stricter and never laxer (contract workgraph 1, 6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import served
from tests.ledger.common import head

from .common import claim, get, told
from .test_confirming import CONFIRM, ME, POLICIES
from .test_goals import bound, goal, of

ESCALATE: Final = "workgraph/policy/escalate"
OTHER: Final = {"kind": "supervisor", "owner_key": {"kind": "label", "id": "boss"}}
LATTICE: Final[dict[str, dict[str, Any]]] = {
    "self": POLICIES["self"],
    "host": POLICIES["host"],
    "principal": POLICIES["principal"],
    "me": POLICIES["me"],
    "other": OTHER,
    **{f"quorum {n}": {"kind": "reviewer_quorum", "threshold": n} for n in (1, 2, 64)},
}
STRICTER: Final = {
    *(("self", name) for name in LATTICE if name != "self"),
    ("quorum 1", "quorum 2"),
    ("quorum 1", "quorum 64"),
    ("quorum 2", "quorum 64"),
}
"""Every pair that is admitted; no other is."""


def under(made: dict[str, Any]) -> dict[str, Any]:
    """What names a goal and its item for an escalation."""
    return of(made, id=made["item"]["id"])


@pytest.mark.parametrize("present", LATTICE)
async def test_only_a_stricter_policy_comes_after_another(tmp_path: Path, present: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for wanted, policy in LATTICE.items():
            made = await goal(client, wanted, completion_policy=LATTICE[present])
            before = await head(client)
            if (present, wanted) not in STRICTER:
                refused = await client.refused(ESCALATE, **under(made), completion_policy=policy)
                about = (refused.code, refused.data["reason"], refused.data["status"], refused.data["current_revision"])
                assert about == ("invalid_transition", "not_an_escalation", "open", 1), wanted
                assert await head(client) == before
                continue
            item = (await client.call(ESCALATE, **under(made), completion_policy=policy))["item"]
            changed = {"completion_policy": policy, "revision": 2, "updated_at": item["updated_at"]}
            assert item == made["item"] | changed
            (event,) = await told(client, item["id"], "policy_escalated")
            assert event["data"] == {
                "revision": 2,
                "previous": LATTICE[present],
                "completion_policy": policy,
                "binding_id": made["attention"]["binding_id"],
            }


@pytest.mark.parametrize(
    ("policy", "path"),
    [
        ({"kind": "reviewer_quorum", "threshold": 0}, "/completion_policy/threshold"),
        ({"kind": "reviewer_quorum", "threshold": 65}, "/completion_policy/threshold"),
        ({"kind": "reviewer_quorum"}, "/completion_policy/threshold"),
        ({"kind": "supervisor"}, "/completion_policy/owner_key"),
        ({"kind": "anybody"}, "/completion_policy/kind"),
        ("host_confirmed", "/completion_policy"),
    ],
)
async def test_what_is_no_policy_is_refused_where_it_is_wrong(tmp_path: Path, policy: Any, path: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await goal(client)
        refused = await client.refused(ESCALATE, **under(made), completion_policy=policy)
        assert (refused.code, refused.data["path"]) == ("invalid_params", path)


async def test_what_reviewers_have_confirmed_counts_for_a_larger_quorum_too(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await goal(client, completion_policy=LATTICE["quorum 1"])
        made = await client.call(CONFIRM, **of(made))
        stricter = await client.call(ESCALATE, **under(made), completion_policy=LATTICE["quorum 2"])
        assert stricter["item"]["confirmations"]["reviewers"] == [ME]
        close = {"id": stricter["item"]["id"], "expected_revision": stricter["item"]["revision"]}
        refused = await client.refused("workgraph/close", **close)
        assert "1 of 2" in refused.data["missing"]


async def test_a_policy_becomes_stricter_in_any_state_that_is_not_the_last(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await goal(client)
        taken = await claim(client, made["item"])
        stricter = await client.call(ESCALATE, **under({**made, **taken}), completion_policy=LATTICE["quorum 1"])
        assert stricter["item"]["claim"] == taken["item"]["claim"]
        at = {"id": made["item"]["id"], "expected_revision": stricter["item"]["revision"], "fence": taken["fence"]}
        blocked = await client.call("workgraph/block", **at)
        await client.call(ESCALATE, **under({**made, **blocked}), completion_policy=LATTICE["quorum 2"])


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
