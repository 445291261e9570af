"""The life of one message: which moves exist, and what happens when its holder is gone (contract ledger 2.2 to 2.4).

All that decides a message's state is here. No clock, no store: instants are integer milliseconds, given.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from .mail import MailKind, MailState

TRANSITIONS: Final[dict[MailState, frozenset[MailState]]] = {
    "queued": frozenset({"in_flight", "rejected", "expired"}),
    "in_flight": frozenset({"queued", "acked", "rejected", "expired"}),
    "acked": frozenset(),
    "rejected": frozenset(),
    "expired": frozenset(),
}
"""From state to the states it may move to. Final states are listed with nothing, so that they are visibly final."""

FINAL: Final = frozenset(state for state, after in TRANSITIONS.items() if not after)

Step = Literal["holds", "move", "through_in_flight", "refuse"]


def plan(state: MailState, to: MailState) -> Step:
    """What a caller's wish for `to` means in `state` (2.2): it holds already, it is one move, or it is refused.

    Only an ack of a queued row takes two moves: it passes through `in_flight`, so that the feed folds.
    """
    if state == to:
        return "holds"
    if to in TRANSITIONS[state]:
        return "move"
    if (state, to) == ("queued", "acked"):
        return "through_in_flight"
    return "refuse"


class RequeuePolicy(NamedTuple):
    """The settings `requeue_max_attempts` (0: no limit) and `requeue_ttl_secs` (0: off)."""

    max_attempts: int = 16
    ttl_secs: int = 0


class Release(NamedTuple):
    """Where a row goes whose holder is gone, why, and whether that is a fault."""

    state: MailState
    reason: str
    fault: bool = False


def release(
    *, kind: MailKind, settled_task: bool, enqueued_at: int, requeued: int, now: int, cause: str, policy: RequeuePolicy
) -> Release:
    """The automatic requeue gate: the first rule that applies (2.3)."""
    if kind == "task" and settled_task:
        return Release("rejected", "task_settled")
    if policy.ttl_secs > 0 and now - enqueued_at > policy.ttl_secs * 1000:
        return Release("expired", "requeue_ttl")
    if policy.max_attempts > 0 and requeued >= policy.max_attempts:
        return Release("rejected", "requeue_exhausted", fault=True)
    return Release("queued", cause)


def due_at(*, kind: MailKind, state: MailState, expires_at: int | None, deadline_at: int | None) -> int | None:
    """When the sweeper must expire the row in this state; None when nothing expires it (2.4).

    A note expires queued or in flight. A task's deadline counts only while it waits: who works on it decides. A
    completion never expires: it is the answer.
    """
    if state in FINAL:
        return None
    if kind == "note":
        return expires_at
    if kind == "task" and state == "queued":
        return deadline_at
    return None


def expiry_reason(kind: MailKind) -> str:
    """Why a due row expires."""
    return "deadline" if kind == "task" else "expired"
