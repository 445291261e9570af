"""What each mode and delegation allows under a `binding_id`, cell by cell of the contract's table (workgraph 3.3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import Client, served
from tests.ledger.common import head

from .common import claim, create, get, target

MODES: Final = ("pursue", "coordinate", "review", "falsify", "judge", "observe")
DELEGATIONS: Final = ("add_evidence", "close_own_review_item", "request_closure", "close_if_policy_allows")
LINKS: Final = ("parent", "related", "derived_from")
COORDINATES: Final = "-c----"

GRANTED: Final = {
    "evidence/add": ("can_add_evidence", "pcrfj-"),
    "release": ("can_release", "p-----"),
    "update": ("can_update", "pc----"),
    "policy/escalate": ("can_update", "pc----"),
    "block": ("can_block", "p-----"),
    "create": ("can_create", COORDINATES),
    **{f"{verb} {kind}": (f"can_link_{kind}", COORDINATES) for verb in ("link", "unlink") for kind in LINKS},
    **{f"{verb} {kind}": (None, "------") for verb in ("link", "unlink") for kind in ("blocks", "supersedes")},
    "attention/reassign": ("can_link_derived_from", COORDINATES),
}
"""What each call needs, and a letter for each mode that has it whatever is delegated."""
CLOSES: Final = {
    "pursue": "close_if_policy_allows",
    "coordinate": "close_if_policy_allows",
    "review": "close_own_review_item",
    "falsify": "close_own_review_item",
    "judge": "close_if_policy_allows",
    "observe": None,
}
"""By mode the delegation without which `close` is refused; nothing lets an observer close."""


class Acting:
    """A goal of this mode, and the calls that can be made under its binding; each makes what it needs first."""

    def __init__(self, client: Client, mode: str, delegated: str) -> None:
        self.client = client
        self.stance = {"mode": mode, "delegated_authority": delegated}
        self.serial = 0

    async def goal(self, item: dict[str, Any]) -> str:
        """A binding of this item."""
        self.serial += 1
        params = {"item_id": item["id"], "expected_revision": item["revision"], **self.stance}
        made = await self.client.call("workgraph/goal/create", **params, target=target(f"{self.serial} {self.stance}"))
        binding_id: str = made["attention"]["binding_id"]
        return binding_id

    async def prepared(self, what: str) -> tuple[str, dict[str, Any]]:
        """The method and its params, on things of its own."""
        name, _, kind = what.partition(" ")
        item = await create(self.client)
        named = {"id": item["id"], "expected_revision": item["revision"]}
        binding_id = await self.goal(item)
        params: dict[str, Any] = named
        if name == "evidence/add":
            params = {**named, "evidence": {"kind": "log", "id": "e"}}
        elif name == "policy/escalate":
            params = {**named, "completion_policy": {"kind": "host_confirmed"}}
        elif name == "release":
            params = {"id": item["id"], "fence": (await claim(self.client, item))["fence"]}
        elif name == "update":
            params = {**named, "title": "new"}
        elif name == "create":
            params = {"title": "made"}
        elif name == "attention/reassign":
            params = {"expected_revision": 1, "target": target(f"next of {self.serial} {self.stance}")}
        elif kind:
            params = {"kind": kind, "from_id": item["id"], "to_id": (await create(self.client))["id"]}
            if name == "unlink":
                await self.client.call("workgraph/link", **params)
        return f"workgraph/{name}", {**params, "binding_id": binding_id}


async def judged(acting: Acting, what: str, capability: str | None, granted: bool) -> None:
    """The call is admitted, or refused with what lacks and nothing done."""
    method, params = await acting.prepared(what)
    if granted:
        await acting.client.call(method, **params)
        return
    before = await head(acting.client)
    refused = await acting.client.refused(method, **params)
    assert (refused.code, refused.data["binding_id"]) == ("authority_missing", params["binding_id"]), what
    assert refused.data["mode"] == acting.stance["mode"]
    assert capability is None or refused.data["capability"] == capability, what
    assert refused.data["remedy"]
    assert await head(acting.client) == before


@pytest.mark.parametrize("mode", MODES)
async def test_every_cell_of_the_table_of_modes_holds_whatever_is_delegated(tmp_path: Path, mode: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for delegated in DELEGATIONS:
            acting = Acting(client, mode, delegated)
            for what, (capability, modes) in GRANTED.items():
                await judged(acting, what, capability, mode[0] in modes)


@pytest.mark.parametrize("mode", MODES)
async def test_a_mode_closes_by_the_one_delegation_that_lets_it(tmp_path: Path, mode: str) -> None:
    wanted = CLOSES[mode]
    capability = None if wanted is None else f"can_{wanted}"
    async with served(tmp_path) as daemon, daemon.client() as client:
        for delegated in DELEGATIONS:
            await judged(Acting(client, mode, delegated), "close", capability, delegated == wanted)


@pytest.mark.parametrize("mode", MODES)
async def test_a_projection_says_what_is_allowed(tmp_path: Path, mode: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for delegated in DELEGATIONS:
            binding_id = await Acting(client, mode, delegated).goal(await create(client))
            found = await client.call("workgraph/attention/projection", binding_id=binding_id)
            wanted = {name: mode[0] in modes for name, modes in GRANTED.values() if name is not None}
            wanted |= {"can_get": True, "can_link": mode == "coordinate"}
            for closing in ("close_own_review_item", "close_if_policy_allows"):
                wanted[f"can_{closing}"] = delegated == closing == CLOSES[mode]
            assert found["projection"]["authority"] == wanted


def of(item: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What names an item as it was read."""
    return {"id": item["id"], "expected_revision": item["revision"], **more}


EVIDENCE: Final = {"kind": "log", "id": "e"}
GUARDED: Final[dict[str, dict[str, Any]]] = {
    "update": {"title": "new"},
    "block": {},
    "release": {},
    "close": {},
}


async def test_a_reviewer_is_no_claimant_and_everybody_else_is_asked_for_the_fence(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        acting = Acting(client, "pursue", "close_if_policy_allows")
        for name, more in GUARDED.items():
            item = await create(client)
            binding_id = await acting.goal(item)
            taken = await claim(client, item)
            params = of(taken["item"], binding_id=binding_id, **more)
            refused = await client.refused(f"workgraph/{name}", **params)
            assert refused.code == "fence_required", name
            assert (await client.refused(f"workgraph/{name}", **params, fence=9)).code == "stale_lease"
            await client.call(f"workgraph/{name}", **params, fence=taken["fence"])
        item = await create(client)
        binding_id = await Acting(client, "review", "add_evidence").goal(item)
        taken = await claim(client, item)
        added = await client.call(
            "workgraph/evidence/add", **of(taken["item"], binding_id=binding_id), evidence=EVIDENCE
        )
        assert added["item"]["claim"] == taken["item"]["claim"]


async def test_a_policy_is_made_stricter_beside_a_claim_without_its_fence(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        binding_id = await Acting(client, "pursue", "add_evidence").goal(item)
        taken = await claim(client, item)
        params = of(taken["item"], binding_id=binding_id)
        stricter = await client.call(
            "workgraph/policy/escalate", **params, completion_policy={"kind": "host_confirmed"}
        )
        assert stricter["item"]["claim"] == taken["item"]["claim"]


async def test_a_binding_allows_nothing_about_another_item(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        mine, other, third = [await create(client) for _ in range(3)]
        acting = Acting(client, "coordinate", "close_if_policy_allows")
        binding_id = await acting.goal(mine)
        await client.call("workgraph/link", kind="related", from_id=other["id"], to_id=third["id"])
        ends = {"kind": "related", "from_id": third["id"], "to_id": other["id"]}
        calls: list[tuple[str, dict[str, Any]]] = [
            ("update", of(other, title="new")),
            ("block", of(other)),
            ("release", of(other)),
            ("close", of(other)),
            ("evidence/add", of(other, evidence=EVIDENCE)),
            ("policy/escalate", of(other, completion_policy={"kind": "host_confirmed"})),
            ("link", ends),
            ("unlink", {"kind": "related", "from_id": other["id"], "to_id": third["id"]}),
        ]
        before = await head(client)
        for name, params in calls:
            refused = await client.refused(f"workgraph/{name}", **params, binding_id=binding_id)
            assert (refused.code, refused.data["path"]) == ("invalid_params", "/binding_id"), name
        assert await head(client) == before
        for ends in {"from_id": mine["id"], "to_id": third["id"]}, {"from_id": other["id"], "to_id": mine["id"]}:
            await client.call("workgraph/link", kind="related", **ends, binding_id=binding_id)


async def test_a_binding_of_another_scope_is_not_there(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        binding_id = await Acting(client, "coordinate", "add_evidence").goal(await create(client))
        refused = await client.refused("workgraph/create", title="t", namespace="elsewhere", binding_id=binding_id)
        assert (refused.code, refused.data["kind"], refused.data["id"]) == ("not_found", "attention", binding_id)


End = Callable[[Client, dict[str, Any]], Awaitable[Any]]


async def _pause(client: Client, at: dict[str, Any]) -> None:
    await client.call("workgraph/attention/pause", **at)


async def _stop(client: Client, at: dict[str, Any]) -> None:
    await client.call("workgraph/attention/stop", **at)


async def _supersede(client: Client, at: dict[str, Any]) -> None:
    await client.call("workgraph/attention/reassign", **at, target=target("successor"))


@pytest.mark.parametrize("end", [_pause, _stop, _supersede])
async def test_who_is_paused_or_gone_may_not_act(tmp_path: Path, end: End) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        binding_id = await Acting(client, "coordinate", "close_if_policy_allows").goal(item)
        await end(client, {"binding_id": binding_id, "expected_revision": 1})
        for name, params in (
            ("create", {"title": "t"}),
            ("update", of(item, title="new")),
            ("close", of(item)),
            ("policy/escalate", of(item, completion_policy={"kind": "host_confirmed"})),
        ):
            refused = await client.refused(f"workgraph/{name}", **params, binding_id=binding_id)
            assert (refused.code, refused.data["reason"]) == ("invalid_transition", "binding_not_eligible")
        assert await get(client, item["id"]) == item


async def test_a_pause_that_is_over_lets_act_before_anybody_has_recorded_its_end(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        binding_id = await Acting(client, "pursue", "add_evidence").goal(item)
        at = {"binding_id": binding_id, "expected_revision": 1}
        steps = [
            {"method": "workgraph/attention/pause", "params": {**at, "until": "2001-01-01T00:00:00Z"}},
            {"method": "workgraph/update", "params": of(item, title="new", binding_id=binding_id)},
        ]
        done = await client.call("daemon/batch", steps=steps)
        assert done["results"][0]["attention"]["status"]["state"] == "paused"
        assert done["results"][1]["item"]["title"] == "new"


async def test_the_policy_is_asked_of_who_may_close_too(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await client.call(
            "workgraph/goal/create",
            title="t",
            target=target("a"),
            mode="judge",
            delegated_authority="close_if_policy_allows",
            completion_policy={"kind": "host_confirmed"},
        )
        params = of(made["item"], binding_id=made["attention"]["binding_id"])
        refused = await client.refused("workgraph/close", **params)
        assert refused.code == "policy_unsatisfied"
        closed = await client.call("workgraph/close", **params, status="failed")
        assert closed["stopped_bindings"] == [made["attention"]["binding_id"]]
