"""Whatever is confirmed, edited and escalated, a goal is completed exactly when its policy says so (workgraph 1, 7)."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness import Client, served

from .goals import ASK, CONFIRM, LATTICE, LOGIN, goal, of

WHO = ("operator", "r1", "r2")
KEYS = {"operator": f"principal:{LOGIN}", "r1": "agent:r1", "r2": "agent:r2"}
STEPS = ("confirm", "confirm", "confirm", "edit", "relabel", "escalate", "close")

Script = list[tuple[str, str, str]]
scripts = st.lists(
    st.tuples(st.sampled_from(STEPS), st.sampled_from(WHO), st.sampled_from(sorted(LATTICE))), min_size=1, max_size=12
)


class Model:
    """What counts, told again from the contract: who has confirmed the present content, under which policy."""

    def __init__(self, policy: dict[str, Any]) -> None:
        self.policy = policy
        self.keys: set[str] = set()
        self.evidence = 0

    def confirm(self, who: str) -> bool:
        """Whether this one may confirm; it counts if so."""
        kind = self.policy["kind"]
        if kind in ("host_confirmed", "principal_confirmed"):
            admitted = who == "operator"
        elif kind == "supervisor":
            owner_key = self.policy["owner_key"]
            admitted = f"{owner_key['kind']}:{owner_key['id']}" == KEYS[who]
        else:
            admitted = True
        if admitted:
            self.evidence += 1
            self.keys |= set() if kind == "self_attest" else {KEYS[who]}
        return admitted

    def escalate(self, policy: dict[str, Any]) -> bool:
        """Whether that policy is admitted next; it is the present one then."""
        before, after = int(self.policy.get("threshold", 0)), int(policy.get("threshold", 0))
        first: bool = self.policy["kind"] == "self_attest"
        stricter = bool(policy["kind"] != "self_attest") if first else 0 < before < after
        if stricter:
            self.policy = policy
        return stricter

    @property
    def satisfied(self) -> bool:
        """Whether the goal can be completed."""
        if self.policy["kind"] == "self_attest":
            return True
        return len(self.keys) >= int(self.policy.get("threshold", 1))


async def told_so(client: Client, allowed: bool, method: str, made: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Make the call, which is allowed or refused as the model says; the goal after it."""
    if not allowed:
        await client.refused(method, **of(made, **more))
        return made
    done = await client.call(method, **of(made, **more))
    return {**made, **done}


async def play(clients: dict[str, Client], policy: str, script: Script, name: str) -> None:
    """One goal's story, step by step beside the model."""
    operator = clients["operator"]
    model, made = Model(LATTICE[policy]), await goal(operator, name, completion_policy=LATTICE[policy])
    item_id = made["item"]["id"]
    for n, (what, who, wanted) in enumerate(script):
        if what == "confirm":
            made = await told_so(clients[who], model.confirm(who), CONFIRM, made)
        elif what == "escalate":
            more = {"id": item_id, "completion_policy": LATTICE[wanted]}
            allowed = model.escalate(LATTICE[wanted])
            made = await told_so(clients[who], allowed, "workgraph/policy/escalate", made, **more)
        elif what in ("edit", "relabel"):
            patch: dict[str, Any] = {"title": f"title {n}"} if what == "edit" else {"labels": [f"l{n}"]}
            at = {"id": item_id, "expected_revision": made["item"]["revision"]}
            made |= await clients[who].call("workgraph/update", **at, **patch)
            model.keys = model.keys if what == "relabel" else set()
        elif not model.satisfied:
            assert (await clients[who].refused(ASK, **of(made))).code == "policy_unsatisfied"
        explained = await operator.call("workgraph/explain", id=item_id)
        assert explained["completion"]["satisfied"] is model.satisfied
        assert explained["completion"]["policy"] == made["item"]["completion_policy"] == model.policy
        assert len(made["item"].get("evidence_refs", ())) == model.evidence
    made = await told_so(operator, model.satisfied, ASK, made)
    assert (made["item"]["status"] == "completed") is model.satisfied


async def perform(stories: list[tuple[str, Script]]) -> None:
    """Play stories on one daemon, one after the other."""
    with tempfile.TemporaryDirectory() as root:
        async with (
            served(Path(root), roles=("r1", "r2")) as daemon,
            daemon.client() as operator,
            daemon.client(role="r1") as r1,
            daemon.client(role="r2") as r2,
        ):
            for n, (policy, script) in enumerate(stories):
                await play({"operator": operator, "r1": r1, "r2": r2}, policy, script, f"t{n}")


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(LATTICE)), scripts), min_size=1, max_size=6))
def test_a_goal_is_completed_exactly_when_its_policy_is_satisfied(stories: list[tuple[str, Script]]) -> None:
    asyncio.run(perform(stories))
