"""Every refusal that a method of the work graph can answer, with what brings it about and the whole of its data.

A case is one row: method and code, the params, what `data` is beside code and retryable, and what is done before.
`test_refusals` plays each through the wire, in a realm of its own, and compares the pairs with the declarations. Rows
of goals, attention and members are in `refusals_of_goals`.

`$c/item/id` stands for what the step named `c` answered there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .common import owner, target

Data = dict[str, Any]
Step = tuple[str, str, Data]
ROLE = "worker"
FUTURE = "2999-01-01T00:00:00.000Z"
SESSION, OTHER_SESSION = "0199c3a2-7c11-7d4e-8a51-3f1d2b6c9e07", "0199c3a2-7c11-7d4e-8a51-3f1d2b6c9e08"
HOST = {"kind": "host_confirmed"}
BY_SESSION = {"kind": "session", "session_id": SESSION}


class Says:
    """Equal to any text that has these words in it."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and all(word in other for word in self._words)

    def __hash__(self) -> int:
        return hash(self._words)

    def __repr__(self) -> str:
        return f"Says{self._words}"


class AtLeast(NamedTuple):
    """Equal to any number that is not smaller."""

    number: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and other >= self.number

    def __hash__(self) -> int:
        return hash(self.number)


class Case(NamedTuple):
    """`before` is done by the operator; then `params` come over the socket, or the stdio of another process."""

    method: str
    code: str
    params: Data
    data: Data
    before: tuple[Step, ...] = ()
    attached: bool = False
    over: str = "socket"


def goal(name: str, **more: Any) -> Step:
    """A goal, its target called as the step."""
    return name, "workgraph/goal/create", {"title": "t", "target": target(name), **more}


def bound(name: str, **more: Any) -> Step:
    """A binding of the item `i`."""
    return (
        name,
        "workgraph/goal/create",
        {"item_id": "$i/item/id", "expected_revision": 1, "target": target(name), **more},
    )


def binding(name: str, revision: int = 1) -> Data:
    """The params that name a goal's binding, or its item's revision."""
    return {"binding_id": f"${name}/attention/binding_id", "expected_revision": revision}


def binding_is(state: Data, name: str = "g", revision: int = 2) -> Data:
    """What a refusal says about a binding."""
    return {"id": f"${name}/attention/binding_id", "status": state, "current_revision": revision}


def item_is(status: str, revision: int = 1, name: str = "i") -> Data:
    """What a refusal says about an item."""
    return {"id": f"${name}/item/id", "status": status, "current_revision": revision}


ITEM: Step = ("i", "workgraph/create", {"title": "t"})
OTHER: Step = ("o", "workgraph/create", {"title": "other"})
OF_ITEM = {"id": "$i/item/id", "expected_revision": 1}
CLAIM: Step = ("c", "workgraph/claim", {**OF_ITEM, "owner": owner("holder")})
FOREVER: Step = ("c", "workgraph/claim", {**OF_ITEM, "owner": owner("holder"), "lease_seconds": 0})
END: Step = ("e", "workgraph/close", {**OF_ITEM, "status": "failed"})
BLOCK: Step = ("b", "workgraph/block", OF_ITEM)
GOAL, WATCH = goal("g"), bound("w", mode="observe")
CONFIRMED = goal("g", completion_policy=HOST)
PAUSE: Step = ("p", "workgraph/attention/pause", binding("g"))
UNWATCH: Step = ("u", "workgraph/attention/pause", binding("w"))
STOP: Step = ("s", "workgraph/attention/stop", binding("g"))
USED: Step = ("", "workgraph/create", {"title": "first", "op_id": "op"})
NONE = {"kind": "item", "id": "work_none"}
NO_BINDING = {"kind": "attention", "id": "attention_none"}
CONFLICT = {"method": "workgraph/create"}
UNREAD = {"realm_id": "$realm", "session_id": SESSION}
PAGE = {"path": "/limit", "max": 500}
STALE = {"kind": "item", "id": "$i/item/id", "expected_revision": 7, "current_revision": 1}
HELD = {"holder": owner("holder"), "lease_expires_at": "$c/item/claim/lease_expires_at", "current_revision": 2}
LEASE = {"path": "/lease_seconds", "max": 31_536_000}


def _link(kind: str, source: str, to: str, **more: Any) -> Data:
    return {"kind": kind, "from_id": f"${source}/item/id", "to_id": f"${to}/item/id", **more}


BLOCKER: Step = ("l", "workgraph/link", _link("blocks", "o", "i"))
CHILD: Step = ("l", "workgraph/link", _link("parent", "o", "i"))


def _of_item(method: str, **more: Any) -> list[Case]:
    """What every write refuses that names an item and its revision."""
    params = {**OF_ITEM, **more}
    return [
        Case(method, "not_found", {**params, "id": "work_none"}, NONE),
        Case(method, "stale_revision", {**params, "expected_revision": 7}, STALE, (ITEM,)),
        Case(method, "op_conflict", {**params, "op_id": "op"}, CONFLICT, (ITEM, USED)),
    ]


def _terminal(method: str, **more: Any) -> Case:
    return Case(method, "invalid_transition", {**OF_ITEM, "expected_revision": 2, **more},
                {"reason": "terminal", **item_is("failed", 2)}, (ITEM, END))  # fmt: skip


def lease(method: str, params: Data, before: tuple[Step, ...] = (ITEM,)) -> list[Case]:
    """What the fence of a claim decides, in every write that it guards; `params` are right for a claimed item."""
    claimed = (*before, CLAIM)
    return [
        Case(method, "stale_lease", {**params, "fence": 9}, {"fence": 9, "current_fence": 1, **HELD}, claimed),
        Case(method, "stale_lease", {**params, "fence": 1}, {"fence": 1, "current_revision": 1}, before),
        Case(method, "fence_required", params, HELD, claimed),
        Case(method, "fence_required", params, {name: HELD[name] for name in ("holder", "current_revision")},
             (*before, FOREVER)),
        Case(method, "not_admin", {**params, "reason": "it hangs"}, {}, claimed, True),
    ]  # fmt: skip


def _acting(method: str, params: Data, capability: str, before: tuple[Step, ...] = (ITEM,)) -> list[Case]:
    """What a binding decides under which a write is made."""
    lacks = {
        "binding_id": "$w/attention/binding_id",
        "mode": "observe",
        "capability": capability,
        "remedy": Says("binding"),
    }
    under = {**params, "binding_id": "$w/attention/binding_id"}
    return [
        Case(method, "not_found", {**params, "binding_id": "attention_none"}, NO_BINDING, before),
        Case(method, "authority_missing", under, lacks, (*before, WATCH)),
        Case(method, "invalid_transition", under,
             {"reason": "binding_not_eligible", **binding_is({"state": "paused"}, "w")}, (*before, WATCH, UNWATCH)),
    ]  # fmt: skip


def _guarded(method: str, capability: str, **more: Any) -> list[Case]:
    """What every write with a guard refuses."""
    params = {**OF_ITEM, **more}
    return [
        *_of_item(method, **more),
        *lease(method, {**params, "expected_revision": 2}),
        *_acting(method, params, capability),
    ]


EVIDENCE = {"kind": "log", "id": "e"}
ITEMS = [
    *_acting("workgraph/create", {"title": "t"}, "can_create"),
    Case("workgraph/create", "invalid_transition", {"title": "t", "status": "completed"},
         {"reason": "create_status", "status": "completed"}),
    Case("workgraph/create", "op_conflict", {"title": "second", "op_id": "op"}, CONFLICT, (USED,)),
    Case("workgraph/get", "not_found", {"id": "work_none"}, NONE),
    Case("workgraph/explain", "not_found", {"id": "work_none"}, NONE),
    *(
        Case(f"workgraph/{name}", "limit_out_of_range", {"limit": 501}, PAGE)
        for name in ("list", "ready", "snapshot", "events", "attention/list", "member/list")
    ),
    *_guarded("workgraph/update", "can_update", title="new"),
    _terminal("workgraph/update", title="new"),
    *_guarded("workgraph/block", "can_block"),
    _terminal("workgraph/block"),
    *_guarded("workgraph/release", "can_release"),
    _terminal("workgraph/release"),
    Case("workgraph/release", "invalid_transition", OF_ITEM, {"reason": "not_claimed", **item_is("open")}, (ITEM,)),
    *_guarded("workgraph/evidence/add", "can_add_evidence", evidence=EVIDENCE),
    *_guarded("workgraph/close", "can_close_if_policy_allows"),
    _terminal("workgraph/close"),
    Case("workgraph/close", "policy_unsatisfied", {"id": "$g/item/id", "expected_revision": 1},
         {"policy": HOST, "missing": Says("goal/confirm")}, (CONFIRMED,)),
    Case("workgraph/close", "invalid_transition", OF_ITEM,
         {"reason": "incomplete", **item_is("open"), "open_children": 0, "unresolved_blockers": 1},
         (ITEM, OTHER, BLOCKER)),
    *_of_item("workgraph/unblock"),
    _terminal("workgraph/unblock"),
    Case("workgraph/unblock", "invalid_transition", OF_ITEM, {"reason": "not_blocked", **item_is("open")}, (ITEM,)),
]  # fmt: skip

MINE = {"owner": owner("me")}
CLAIMS = [
    *_of_item("workgraph/claim", **MINE),
    _terminal("workgraph/claim", **MINE),
    *(
        Case("workgraph/claim", "invalid_transition", {**OF_ITEM, **MINE, "expected_revision": revision},
             {"reason": reason, **item_is(status, revision), **more}, before)
        for reason, status, revision, more, before in (
            ("blocked", "blocked", 2, {}, (ITEM, BLOCK)),
            ("waiting_children", "open", 1, {}, (ITEM, OTHER, CHILD)),
            ("unresolved_blockers", "open", 1, {}, (ITEM, OTHER, BLOCKER)),
            ("gated", "open", 1, {"until": FUTURE},
             (("i", "workgraph/create", {"title": "t", "not_before": FUTURE}),)),
        )
    ),
    *(
        Case("workgraph/claim", "already_claimed", {**OF_ITEM, "expected_revision": 2, "owner": owner(name)}, data,
             (ITEM, claim))
        for name, data, claim in (
            ("me", HELD, CLAIM),
            ("holder", HELD, CLAIM),
            ("me", {"holder": owner("holder"), "current_revision": 2}, FOREVER),
        )
    ),
    Case("workgraph/claim", "limit_out_of_range", {**OF_ITEM, **MINE, "lease_seconds": 31_536_001}, LEASE, (ITEM,)),
    Case("workgraph/claim_next", "limit_out_of_range", {**MINE, "lease_seconds": -1}, {**LEASE, "min": 0}),
    Case("workgraph/claim_next", "op_conflict", {**MINE, "op_id": "op"}, CONFLICT, (USED,)),
    Case("workgraph/renew", "not_found", {"id": "work_none", "fence": 1}, NONE),
    Case("workgraph/renew", "stale_lease", {"id": "$i/item/id", "fence": 1}, {"fence": 1, "current_revision": 1},
         (ITEM,)),
    Case("workgraph/renew", "stale_lease", {"id": "$i/item/id", "fence": 1}, {"fence": 1, "current_revision": 2},
         (ITEM, END)),
    Case("workgraph/renew", "stale_lease", {"id": "$i/item/id", "fence": 2},
         {"fence": 2, "current_fence": 1, **HELD}, (ITEM, CLAIM)),
    Case("workgraph/renew", "limit_out_of_range", {"id": "$i/item/id", "fence": 1, "lease_seconds": 31_536_001},
         LEASE, (ITEM, CLAIM)),
]  # fmt: skip

RELATED = _link("related", "i", "o")
EDGES = [
    *_acting("workgraph/link", RELATED, "can_link_related", (ITEM, OTHER)),
    Case("workgraph/link", "not_found", {**RELATED, "to_id": "work_none"}, NONE, (ITEM,)),
    Case("workgraph/link", "not_found", {**RELATED, "from_id": "work_none"}, NONE, (OTHER,)),
    Case("workgraph/link", "invalid_transition", _link("related", "i", "i"),
         {"reason": "self_edge", **item_is("open")}, (ITEM,)),
    Case("workgraph/link", "invalid_transition", _link("parent", "i", "o"),
         {"reason": "cycle", **item_is("open"), "cycle": ["$o/item/id", "$i/item/id"]}, (ITEM, OTHER, BLOCKER)),
    Case("workgraph/link", "duplicate", _link("blocks", "o", "i"), {"kind": "edge"}, (ITEM, OTHER, BLOCKER)),
    Case("workgraph/link", "op_conflict", {**RELATED, "op_id": "op"}, CONFLICT, (ITEM, OTHER, USED)),
    *_acting("workgraph/unlink", RELATED, "can_link_related", (ITEM, OTHER, ("l", "workgraph/link", RELATED))),
    Case("workgraph/unlink", "not_found", RELATED, {"kind": "edge", "edge": RELATED}, (ITEM, OTHER)),
    Case("workgraph/unlink", "not_found", {**RELATED, "to_id": "work_none"},
         {"kind": "edge", "edge": {**RELATED, "to_id": "work_none"}}, (ITEM,)),
    Case("workgraph/unlink", "op_conflict", {**RELATED, "op_id": "op"}, CONFLICT, (ITEM, OTHER, USED)),
    Case("workgraph/events", "cursor_expired", {"after_seq": 1}, {"floor": AtLeast(2), "head": AtLeast(3)},
         (ITEM, ("", "ledger/prune", {"what": "events", "before": FUTURE, "limit": 2}))),
    Case("workgraph/events", "cursor_ahead", {"after_seq": 999_999}, {"head": AtLeast(1)}),
]  # fmt: skip

CASES = [*ITEMS, *CLAIMS, *EDGES]
