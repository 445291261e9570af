"""`docs/states.md`: the state machines as diagrams, drawn from the tables that the daemon decides with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .delivery import FINAL, TRANSITIONS
from .mail import MailState

CAUSES: Final[Mapping[tuple[MailState, MailState], str]] = {
    ("queued", "in_flight"): "pull, attach with holds",
    ("queued", "rejected"): "reject, fail",
    ("queued", "expired"): "expire, its time is over",
    ("in_flight", "queued"): "requeue, its holder is gone",
    ("in_flight", "acked"): "ack",
    ("in_flight", "rejected"): "reject, fail, put back too often, task settled",
    ("in_flight", "expired"): "expire, its time is over",
}
"""What makes each move: methods of `ledger/`, and what the daemon does by itself (contract ledger 2.2 to 2.4)."""

_HEAD: Final = """\
# States

<!-- Written by scripts/docs from lifecycle/delivery.py and lifecycle/diagrams.py. Change those, not this. -->

## A message

Stored is `queued`. Every arrow is one transaction that also writes one `ledger_state` event, so the feed, folded, gives
the table. What has no arrow is refused with `invalid_transition`, and nothing changes. To ask for what already holds is
answered with `changed: false`. An ack of a queued message takes two arrows in one transaction.
"""


def states() -> str:
    """The text of `docs/states.md`, in Markdown with a Mermaid diagram."""
    edges = [(state, to) for state, after in TRANSITIONS.items() for to in TRANSITIONS if to in after]
    lines = ["stateDiagram-v2", "    [*] --> queued: send"]
    lines += [f"    {state} --> {to}: {CAUSES[state, to]}" for state, to in edges]
    lines += [f"    {state} --> [*]" for state in TRANSITIONS if state in FINAL]
    rows = [f"| `{state}` | `{to}` | {CAUSES[state, to]} |" for state, to in edges]
    table = ["| from | to | by |", "| --- | --- | --- |", *rows]
    return "\n".join([_HEAD, "```mermaid", *lines, "```", "", *table, ""])
