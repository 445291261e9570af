"""When an item may be begun: what holds it back, and how its children stand (contract workgraph 4).

Instants are integer milliseconds, given.
"""

from __future__ import annotations

from typing import Final, Literal

from .work import TERMINAL, JoinPolicy, JoinState, OnFailure, Status

NEVER: Final = 2**63 - 1
"""An instant after every other: where an item without a deadline stands in the order."""

READY: Final = 1
GATED: Final = 2
NEITHER: Final = 0
Stage = Literal[0, 1, 2]
"""Where an item stands in the queues as last recorded: ready, behind a future gate, in neither."""

PRIORITIES: Final = ("high", "medium", "low")
"""In the order of urgency: the place of a priority is how it is stored."""

SETTLES: Final[dict[JoinState, Literal["failed", "cancelled"]]] = {
    "propagate_failure": "failed",
    "propagate_cancellation": "cancelled",
}
"""How a claim closes a parent whose children decide for it."""

MovedBy = Literal[
    "created",
    "blocker_closed",
    "child_closed",
    "unlinked",
    "waived",
    "unblocked",
    "released",
    "lease_expired",
    "updated",
    "gate_opened",
]
"""What made an item ready."""


def join_state(active: int, failed: int, cancelled: int, on_failed: JoinPolicy, on_cancelled: JoinPolicy) -> JoinState:
    """What an item's children say of it: the first rule that applies."""
    if active:
        return "waiting"
    if failed and on_failed == "propagate":
        return "propagate_failure"
    if cancelled and on_cancelled == "propagate":
        return "propagate_cancellation"
    if failed and on_failed == "require_success":
        return "waiting"
    if cancelled and on_cancelled == "require_success":
        return "waiting"
    return "satisfied"


def holds_back(blocker: Status, on_failure: OnFailure) -> bool:
    """Whether a `blocks` edge from an item in this status counts."""
    if blocker == "completed":
        return False
    return not (blocker in TERMINAL and on_failure == "release")


def gate_at(not_before: int | None, snoozed_until: int | None) -> int | None:
    """When both start gates are open; None where there is none."""
    gates = [gate for gate in (not_before, snoozed_until) if gate is not None]
    return max(gates, default=None)


def is_clear(unresolved_blockers: int, join: JoinState) -> bool:
    """Whether no other item is in the way."""
    return unresolved_blockers == 0 and join == "satisfied"


def is_open(gate: int | None, now: int) -> bool:
    """Whether a gate lets through at `now`."""
    return gate is None or gate <= now


def stage(status: Status, unresolved_blockers: int, join: JoinState, gate: int | None, now: int) -> Stage:
    """The queue in which an item belongs that is written at `now`."""
    if status != "open" or not is_clear(unresolved_blockers, join):
        return NEITHER
    return READY if is_open(gate, now) else GATED


def is_ready(phase: str, unresolved_blockers: int, join: JoinState, gate: int | None, now: int) -> bool:
    """The verdict at `now`; `phase` is `lifecycle.items.phase_of`."""
    return phase in ("open", "elapsed") and is_clear(unresolved_blockers, join) and is_open(gate, now)
