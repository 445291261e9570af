"""The table of item states against an independent list: contract workgraph 3.1, cell by cell."""

from __future__ import annotations

from typing import get_args

import pytest

from interlock.lifecycle import items
from interlock.lifecycle.items import Input, Phase
from interlock.lifecycle.work import Status

INPUTS = ("update", "escalate", "claim", "renew", "release", "block", "unblock", "close", "confirm", "evidence", "bind")
# The columns of the contract, in the order of INPUTS; a refusal is its reason, or its code where it has none.
CELLS = {
    "open": "same same in_progress stale_lease not_claimed blocked not_blocked terminal same same same",
    "live": "same same already_claimed in_progress open blocked not_blocked terminal same same same",
    "elapsed": "same same in_progress stale_lease not_claimed blocked not_blocked terminal same same same",
    "blocked": "same same !blocked stale_lease not_claimed blocked open terminal same same same",
    "terminal": "!terminal !terminal !terminal stale_lease !terminal !terminal !terminal !terminal !terminal same"
    " !terminal",
}
TRANSITIONS = [
    (phase, given, cell) for phase, line in CELLS.items() for given, cell in zip(INPUTS, line.split(), strict=True)
]


def shown(step: items.Step) -> str:
    """A step as the list above spells it: what could be either a status or a reason is marked."""
    if step.to is not None:
        return step.to
    if step.reason is None:
        return str(step.code)
    return f"!{step.reason}" if step.reason in ("blocked", "terminal") else step.reason


def test_the_list_names_every_phase_and_every_input() -> None:
    assert set(CELLS) == set(get_args(Phase)) == set(items.TRANSITIONS)
    assert set(INPUTS) == set(get_args(Input))
    assert all(set(row) == set(INPUTS) for row in items.TRANSITIONS.values())


@pytest.mark.parametrize(("phase", "given", "cell"), TRANSITIONS)
def test_each_cell_is_the_contracts(phase: Phase, given: Input, cell: str) -> None:
    assert shown(items.step(phase, given)) == cell


@pytest.mark.parametrize(
    ("status", "lease", "phase"),
    [
        ("open", None, "open"),
        ("blocked", None, "blocked"),
        ("in_progress", None, "live"),
        ("in_progress", 101, "live"),
        ("in_progress", 100, "elapsed"),
        ("in_progress", 99, "elapsed"),
        ("completed", None, "terminal"),
        ("cancelled", None, "terminal"),
        ("failed", None, "terminal"),
    ],
)
def test_a_claim_is_live_until_the_very_millisecond_of_its_end(status: Status, lease: int | None, phase: Phase) -> None:
    assert items.phase_of(status, status == "in_progress", lease, 100) == phase
