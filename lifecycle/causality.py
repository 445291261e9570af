"""Where a message stands in its run: what is derived at send, and the bounds of a family (contract ledger 2.6)."""

from __future__ import annotations

from typing import Final, NamedTuple

from .mail import Causality, MailKind
from .refusal import Refusal

HOP_MAX: Final = 2**63 - 1
"""The largest hop that can be said and stored; a child of it is as far away."""


class TaskFacts(NamedTuple):
    """What the first row of a task says about its place."""

    from_role: str
    family: str | None
    hop: int
    hop_budget: int | None
    deadline_at: int | None
    origin: str | None
    labels: dict[str, str] | None


class Place(NamedTuple):
    """The derived causality of a message; `deadline_at` in milliseconds."""

    task: str | None
    parent_task: str | None
    family: str | None
    hop: int
    attempt: int
    hop_budget: int | None
    deadline_at: int | None
    origin: str | None
    reply_to: str | None
    labels: dict[str, str] | None


def stricter(a: int | None, b: int | None) -> int | None:
    """The smaller of two bounds, where an absent one does not bind."""
    if a is None or b is None:
        return a if b is None else b
    return min(a, b)


def place(
    *,
    kind: MailKind,
    given: Causality,
    task: str | None,
    deadline_at: int | None,
    parent: TaskFacts | None,
    first: TaskFacts | None,
) -> Place:
    """Fill in what is derived. `parent` is the parent task's first row, `first` the own task's; None: not there."""
    family, hop, origin, labels = given.family, given.hop, given.origin, given.labels
    budget = given.hop_budget
    if kind == "task" and parent is not None:
        family, hop = parent.family, min(parent.hop + 1, HOP_MAX)
        budget = stricter(budget, parent.hop_budget)
        deadline_at = stricter(deadline_at, parent.deadline_at)
        origin = parent.origin if origin is None else origin
        labels = parent.labels if labels is None else labels
    elif kind == "task":
        family = task if family is None else family
    elif first is not None:
        family = first.family if family is None else family
        hop = first.hop if hop is None else hop
    return Place(
        task=task,
        parent_task=given.parent_task,
        family=family,
        hop=hop or 0,
        attempt=given.attempt or 0,
        hop_budget=budget,
        deadline_at=deadline_at,
        origin=origin,
        reply_to=given.reply_to,
        labels=labels,
    )


def check_bounds(derived: Place, now: int) -> None:
    """Refuse a task beyond the bounds of its family. Raises `hop_budget_exhausted` or `deadline_passed`."""
    if derived.hop_budget is not None and derived.hop > derived.hop_budget:
        raise Refusal(
            "hop_budget_exhausted",
            f"hop {derived.hop} is beyond the family's budget of {derived.hop_budget}",
            hop=derived.hop,
            hop_budget=derived.hop_budget,
            family=derived.family,
        )
    if derived.deadline_at is not None and derived.deadline_at <= now:
        raise Refusal("deadline_passed", "the deadline of this task's family is over", family=derived.family)
