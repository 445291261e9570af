"""How what completes an item becomes stricter, and never laxer (contract workgraph 6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import served
from tests.ledger.common import head

from .common import claim, told
from .goals import CONFIRM, LATTICE, ME, goal, of

ESCALATE: Final = "workgraph/policy/escalate"
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
