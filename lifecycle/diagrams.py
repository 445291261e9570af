"""`docs/states.md`: the state machines as diagrams and tables, drawn from the tables that the daemon decides with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, get_args

from . import binding, delivery, items
from .attention import BindingState
from .mail import MailState

Causes = Mapping[tuple[str, str], str]

MAIL: Final[Mapping[tuple[MailState, MailState], str]] = {
    ("queued", "in_flight"): "pull, attach with holds",
    ("queued", "rejected"): "reject, fail",
    ("queued", "expired"): "expire, its time is over",
    ("in_flight", "queued"): "requeue, its holder is gone",
    ("in_flight", "acked"): "ack",
    ("in_flight", "rejected"): "reject, fail, put back too often, task settled",
    ("in_flight", "expired"): "expire, its time is over",
}
"""What makes each move: methods of `ledger/`, and what the daemon does by itself (contract ledger 2.2 to 2.4)."""

INPUTS: Final[Mapping[binding.Input, str]] = {
    "pause": "pause",
    "resume": "resume",
    "reassign": "reassign",
    "stop": "stop",
    "item_closed": "its item is closed",
    "rekey": "its session becomes a member's",
    "elapse": "its pause is over",
}
"""The inputs of a binding in words."""

PHASES: Final[Mapping[items.Phase, str]] = {
    "open": "open",
    "live": "in_progress",
    "elapsed": "in_progress, its lease elapsed",
    "blocked": "blocked",
    "terminal": "completed, cancelled, failed",
}
"""The phases of an item in words."""

_HEAD: Final = """\
# States

<!-- Written by scripts/docs from the tables in lifecycle/. Change those, not this. -->

## A message

Stored is `queued`. Every arrow is one transaction that also writes one `ledger_state` event, so the feed, folded, gives
the table. What has no arrow is refused with `invalid_transition`, and nothing changes. To ask for what already holds is
answered with `changed: false`. An ack of a queued message takes two arrows in one transaction.
"""
_ITEM: Final = """\

## An item of work

Created it is `open` or `blocked`. A cell is the status that a method leads to, or the code of its refusal; `same` keeps
the status. `claim` asks beside that the item is ready, `close` as completed that its policy is satisfied. An elapsed
lease is recorded first, by whichever comes first: the next method that touches the item, or the sweeper.
"""
_BINDING: Final = """\

## An attention binding

Created it is `active`. Active or paused it occupies its target. What has no arrow is refused with
`invalid_transition`.
"""


def states() -> str:
    """The text of `docs/states.md`, in Markdown with Mermaid diagrams."""
    return "".join((_HEAD, _mail(), _ITEM, _items(), _BINDING, _bindings()))


def _mail() -> str:
    edges = [(state, to) for state, after in delivery.TRANSITIONS.items() for to in delivery.TRANSITIONS if to in after]
    causes: Causes = {(state, to): MAIL[state, to] for state, to in edges}
    final = [state for state in delivery.TRANSITIONS if state in delivery.FINAL]
    return _diagram("queued", "send", causes, final) + _moves(causes)


def _bindings() -> str:
    found: dict[tuple[str, str], list[str]] = {}
    for state, after in binding.TRANSITIONS.items():
        for given, to in after.items():
            found.setdefault((state, to), []).append(INPUTS[given])
    causes = {edge: ", ".join(words) for edge, words in found.items()}
    final = [state for state in get_args(BindingState) if state in binding.FINAL]
    return _diagram("active", "goal/create", causes, final) + _moves(causes)


def _items() -> str:
    inputs = get_args(items.Input)
    rows = [[PHASES[phase], *(_cell(items.step(phase, given)) for given in inputs)] for phase in get_args(items.Phase)]
    found: dict[tuple[str, str], list[str]] = {}
    for phase in ("open", "live", "blocked"):
        for given in inputs:
            to = items.TRANSITIONS[phase][given].to
            if to not in (None, "same", PHASES[phase]):
                found.setdefault((PHASES[phase], str(to)), []).append(given)
    causes = {edge: ", ".join(words) for edge, words in found.items()} | {("in_progress", "open"): "release, elapse"}
    return _diagram("open", "create", causes, ["terminal"]) + _table(["", *inputs], rows)


def _cell(step: items.Step) -> str:
    return f"`{step.to}`" if step.to is not None else step.reason or str(step.code)


def _diagram(first: str, made_by: str, causes: Causes, final: Sequence[str]) -> str:
    lines = ["stateDiagram-v2", f"    [*] --> {first}: {made_by}"]
    lines += [f"    {state} --> {to}: {cause}" for (state, to), cause in causes.items()]
    lines += [f"    {state} --> [*]" for state in final]
    return "\n".join(["", "```mermaid", *lines, "```", ""])


def _moves(causes: Causes) -> str:
    return _table(["from", "to", "by"], [[f"`{state}`", f"`{to}`", cause] for (state, to), cause in causes.items()])


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]
    return "\n".join(["", *lines, ""])
