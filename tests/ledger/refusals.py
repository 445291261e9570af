"""Every refusal that a method of the daemon and of delivery can answer, with what brings it about and its data.

A case is one row: method and code, who calls, what is done before, the params, and what `data` must say.
`test_refusals` plays each through the wire and compares the pairs with the declarations, in both directions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Call = tuple[str, dict[str, Any]]
ROLES = ("a", "b")
PAST, FUTURE = "2001-01-01T00:00:00Z", "2999-01-01T00:00:00Z"
TEXT = {"text": "text"}


class Case(NamedTuple):
    """`before` is done by the operator, then `params` come from a connection attached to `attached`."""

    method: str
    code: str
    params: dict[str, Any]
    data: dict[str, Any]
    before: tuple[Call, ...] = ()
    attached: tuple[str, ...] = ()
    retryable: bool = False


def _note(to: str = "b", **more: Any) -> dict[str, Any]:
    return {"kind": "note", "to": to, "body": TEXT, **more}


def _task(**causality: Any) -> dict[str, Any]:
    return {"kind": "task", "to": "b", "body": TEXT, "causality": causality}


def _send(**more: Any) -> Call:
    return ("ledger/send", _note(msg_id="m", **more))


ACKED = (_send(), ("ledger/ack", {"msg_id": "m"}))
REJECTED = (_send(), ("ledger/reject", {"msg_id": "m"}))
EVENT: Call = ("ledger/events/publish", {"type": "handoff", "role": "b"})
PRUNED = (EVENT, EVENT, ("ledger/prune", {"what": "events", "before": FUTURE, "limit": 2}))
PUBLISHED = ("ledger/events/publish", {"type": "handoff", "role": "b", "op_id": "op"})
CLOSED = (
    ("ledger/fault/record", {"kind": "k", "reason": "r", "task_id": "T"}),
    ("ledger/fault/move", {"task_id": "T", "state": "closed"}),
)
NO_ROLE = {"kind": "role", "near": ["b"]}
NO_MESSAGE = {"kind": "message"}
CONFLICT = {"method": "ledger/events/publish"}
PAGE = {"path": "/limit", "max": 500}


def _of_rows(verb: str, to: str, state: tuple[Call, ...], was: str) -> list[Case]:
    """What every verb about one message refuses."""
    method = f"ledger/{verb}"
    return [
        Case(method, "not_found", {"msg_id": "nothing"}, NO_MESSAGE),
        Case(method, "not_owner", {"msg_id": "m"}, {"role": "b"}, (_send(),), ("a",)),
        Case(method, "invalid_transition", {"msg_id": "m"}, {"msg_id": "m", "from": was, "to": to}, state),
    ]


SEND = [
    Case("ledger/send", "not_owner", _note(**{"from": "b"}), {"role": "b", "path": "/from"}, (), ("a",)),
    Case("ledger/send", "not_owner", {"kind": "control", "to": "b", "control": {"op": "cancel", "task_id": "T"}},
         {"role": "a"}, (), ("a",)),
    Case("ledger/send", "not_found", _note("bb"), {**NO_ROLE, "path": "/to"}),
    Case("ledger/send", "not_found", _note(**{"from": "bb"}), {**NO_ROLE, "path": "/from"}),
    Case("ledger/send", "op_conflict", _note(op_id="op"), CONFLICT, (PUBLISHED,)),
    Case("ledger/send", "duplicate", _note(msg_id="m"), {"msg_id": "m", "state": "acked"}, ACKED),
    Case("ledger/send", "sender_not_allowed", _note(), {"role": "b", "sender": "a"},
         (("ledger/role/upsert", {"name": "b", "allowed_senders": []}),), ("a",)),
    Case("ledger/send", "hop_budget_exhausted", _task(task="T", hop=2, hop_budget=1),
         {"hop": 2, "hop_budget": 1, "family": "T"}),
    Case("ledger/send", "deadline_passed", _task(task="T", deadline=PAST), {"family": "T"}),
    Case("ledger/send", "recipient_offline", _note(), {"role": "b"},
         (("ledger/role/upsert", {"name": "b", "note_queue": False}),), (), True),
    Case("ledger/send", "limit_out_of_range", _note(ttl_ms=0), {"path": "/ttl_ms", "min": 1}),
]  # fmt: skip
READS = [
    Case("ledger/get", "not_found", {"msg_id": "nothing"}, NO_MESSAGE),
    Case("ledger/query", "limit_out_of_range", {"limit": 501}, PAGE),
    Case("ledger/task", "not_found", {"task": "nothing"}, {"kind": "task"}),
    Case("ledger/task", "limit_out_of_range", {"task": "T", "limit": 501}, PAGE),
    Case("ledger/depth", "not_found", {"role": "bb"}, NO_ROLE),
    Case("ledger/depth", "limit_out_of_range", {"limit": 501}, PAGE),
    Case("ledger/role/list", "limit_out_of_range", {"limit": 501}, PAGE),
    Case("ledger/fault/list", "limit_out_of_range", {"limit": 501}, PAGE),
]
DELIVERY = [
    Case("ledger/attach", "not_found", {"role": "bb"}, NO_ROLE),
    Case("ledger/pull", "not_found", {"role": "bb"}, NO_ROLE),
    Case("ledger/pull", "not_owner", {"role": "b"}, {"role": "b"}, (), ("a",)),
    Case("ledger/pull", "limit_out_of_range", {"role": "b", "limit": 101}, {"path": "/limit", "max": 100}),
    Case("ledger/pull", "limit_out_of_range", {"role": "b", "wait_ms": 60_001}, {"path": "/wait_ms", "max": 60_000}),
    *_of_rows("ack", "acked", REJECTED, "rejected"),
    *_of_rows("reject", "rejected", ACKED, "acked"),
    *_of_rows("surfaced", "surfaced", ACKED, "acked"),
    *_of_rows("requeue", "queued", ACKED, "acked"),
    Case("ledger/requeue", "op_conflict", {"msg_id": "m", "op_id": "op"}, CONFLICT, (PUBLISHED,)),
    *_of_rows("expire", "expired", ACKED, "acked"),
    Case("ledger/expire", "not_found", {"role": "bb", "before": PAST}, {**NO_ROLE, "path": "/role"}),
    Case("ledger/expire", "not_owner", {"role": "b", "before": PAST}, {"role": "b"}, (), ("a",)),
    Case("ledger/expire", "limit_out_of_range", {"role": "b", "before": PAST, "limit": 501}, PAGE),
    Case("ledger/fail", "not_admin", {"msg_id": "m", "reason": "r"}, {}, (_send(),), ("b",)),
    Case("ledger/fail", "not_found", {"msg_id": "nothing", "reason": "r"}, NO_MESSAGE),
    Case("ledger/fail", "invalid_transition", {"msg_id": "m", "reason": "r"},
         {"msg_id": "m", "from": "acked", "to": "rejected"}, ACKED),
    Case("ledger/prune", "not_admin", {"before": PAST}, {}, (), ("b",)),
    Case("ledger/prune", "limit_out_of_range", {"before": PAST, "limit": 10_001}, {"path": "/limit", "max": 10_000}),
]  # fmt: skip
ROLES_AND_FAULTS = [
    Case("ledger/role/upsert", "not_admin", {"name": "c"}, {}, (), ("b",)),
    Case("ledger/role/sync", "not_admin", {"roles": []}, {}, (), ("b",)),
    Case("ledger/role/sync", "in_use", {"roles": []},
         {"roles": [{"name": "b", "queued": 1, "in_flight": 0, "connections": 0}]}, (_send(),)),
    Case("ledger/fault/record", "not_owner", {"kind": "k", "reason": "r", "role": "b"}, {"role": "b"}, (), ("a",)),
    Case("ledger/fault/record", "not_found", {"kind": "k", "reason": "r", "role": "bb"}, {**NO_ROLE, "path": "/role"}),
    Case("ledger/fault/record", "op_conflict", {"kind": "k", "reason": "r", "role": "b", "op_id": "op"}, CONFLICT,
         (PUBLISHED,)),
    Case("ledger/fault/ack", "not_admin", {"fault_id": "f"}, {}, (), ("b",)),
    Case("ledger/fault/ack", "not_found", {"fault_id": "f"}, {"kind": "fault"}),
    Case("ledger/fault/ack", "invalid_transition", {"fault_id": "<fault>"}, {"from": "closed", "to": "acked"}, CLOSED),
    Case("ledger/fault/move", "not_admin", {"task_id": "T", "state": "closed"}, {}, (), ("b",)),
]  # fmt: skip
FEED = [
    *(
        Case(method, code, params, data, before)
        for method in ("ledger/events/since", "ledger/events/subscribe")
        for code, params, data, before in (
            ("cursor_expired", {"after_seq": 1}, {"floor": 2, "head": 6}, PRUNED),
            ("cursor_ahead", {"after_seq": 99}, {"head": 3}, ()),
        )
    ),
    Case("ledger/events/since", "limit_out_of_range", {"limit": 501}, PAGE),
    Case("ledger/events/subscribe", "at_capacity", {}, {}, (("ledger/events/subscribe", {}),) * 64),
    Case("ledger/events/unsubscribe", "not_found", {"subscription": "none"}, {"kind": "subscription"}),
    Case("ledger/events/publish", "not_found", {"type": "handoff", "role": "bb"}, {**NO_ROLE, "path": "/role"}),
    Case("ledger/events/publish", "not_owner", {"type": "handoff", "role": "b"}, {"role": "b"}, (), ("a",)),
    Case("ledger/events/publish", "op_conflict", {"type": "handoff", "role": "a", "op_id": "op"}, CONFLICT,
         (PUBLISHED,)),
    Case("ledger/cursor/get", "not_found", {"kind": "inbox", "name": "bb"}, {**NO_ROLE, "path": "/name"}),
    Case("ledger/cursor/get", "not_found", {"kind": "hook", "name": "b"}, {"kind": "hook"}),
    Case("ledger/cursor/set", "not_found", {"kind": "inbox", "name": "bb", "seq": 0}, {**NO_ROLE, "path": "/name"}),
    Case("ledger/cursor/set", "not_found", {"kind": "hook", "name": "b", "seq": 0}, {"kind": "hook"}),
    Case("ledger/cursor/set", "not_owner", {"kind": "inbox", "name": "b", "seq": 0}, {"role": "b"}, (), ("a",)),
    Case("ledger/cursor/set", "not_admin", {"kind": "hook", "name": "b", "seq": 0}, {}, (), ("b",)),
    Case("ledger/cursor/set", "cursor_ahead", {"kind": "inbox", "name": "b", "seq": 99}, {"head": 3}),
]  # fmt: skip
MAIL = {"mail": {"role": "b"}}
SESSION = "0199c3a2-7c11-7d4e-8a51-3f1d2b6c9e07"
GOAL = {"title": "t", "target": {"kind": "session", "session_id": SESSION}}
GATED = {"steps": [{"method": "workgraph/goal/create", "params": GOAL}]}
PROCESS = [
    Case("daemon/backup", "not_admin", {"path": "/nowhere"}, {}, (), ("b",)),
    Case("daemon/backup", "store_failed", {"path": "<free>"}, {}, (("<spoil>", {}),)),
    Case("daemon/shutdown", "not_admin", {}, {}, (), ("b",)),
    Case("daemon/shutdown", "limit_out_of_range", {"drain_ms": 60_001}, {"path": "/drain_ms", "max": 60_000}),
    Case("daemon/wait", "not_found", {"filter": {"mail": {"role": "bb"}}}, {**NO_ROLE, "path": "/filter/mail/role"}),
    Case("daemon/wait", "cursor_expired", {"filter": {"events": {}}, "after_seq": 1}, {"floor": 2, "head": 6}, PRUNED),
    Case("daemon/wait", "cursor_ahead", {"filter": {"events": {}}, "after_seq": 99}, {"head": 3}),
    Case("daemon/wait", "limit_out_of_range", {"filter": MAIL, "timeout_ms": 60_001},
         {"path": "/timeout_ms", "max": 60_000}),
    Case("daemon/batch", "op_conflict", {"steps": [{"method": EVENT[0], "params": EVENT[1]}], "op_id": "op"}, CONFLICT,
         (PUBLISHED,)),
    Case("daemon/batch", "admission_lock_timeout", GATED, {"step": None}, (), (), True),
    Case("daemon/batch", "unavailable", GATED, {"session_id": SESSION, "step": None}),
    *(
        Case(method, "at_capacity", params, {}, (("<wait>", {}),) * 128, (), True)
        for method, params in (
            ("ledger/pull", {"role": "b", "wait_ms": 1}),
            ("daemon/wait", {"filter": MAIL, "timeout_ms": 1}),
        )
    ),
]  # fmt: skip

CASES = [*SEND, *READS, *DELIVERY, *ROLES_AND_FAULTS, *FEED, *PROCESS]

NOT_YET = {
    ("ledger/cursor/set", "invalid_transition"): "of a hook's cursor, and hooks come with the rest of the ledger",
}
"""Declared, and not to be provoked before the thing that it is about exists."""
