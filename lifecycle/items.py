"""The life of an item of work: which inputs are admitted in which phase, and where they lead (contract workgraph 3.1).

The conditions of an input itself (readiness, policy, children) are judged after.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from .work import TERMINAL, Status

Phase = Literal["open", "live", "elapsed", "blocked", "terminal"]
"""A status at an instant: a claim is live or elapsed."""
Input = Literal[
    "update", "escalate", "claim", "renew", "release", "block", "unblock", "close", "confirm", "evidence", "bind"
]
To = Literal["open", "in_progress", "blocked", "terminal", "same"]


class Step(NamedTuple):
    """What an input does: the status it leads to, or its refusal: a code and, of `invalid_transition`, a reason."""

    to: To | None = None
    code: str | None = None
    reason: str | None = None


def _refused(reason: str) -> Step:
    return Step(code="invalid_transition", reason=reason)


SAME: Final = Step("same")
STALE: Final = Step(code="stale_lease")
CLAIMED: Final = Step(code="already_claimed")
OVER: Final = _refused("terminal")

_OPEN: Final[dict[Input, Step]] = {
    "update": SAME,
    "escalate": SAME,
    "claim": Step("in_progress"),
    "renew": STALE,
    "release": _refused("not_claimed"),
    "block": Step("blocked"),
    "unblock": _refused("not_blocked"),
    "close": Step("terminal"),
    "confirm": SAME,
    "evidence": SAME,
    "bind": SAME,
}

TRANSITIONS: Final[dict[Phase, dict[Input, Step]]] = {
    "open": _OPEN,
    "live": {**_OPEN, "claim": CLAIMED, "renew": Step("in_progress"), "release": Step("open")},
    "elapsed": _OPEN,
    "blocked": {**_OPEN, "claim": _refused("blocked"), "unblock": Step("open")},
    "terminal": {**dict.fromkeys(_OPEN, OVER), "renew": STALE, "evidence": SAME},
}
"""From phase and input to the step. An elapsed claim is recorded first, then the item is open."""


def phase_of(status: Status, claimed: bool, lease_expires_at: int | None, now: int) -> Phase:
    """The phase at `now`, ms. A claim without a lease never elapses."""
    if status == "in_progress":
        return "live" if claimed and (lease_expires_at is None or lease_expires_at > now) else "elapsed"
    if status in TERMINAL:
        return "terminal"
    return "blocked" if status == "blocked" else "open"


def step(phase: Phase, given: Input) -> Step:
    """What an input does in a phase."""
    return TRANSITIONS[phase][given]
