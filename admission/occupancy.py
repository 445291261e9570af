"""Who is in the way: of a scope one binding, active or paused, holds a target (contract workgraph 5.2). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from interlock.lifecycle.attention import Occupant
from interlock.lifecycle.binding import arbitrated
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.times import rfc3339

Wish = Literal["create the goal", "resume this one", "reassign to it"]
"""What the refused caller wanted, as the last words of the remedy."""

REMEDIES: Final = {
    "active": "attention/reassign it",
    "paused": "attention/resume it",
}
"""What can be done with an occupant, beside closing its goal."""


class Seat(NamedTuple):
    """A binding that occupies: what arbitration and the refusal need of it."""

    binding_id: str
    status: Literal["active", "paused"]
    item_id: str
    target_key: str
    paused_until: int | None
    created_at: int


def occupied(key: str, seats: Iterable[Seat], wish: Wish) -> Refusal | None:
    """The refusal of a candidate for `key`, naming the occupant that wins arbitration; None where the key is free."""
    for winner in arbitrated(seats)[:1]:
        return Refusal(
            "occupied",
            f"{key} is taken: {winner.binding_id} ({winner.status}) attends to {winner.item_id} for it",
            target_key=key,
            occupant=Occupant(
                binding_id=winner.binding_id,
                status=winner.status,
                item_id=winner.item_id,
                target_key=winner.target_key,
                paused_until=None if winner.paused_until is None else rfc3339(winner.paused_until),
            ),
            remedy=f"{REMEDIES[winner.status]} or close its goal (goal/request_close), then {wish}",
        )
    return None
