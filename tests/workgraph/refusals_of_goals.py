"""The rest of the table of `refusals`: goals, attention and members."""

from __future__ import annotations

from typing import Any

from .common import target
from .refusals import (
    BY_SESSION,
    CHILD,
    CONFIRMED,
    CONFLICT,
    END,
    FUTURE,
    GOAL,
    HOST,
    ITEM,
    NO_BINDING,
    NONE,
    OTHER,
    OTHER_SESSION,
    PAUSE,
    SESSION,
    STALE,
    STOP,
    UNREAD,
    USED,
    WATCH,
    AtLeast,
    Case,
    Data,
    Says,
    Step,
    binding,
    binding_is,
    goal,
    item_is,
    lease,
)


def _taken(key: str = "owner:agent:g", name: str = "g", status: str = "active", **more: Any) -> Data:
    """What `occupied` says: whose the key is, and the way out."""
    about = {"binding_id": f"${name}/attention/binding_id", "status": status, "item_id": f"${name}/item/id"}
    way = "attention/reassign" if status == "active" else "attention/resume"
    return {
        "target_key": key,
        "occupant": {**about, "target_key": key, **more},
        "remedy": Says(way, "goal/request_close"),
    }


AIMED = {"title": "t", "target": target("g")}
BOUND = {"item_id": "$i/item/id", "expected_revision": 1, "target": target("late")}
FULL: Step = ("", "daemon/batch", {"steps": [
    {"method": "workgraph/goal/create", "params": {**BOUND, "target": target(f"t{n}")}} for n in range(64)
]})  # fmt: skip
SHUT = {"file": Says("workgraph.admission.sqlite3"), "waited_ms": AtLeast(30)}
CONFIRM, ASK = "workgraph/goal/confirm", "workgraph/goal/request_close"
OF_GOAL = {"id": "$g/item/id", "binding_id": "$g/attention/binding_id", "expected_revision": 1}


def _policy(kind: str, **more: Any) -> Data:
    return {"kind": kind, **more}


def _unconfirmed(policy: Data) -> Case:
    return Case(CONFIRM, "authority_missing", binding("g"),
                {"binding_id": "$g/attention/binding_id", "mode": "pursue", "capability": "trusted_principal",
                 "policy": policy, "remedy": Says("role")},
                (goal("g", completion_policy=policy),), True)  # fmt: skip


def _stale_item(method: str, **more: Any) -> Case:
    params = {**binding("g", 7), **more}
    about = {"kind": "item", "id": "$g/item/id", "expected_revision": 7, "current_revision": 1}
    return Case(method, "stale_revision", params, about, (GOAL,))


GOALS = [
    Case("workgraph/goal/create", "not_found", {**BOUND, "item_id": "work_none"}, NONE),
    Case("workgraph/goal/create", "stale_revision", {**BOUND, "expected_revision": 7}, STALE, (ITEM,)),
    Case("workgraph/goal/create", "invalid_transition", {**BOUND, "expected_revision": 2},
         {"reason": "terminal", **item_is("failed", 2)}, (ITEM, END)),
    Case("workgraph/goal/create", "invalid_transition", {**AIMED, "status": "failed"},
         {"reason": "create_status", "status": "failed"}),
    Case("workgraph/goal/create", "occupied", AIMED, _taken(), (GOAL,)),
    Case("workgraph/goal/create", "occupied", {**BOUND, "target": target("g")}, _taken(status="paused"),
         (ITEM, GOAL, PAUSE)),
    Case("workgraph/goal/create", "occupied", AIMED, _taken(status="paused", paused_until=FUTURE),
         (GOAL, ("", "workgraph/attention/pause", {**binding("g"), "until": FUTURE}))),
    Case("workgraph/goal/create", "at_capacity", BOUND, {"max": 64, "id": "$i/item/id"}, (ITEM, FULL)),
    Case("workgraph/goal/create", "admission_lock_timeout", AIMED, SHUT),
    Case("workgraph/goal/create", "unavailable", {"title": "t", "target": BY_SESSION}, UNREAD),
    Case("workgraph/goal/create", "op_conflict", {**AIMED, "op_id": "op"}, CONFLICT, (USED,)),
    Case("workgraph/goal/status", "not_found", {"binding_id": "attention_none"}, NO_BINDING),
    *(
        row
        for method in (CONFIRM, ASK)
        for row in (
            Case(method, "not_found", {"binding_id": "attention_none", "expected_revision": 1}, NO_BINDING),
            _stale_item(method),
            Case(method, "op_conflict", {**binding("g"), "op_id": "op"}, CONFLICT, (GOAL, USED)),
            Case(method, "invalid_transition", binding("g", 2),
                 {"reason": "terminal", **item_is("completed", 2, "g")}, (GOAL, ("", ASK, binding("g")))),
        )
    ),
    Case(CONFIRM, "invalid_transition", binding("g"),
         {"reason": "binding_not_eligible", **binding_is({"state": "paused"})}, (GOAL, PAUSE)),
    Case(CONFIRM, "not_admin", binding("g"), {}, (CONFIRMED,), True),
    _unconfirmed(_policy("principal_confirmed")),
    _unconfirmed(_policy("supervisor", owner_key={"kind": "agent", "id": "boss"})),
    *lease(ASK, binding("w", 2), (ITEM, WATCH)),
    Case(ASK, "invalid_transition", binding("g"),
         {"reason": "binding_terminal", **binding_is({"state": "stopped"})}, (GOAL, STOP)),
    Case(ASK, "invalid_transition", binding("w"),
         {"reason": "incomplete", **item_is("open"), "open_children": 1, "unresolved_blockers": 0},
         (ITEM, OTHER, CHILD, WATCH)),
    Case(ASK, "policy_unsatisfied", binding("g"), {"policy": HOST, "missing": Says("goal/confirm")}, (CONFIRMED,)),
    Case("workgraph/policy/escalate", "not_found", {**OF_GOAL, "completion_policy": HOST, "id": "work_none"}, NONE,
         (GOAL,)),
    Case("workgraph/policy/escalate", "not_found",
         {**OF_GOAL, "completion_policy": HOST, "binding_id": "attention_none"}, NO_BINDING, (GOAL,)),
    _stale_item("workgraph/policy/escalate", id="$g/item/id", completion_policy=HOST),
    Case("workgraph/policy/escalate", "op_conflict", {**OF_GOAL, "completion_policy": HOST, "op_id": "op"}, CONFLICT,
         (GOAL, USED)),
    Case("workgraph/policy/escalate", "invalid_transition",
         {**OF_GOAL, "completion_policy": HOST, "expected_revision": 2},
         {"reason": "terminal", **item_is("completed", 2, "g")}, (GOAL, ("", ASK, binding("g")))),
    Case("workgraph/policy/escalate", "invalid_transition", {**OF_GOAL, "completion_policy": HOST},
         {"reason": "binding_not_eligible", **binding_is({"state": "paused"})}, (GOAL, PAUSE)),
    Case("workgraph/policy/escalate", "invalid_transition", {**OF_GOAL, "completion_policy": HOST},
         {"reason": "not_an_escalation", **item_is("open", 1, "g")}, (CONFIRMED,)),
    Case("workgraph/policy/escalate", "authority_missing", {**OF_GOAL, "completion_policy": HOST},
         {"binding_id": "$g/attention/binding_id", "mode": "review", "capability": "can_update",
          "remedy": Says("mode")}, (goal("g", mode="review"),)),
]  # fmt: skip

PAUSE_IT, RESUME, REASSIGN, BREAK, STOP_IT = (
    f"workgraph/attention/{name}" for name in ("pause", "resume", "reassign", "break_glass_reassign", "stop")
)
MEMBER = {"kind": "identity", "identity": "anna"}
DUPLICATED: tuple[Step, ...] = (
    goal("s", target=BY_SESSION),
    ("", PAUSE_IT, binding("s")),
    goal("g", target=MEMBER),
    ("m", "workgraph/member/register", {"identity": "anna", "session_id": SESSION}),
)


def _of_binding(method: str, **more: Any) -> list[Case]:
    """What every write about a binding refuses."""
    params = {**binding("g"), **more}
    return [
        Case(method, "not_found", {**params, "binding_id": "attention_none"}, NO_BINDING),
        Case(method, "stale_revision", {**params, "expected_revision": 7},
             {"kind": "attention", "id": "$g/attention/binding_id", "expected_revision": 7, "current_revision": 1},
             (GOAL,)),
        Case(method, "invalid_transition", {**params, "expected_revision": 2},
             {"reason": "binding_terminal", **binding_is({"state": "stopped"})}, (GOAL, STOP)),
        Case(method, "op_conflict", {**params, "op_id": "op"}, CONFLICT, (GOAL, USED)),
    ]  # fmt: skip


def _moving(method: str, **more: Any) -> list[Case]:
    """What both ways refuse to give a binding to another target."""
    params = {**binding("c"), "target": target("g"), **more}
    loose = goal("c", mode="coordinate")
    return [
        *_of_binding(method, **{**more, "target": target("x")}),
        Case(method, "occupied", params, _taken(), (GOAL, loose)),
        Case(method, "occupied", {**params, "expected_revision": 1}, _taken(status="paused"), (GOAL, PAUSE, loose)),
        Case(method, "admission_lock_timeout", {**params, "target": target("x")}, SHUT, (loose,)),
        Case(method, "unavailable", {**params, "target": BY_SESSION}, UNREAD, (loose,)),
    ]


ATTENTION = [
    Case("workgraph/attention/list", "unavailable", {"target": BY_SESSION}, UNREAD),
    Case("workgraph/attention/get", "not_found", {"binding_id": "attention_none"}, NO_BINDING),
    Case("workgraph/attention/current", "unavailable", {"session_id": SESSION}, UNREAD),
    Case("workgraph/attention/projection", "not_found", {"binding_id": "attention_none"}, NO_BINDING),
    Case("workgraph/attention/projection", "invalid_transition", {"binding_id": "$g/attention/binding_id"},
         {"reason": "binding_not_eligible", **binding_is({"state": "paused"})}, (GOAL, PAUSE)),
    *_of_binding(PAUSE_IT),
    *_of_binding(STOP_IT),
    *_of_binding(RESUME),
    Case(RESUME, "invalid_transition", binding("g"),
         {"reason": "binding_active", **binding_is({"state": "active"}, revision=1)}, (GOAL,)),
    Case(RESUME, "occupied", binding("s", 2), _taken("$key"), DUPLICATED),
    Case(RESUME, "admission_lock_timeout", binding("g", 2), SHUT, (GOAL, PAUSE)),
    *_moving(REASSIGN),
    Case(REASSIGN, "authority_missing", {**binding("g"), "target": target("x")},
         {"binding_id": "$g/attention/binding_id", "mode": "pursue", "capability": "can_link_derived_from",
          "remedy": Says("attention/break_glass_reassign", "goal/create", "coordinate")}, (GOAL,)),
    *_moving(BREAK, reason="it hangs"),
    Case(BREAK, "not_admin", {**binding("g"), "target": target("x"), "reason": "it hangs"}, {}, (GOAL,), True),
    Case(BREAK, "authority_missing", {"binding_id": "attention_none", "expected_revision": 1, "target": target("x"),
                                      "reason": "it hangs"},
         {"capability": "trusted_principal", "remedy": Says("socket")}, (), False, "stdio"),
]  # fmt: skip

MEMBERS = [
    Case("workgraph/member/register", "duplicate", {"identity": "bert", "session_id": SESSION},
         {"member": "$m/member"},
         (("m", "workgraph/member/register", {"identity": "anna", "session_id": SESSION}),)),
    Case("workgraph/member/retire", "not_found", {"identity": "ana"},
         {"kind": "member", "id": Says("/agent/ana"), "near": [Says("anna")]},
         (("m", "workgraph/member/register", {"identity": "anna", "session_id": OTHER_SESSION}),)),
]  # fmt: skip

CASES = [*GOALS, *ATTENTION, *MEMBERS]
