"""The life of a binding, cell by cell (contract workgraph 3.2), eligibility and arbitration."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.attention import OCCUPYING, BindingState
from interlock.lifecycle.binding import FINAL, Input, Move, arbitrated, eligible, move

ACTIVE_TABLE = {
    "pause": Move("paused"),
    "resume": Move(reason="binding_active"),
    "reassign": Move("superseded"),
    "stop": Move("stopped"),
    "item_closed": Move("stopped"),
    "rekey": Move("active"),
    "elapse": Move(),
}
PAUSED_TABLE = {
    "pause": Move("paused"),
    "resume": Move("active"),
    "reassign": Move("superseded"),
    "stop": Move("stopped"),
    "item_closed": Move("stopped"),
    "rekey": Move("paused"),
    "elapse": Move("active"),
}
TERMINAL_TABLE = {
    "pause": Move(reason="binding_terminal"),
    "resume": Move(reason="binding_terminal"),
    "reassign": Move(reason="binding_terminal"),
    "stop": Move(reason="binding_terminal"),
    "item_closed": Move(),
    "rekey": Move(),
    "elapse": Move(),
}
TABLE = {"active": ACTIVE_TABLE, "paused": PAUSED_TABLE, "superseded": TERMINAL_TABLE, "stopped": TERMINAL_TABLE}


@pytest.mark.parametrize("state", get_args(BindingState))
@pytest.mark.parametrize("what", get_args(Input))
def test_every_cell_of_the_table_holds(state: BindingState, what: Input) -> None:
    assert move(state, what) == TABLE[state][what]


def test_what_does_not_occupy_is_final() -> None:
    assert set(get_args(BindingState)) - FINAL == OCCUPYING


@pytest.mark.parametrize(
    ("state", "until", "expected"),
    [
        ("active", None, True),
        ("paused", None, False),
        ("paused", 99, True),
        ("paused", 100, True),
        ("paused", 101, False),
        ("superseded", None, False),
        ("stopped", None, False),
    ],
)
def test_a_binding_is_eligible_while_active_or_once_its_pause_is_over(
    state: BindingState, until: int | None, expected: bool
) -> None:
    assert eligible(state, until, 100) is expected


class Seat(NamedTuple):
    """A binding, as arbitration sees it."""

    created_at: int
    binding_id: str


@given(st.lists(st.builds(Seat, st.integers(0, 3), st.sampled_from("abcd")), unique=True))
def test_the_newest_wins_and_of_two_as_new_the_larger_id(seats: list[Seat]) -> None:
    order = arbitrated(seats)
    assert sorted(order) == sorted(seats)
    assert all((a.created_at, a.binding_id) > (b.created_at, b.binding_id) for a, b in pairwise(order))
