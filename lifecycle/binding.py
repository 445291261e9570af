"""The life of an attention binding: which moves exist, when it is eligible, which of several wins (contract workgraph
1, 3.2, 5.4).

All that decides a binding's state is here. No clock, no store: instants are integer milliseconds, given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, Protocol, TypeVar

from .attention import BindingState

Input = Literal["pause", "resume", "reassign", "stop", "item_closed", "rekey", "elapse"]

TRANSITIONS: Final[Mapping[BindingState, Mapping[Input, BindingState]]] = {
    "active": {
        "pause": "paused",
        "reassign": "superseded",
        "stop": "stopped",
        "item_closed": "stopped",
        "rekey": "active",
    },
    "paused": {
        "pause": "paused",
        "resume": "active",
        "reassign": "superseded",
        "stop": "stopped",
        "item_closed": "stopped",
        "rekey": "paused",
        "elapse": "active",
    },
    "superseded": {},
    "stopped": {},
}
"""From state and input to state. `elapse` is the sweep, of a pause whose deadline has passed."""

FINAL: Final = frozenset(state for state, after in TRANSITIONS.items() if not after)
"""Only these does `attention/prune` delete."""

REFUSED: Final[Mapping[BindingState, Mapping[Input, str]]] = {
    "active": {"resume": "binding_active"},
    "paused": {},
    "superseded": dict.fromkeys(("pause", "resume", "reassign", "stop"), "binding_terminal"),
    "stopped": dict.fromkeys(("pause", "resume", "reassign", "stop"), "binding_terminal"),
}
"""Why a caller's input is refused. What is in neither table happens to nobody: the store does not look there."""


class Move(NamedTuple):
    """What an input does to a state: it moves to `state`, it is refused for `reason`, or (neither) nothing happens."""

    state: BindingState | None = None
    reason: str | None = None


def move(state: BindingState, what: Input) -> Move:
    """One cell of table 3.2."""
    return Move(TRANSITIONS[state].get(what), REFUSED[state].get(what))


def eligible(state: BindingState, until: int | None, now: int) -> bool:
    """Whether a binding is to be attended to now: active, or paused with a deadline that has passed."""
    return state == "active" or (state == "paused" and until is not None and until <= now)


class Arbitrated(Protocol):
    """What arbitration looks at."""

    @property
    def created_at(self) -> int:
        """In ms since 1970."""

    @property
    def binding_id(self) -> str:
        """Ascending where `created_at` is equal."""


B = TypeVar("B", bound=Arbitrated)


def arbitrated(bindings: Iterable[B]) -> list[B]:
    """The winner first: the newest `created_at`, then the larger id."""
    return sorted(bindings, key=lambda binding: (binding.created_at, binding.binding_id), reverse=True)
