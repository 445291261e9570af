"""Every cell of the table of states, the guard of a claim, and what is judged first (contract workgraph 2, 3.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import Client, Refused, served
from tests.ledger.common import head

from .common import at, claim, create, elapse, get, link, owner, since, stop_sweeper, target
from .test_creating import ME

TABLE: Final = """
state     | update       escalate     claim            renew        release       block     unblock       close     confirm      evidence     bind
open      | open         open         in_progress      stale_lease  !not_claimed  blocked   !not_blocked  terminal  open         open         open
live      | in_progress  in_progress  already_claimed  in_progress  open          blocked   !not_blocked  terminal  in_progress  in_progress  in_progress
elapsed   | open         open         in_progress      stale_lease  !not_claimed  blocked   !not_blocked  terminal  open         open         in_progress
blocked   | blocked      blocked      !blocked         stale_lease  !not_claimed  blocked   open          terminal  blocked      blocked      blocked
completed | !terminal    !terminal    !terminal        stale_lease  !terminal     !terminal !terminal     !terminal !terminal    completed    !terminal
cancelled | !terminal    !terminal    !terminal        stale_lease  !terminal     !terminal !terminal     !terminal !terminal    cancelled    !terminal
failed    | !terminal    !terminal    !terminal        stale_lease  !terminal     !terminal !terminal     !terminal !terminal    failed       !terminal
"""  # noqa: E501
"""The contract's table 3.1: the status after the input, or its refusal, `!` before a reason of `invalid_transition`.

Binding a goal to an item is no transition of it, so an elapsed claim stays to be recorded.
"""
NO_REVISION: Final = {"renew", "bind"}
GUARDED: Final = ("update", "block", "release", "close", "evidence/add")


def cells(state: str) -> list[tuple[str, str]]:
    """Input and outcome of every cell of a row."""
    rows = [line.replace("|", " ").split() for line in TABLE.strip().splitlines()]
    [row] = [row for row in rows if row[0] == state]
    return list(zip(rows[0][1:], row[1:], strict=True))


class Made:
    """An item in some state, and a binding that attends (or attended) to it."""

    def __init__(self, item: dict[str, Any], binding: str) -> None:
        self.item = item
        self.binding = binding

    @property
    def at(self) -> dict[str, Any]:
        """The item at its revision."""
        return at(self.item)


async def in_state(client: Client, state_dir: Path, state: str, mode: str = "coordinate") -> Made:
    """An item in this state. Nobody sweeps."""
    goal = await client.call("workgraph/goal/create", title="t", target=target(state), mode=mode)
    item: dict[str, Any] = goal["item"]
    if state in ("live", "elapsed"):
        item = (await claim(client, item))["item"]
    elif state == "blocked":
        item = (await client.call("workgraph/block", **at(item)))["item"]
    elif state != "open":
        item = (await client.call("workgraph/close", **at(item), status=state))["item"]
    if state == "elapsed":
        elapse(state_dir, item["id"])
        item = await get(client, item["id"])
    return Made(item, goal["attention"]["binding_id"])


def call_of(given: str, made: Made, fence: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The request that is an input."""
    bound = {"binding_id": made.binding, "expected_revision": made.item["revision"]}
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "update": ("update", {**made.at, "title": "u", **fence}),
        "escalate": ("policy/escalate", {**made.at, **bound, "completion_policy": {"kind": "host_confirmed"}}),
        "claim": ("claim", {**made.at, "owner": owner("b")}),
        "renew": ("renew", {"id": made.item["id"], "fence": 1}),
        "release": ("release", {**made.at, **fence}),
        "block": ("block", {**made.at, **fence}),
        "unblock": ("unblock", made.at),
        "close": ("close", {**made.at, **fence}),
        "confirm": ("goal/confirm", bound),
        "evidence": ("evidence/add", {**made.at, "evidence": {"kind": "k", "id": "1"}, **fence}),
        "bind": (
            "goal/create",
            {"item_id": made.item["id"], "expected_revision": made.item["revision"], "target": target("x")},
        ),
    }
    return calls[given]


@pytest.mark.parametrize("state", ["open", "live", "elapsed", "blocked", "completed", "cancelled", "failed"])
async def test_every_cell_of_the_table_holds(tmp_path: Path, state: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        for given, outcome in cells(state):
            made = await in_state(client, daemon.state_dir, state)
            before = await head(client)
            method, params = call_of(given, made, {"fence": 1} if state == "live" else {})
            answer = await client.start(f"workgraph/{method}", **params)
            now = await get(client, made.item["id"])
            where = f"{state} x {given}: {answer}"
            if "error" in answer:
                refused = Refused(answer["error"])
                reason = "!" + refused.data["reason"] if refused.code == "invalid_transition" else refused.code
                assert reason == outcome, where
                assert (now, await head(client)) == (made.item, before), f"{where} wrote something"
            else:
                end = "completed" if outcome == "terminal" else outcome
                assert now["status"] == end, where
                steps = 0 if given in NO_REVISION else 2 if state == "elapsed" else 1
                assert now["revision"] == made.item["revision"] + steps, where
                assert ("claim" in now) == ("owner" in now) == (end == "in_progress"), where
                assert answer["result"]["item"] == now, where
            # the target of every goal is the same
            await client.call("daemon/batch", steps=[*frees(await bindings(client))])


async def bindings(client: Client) -> list[dict[str, Any]]:
    """All bindings that occupy a target."""
    found: list[dict[str, Any]] = (await client.call("workgraph/attention/list", status="occupying"))["attention"]
    return found


def frees(occupying: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The steps that free their targets."""
    return [
        {
            "method": "workgraph/attention/stop",
            "params": {"binding_id": one["binding_id"], "expected_revision": one["revision"]},
        }
        for one in occupying
    ] or [{"method": "workgraph/create", "params": {"title": "filler"}}]


async def test_edges_are_admitted_in_every_state_and_change_no_revision(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        states = ("open", "live", "elapsed", "blocked", "completed", "cancelled", "failed")
        made = [(await in_state(client, daemon.state_dir, state)).item for state in states]
        for kind in ("blocks", "parent", "related"):
            for n, source in enumerate(made):
                for to in made[n + 1 :]:
                    edge = await link(client, kind, source, to)
                    ends = {name: edge[name] for name in ("kind", "from_id", "to_id")}
                    assert (await client.call("workgraph/unlink", **ends))["edge"] == edge
        now = [await get(client, item["id"]) for item in made]
        assert now == made


class Guarded:
    """A guarded method on an item of a state, called from either side."""

    def __init__(self, client: Client, attached: Client, method: str, made: Made) -> None:
        self.client = client
        self.attached = attached
        self.method = f"workgraph/{method}"
        self.item = made.item
        more: dict[str, dict[str, Any]] = {
            "update": {"title": "u"},
            "evidence/add": {"evidence": {"kind": "k", "id": "1"}},
        }
        self.params: dict[str, Any] = {**made.at, **more.get(method, {})}

    async def refused(self, attached: bool = False, **guard: Any) -> Refused:
        """The refusal with this guard."""
        return await (self.attached if attached else self.client).refused(self.method, **self.params, **guard)

    async def event(self, attached: bool = False, **guard: Any) -> dict[str, Any]:
        """The last event about the item that the call has told, of those that a command tells of itself."""
        before = await head(self.client)
        await (self.attached if attached else self.client).call(self.method, **self.params, **guard)
        told = [data for kind, subject, data in await since(self.client, before)
                if subject == self.item["id"] and kind not in ("item_ready", "namespace_terminal")]  # fmt: skip
        return told[-1]


REFUSED: Final[list[tuple[str, dict[str, Any], bool, str]]] = [
    ("a wrong fence", {"fence": 2}, False, "stale_lease"),
    ("a wrong fence and a reason", {"fence": 2, "reason": "r"}, False, "stale_lease"),
    ("nothing", {}, False, "fence_required"),
    ("nothing, attached", {}, True, "fence_required"),
    ("a reason, attached", {"reason": "r"}, True, "not_admin"),
    ("a blank reason", {"reason": " \t"}, False, "invalid_params"),
    ("an empty reason", {"reason": ""}, False, "invalid_params"),
    ("a fence that is none", {"fence": 0}, False, "invalid_params"),
    ("a long reason", {"fence": 1, "reason": "r" * 1025}, False, "too_large"),
]


@pytest.mark.parametrize("method", GUARDED)
async def test_a_live_claim_is_touched_with_its_fence_or_by_the_operator_with_a_reason(
    tmp_path: Path, method: str
) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client, daemon.client(role="w") as worker:
        made = await in_state(client, daemon.state_dir, "live")
        guarded = Guarded(client, worker, method, made)
        before = await head(client)
        holder = {
            "holder": owner("a"),
            "lease_expires_at": made.item["claim"]["lease_expires_at"],
            "current_revision": 2,
        }
        for says, guard, attached, code in REFUSED:
            refused = await guarded.refused(attached, **guard)
            assert refused.code == code, says
            assert refused.data["retryable"] is False
            data = {name: value for name, value in refused.data.items() if name not in ("code", "retryable")}
            if code == "stale_lease":
                assert data == {"fence": 2, "current_fence": 1, **holder}, says
            elif code == "fence_required":
                assert data == holder, says
        assert (await get(client, made.item["id"]), await head(client)) == (made.item, before)
        assert "override" not in await guarded.event(fence=1)


@pytest.mark.parametrize("method", GUARDED)
async def test_the_holder_may_give_a_reason_and_attached_roles_hold_too(tmp_path: Path, method: str) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client, daemon.client(role="w") as worker:
        made = await in_state(client, daemon.state_dir, "live")
        assert "override" not in await Guarded(client, worker, method, made).event(True, fence=1, reason="r")


@pytest.mark.parametrize("method", GUARDED)
async def test_an_override_says_whose_claim_it_was(tmp_path: Path, method: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await in_state(client, daemon.state_dir, "live")
        data = await Guarded(client, client, method, made).event(reason=" it hangs ")
        override = {"reason": " it hangs ", "principal": ME, "holder": owner("a"), "fence": 1}
        assert data["override"] == override


@pytest.mark.parametrize("state", ["open", "elapsed", "blocked"])
@pytest.mark.parametrize("method", GUARDED)
async def test_without_a_live_claim_a_fence_is_stale_and_a_reason_goes_into_the_event(
    tmp_path: Path, method: str, state: str
) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client, daemon.client(role="w") as worker:
        await stop_sweeper()
        made = await in_state(client, daemon.state_dir, state)
        guarded = Guarded(client, worker, method, made)
        for attached in (False, True):
            stale = await guarded.refused(attached, fence=1, reason="r")
            assert stale.code == "stale_lease"
            said = {"code": "stale_lease", "retryable": False, "fence": 1}
            assert stale.data == {**said, "current_revision": made.item["revision"]}
        if method == "release":
            for reason in (None, "r"):
                refused = await guarded.refused(reason=reason)
                assert refused.data["reason"] == "not_claimed"
            return
        assert (await guarded.event(reason="r"))["override"] == {"reason": "r", "principal": ME}
        await client.call("daemon/batch", steps=frees(await bindings(client)))
        other = await in_state(client, daemon.state_dir, state)
        assert (await Guarded(client, worker, method, other).event(True, reason="r"))["override"] == {"reason": "r"}


EVIDENCE: Final = {"kind": "k", "id": "1"}
OBSERVED: Final = ("update", "block", "release", "close")
"""Guarded methods for which a binding never replaces the fence."""
ORDER: Final[list[tuple[str, tuple[str, ...], str, dict[str, Any], bool, str]]] = [
    ("params before not found", GUARDED, "open", {"id": "none", "reason": " "}, False, "invalid_params"),
    ("op before not found", GUARDED, "open", {"id": "none", "op_id": "used"}, False, "op_conflict"),
    ("op before wrong fence", GUARDED, "live", {"fence": 9, "op_id": "used"}, False, "op_conflict"),
    ("not found before wrong fence", GUARDED, "open", {"id": "none", "fence": 9}, False, "not_found"),
    ("wrong fence before revision", GUARDED, "live", {"fence": 9, "expected_revision": 9}, False, "stale_lease"),
    ("wrong fence before revision", GUARDED, "open", {"fence": 9, "expected_revision": 9}, False, "stale_lease"),
    ("wrong fence before terminal", GUARDED, "failed", {"fence": 1}, False, "stale_lease"),
    ("revision before terminal", GUARDED, "failed", {"expected_revision": 9}, False, "stale_revision"),
    ("revision before missing fence", GUARDED, "live", {"expected_revision": 9}, False, "stale_revision"),
    ("revision before admin", GUARDED, "live", {"expected_revision": 9, "reason": "r"}, True, "stale_revision"),
    ("terminal before authority", OBSERVED, "failed", {"binding_id": "it"}, False, "terminal"),
    ("missing fence before authority", OBSERVED, "live", {"binding_id": "it"}, False, "fence_required"),
    ("admin before authority", OBSERVED, "live", {"binding_id": "it", "reason": "r"}, True, "not_admin"),
    ("a binding replaces the fence", ("evidence/add",), "live", {"binding_id": "it"}, False, "authority_missing"),
    ("authority, though the fence is right", GUARDED, "live", {"binding_id": "it", "fence": 1}, False,
     "authority_missing"),
    ("authority before not claimed", ("release",), "open", {"binding_id": "it"}, False, "authority_missing"),
    ("authority before the policy", ("update",), "open",
     {"binding_id": "it", "completion_policy": {"kind": "host_confirmed"}}, False, "authority_missing"),
    ("authority before children", ("close",), "parent", {"binding_id": "it"}, False, "authority_missing"),
    ("authority before the 257th", ("evidence/add",), "full", {"binding_id": "it"}, False, "authority_missing"),
    ("revision before not claimed", ("release",), "open", {"expected_revision": 9}, False, "stale_revision"),
    ("revision before children", ("close",), "parent", {"expected_revision": 9}, False, "stale_revision"),
    ("revision before not blocked", ("unblock",), "open", {"expected_revision": 9}, False, "stale_revision"),
    ("revision before terminal", ("unblock", "claim"), "failed", {"expected_revision": 9}, False, "stale_revision"),
    ("revision before blocked", ("claim",), "blocked", {"expected_revision": 9}, False, "stale_revision"),
    ("revision before the holder", ("claim",), "live", {"expected_revision": 9}, False, "stale_revision"),
    ("terminal before children", ("close", "claim"), "failed", {}, False, "terminal"),
    ("the holder before children", ("claim",), "held parent", {}, False, "already_claimed"),
    ("blocked before children", ("claim",), "blocked parent", {}, False, "blocked"),
    ("params before not found", ("claim",), "open", {"id": "none", "owner": {"kind": "agent"}}, False,
     "invalid_params"),
    ("params before revision", ("claim",), "open", {"expected_revision": 9, "lease_seconds": -1}, False,
     "limit_out_of_range"),
]  # fmt: skip
"""What is said of a call with two faults: methods, state of the item, params, attached, and the earlier fault."""


async def faulty(client: Client, state_dir: Path, state: str) -> Made:
    """An item in a state with an observer, who may do nothing."""
    if state == "full":
        full = await create(client, evidence_refs=[EVIDENCE] * 256)
        bound = await client.call("workgraph/goal/create", item_id=full["id"], expected_revision=1,
                                  target=target("full"), mode="observe")  # fmt: skip
        return Made(full, bound["attention"]["binding_id"])
    plain = {"parent": "open", "held parent": "live", "blocked parent": "blocked"}.get(state, state)
    made = await in_state(client, state_dir, plain, "observe")
    if plain != state or state == "failed":
        await link(client, "parent", await create(client), made.item)
        made.item = await get(client, made.item["id"])
    return made


@pytest.mark.parametrize(
    ("methods", "state", "params", "attached", "first"),
    [one[1:] for one in ORDER],
    ids=[f"{says}, {state}" for says, _, state, *_ in ORDER],
)
async def test_of_two_faults_the_earlier_one_is_said(
    tmp_path: Path, methods: tuple[str, ...], state: str, params: dict[str, Any], attached: bool, first: str
) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client, daemon.client(role="w") as worker:
        await stop_sweeper()
        made = await faulty(client, daemon.state_dir, state)
        used = await create(worker if attached else client, op_id="used")
        assert used["revision"] == 1
        before = await head(client)
        more = {"evidence/add": {"evidence": EVIDENCE}, "claim": {"owner": owner("b")}}
        for method in methods:
            call = {**made.at, **more.get(method, {}), **params}
            if call.get("binding_id") == "it":
                call["binding_id"] = made.binding
            refused = await (worker if attached else client).refused(f"workgraph/{method}", **call)
            found = refused.data["reason"] if refused.code == "invalid_transition" else refused.code
            assert found == first, method
        assert (await get(client, made.item["id"]), await head(client)) == (made.item, before)


async def test_a_claim_says_first_that_children_then_that_blockers_then_that_gates_are_in_the_way(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client, not_before="2999-01-01T00:00:00Z", snoozed_until="2998-01-01T00:00:00Z")
        child, blocker = await create(client), await create(client)
        edges = [
            {name: edge[name] for name in ("kind", "from_id", "to_id")}
            for edge in (await link(client, "parent", child, item), await link(client, "blocks", blocker, item))
        ]
        call = {**at(item), "owner": owner("a")}
        said = {"id": item["id"], "status": "open", "current_revision": 1, "code": "invalid_transition"}
        for reason, edge in (("waiting_children", edges[0]), ("unresolved_blockers", edges[1])):
            refused = await client.refused("workgraph/claim", **call)
            assert refused.data == {**said, "retryable": False, "reason": reason}
            await client.call("workgraph/unlink", **edge)
        refused = await client.refused("workgraph/claim", **call)
        assert refused.data == {**said, "retryable": False, "reason": "gated", "until": "2999-01-01T00:00:00.000Z"}
        item = (await client.call("workgraph/update", **at(item), not_before=None))["item"]
        refused = await client.refused("workgraph/claim", **{**call, **at(item)})
        assert refused.data["until"] == "2998-01-01T00:00:00.000Z"


async def test_a_completed_close_says_first_that_the_policy_is_not_satisfied(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        policy = {"kind": "host_confirmed"}
        goal = await client.call("workgraph/goal/create", title="t", target=target("a"), completion_policy=policy)
        item = goal["item"]
        await link(client, "parent", await create(client), item)
        for flag in (False, True):
            refused = await client.refused("workgraph/close", **at(item), even_if_incomplete=flag)
            assert (refused.code, refused.data["policy"]) == ("policy_unsatisfied", policy)
            assert "goal/confirm" in refused.data["missing"]
        confirmed = (await client.call(
            "workgraph/goal/confirm", binding_id=goal["attention"]["binding_id"], expected_revision=1
        ))["item"]  # fmt: skip
        refused = await client.refused("workgraph/close", **at(confirmed))
        assert (refused.code, refused.data["reason"]) == ("invalid_transition", "incomplete")
        end = (await client.call("workgraph/close", **at(confirmed), even_if_incomplete=True))["item"]
        assert end["status"] == "completed"


@pytest.mark.parametrize("status", ["cancelled", "failed"])
async def test_giving_up_asks_for_no_policy(tmp_path: Path, status: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        policy = {"kind": "supervisor", "owner_key": {"kind": "agent", "id": "boss"}}
        goal = await client.call("workgraph/goal/create", title="t", target=target("a"), completion_policy=policy)
        result = await client.call("workgraph/close", **at(goal["item"]), status=status)
        assert result["item"]["status"] == status
        assert result["stopped_bindings"] == [goal["attention"]["binding_id"]]


async def test_a_binding_of_another_item_is_no_authority(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await in_state(client, daemon.state_dir, "open")
        item = await create(client)
        for method in ("update", "block", "close", "evidence/add"):
            more = {"evidence": EVIDENCE} if method == "evidence/add" else {}
            call = {**at(item), "binding_id": made.binding, **more}
            refused = await client.refused(f"workgraph/{method}", **call)
            assert (refused.code, refused.data["path"]) == ("invalid_params", "/binding_id")
            gone = await client.refused(f"workgraph/{method}", **{**call, "binding_id": "attention_none"})
            assert (gone.code, gone.data["kind"], gone.data["id"]) == ("not_found", "attention", "attention_none")
