"""The page of states shows every move that there is, and no other."""

from __future__ import annotations

import re

from interlock.lifecycle.delivery import FINAL, TRANSITIONS
from interlock.lifecycle.diagrams import CAUSES, states

EDGES = {(state, to) for state, after in TRANSITIONS.items() for to in after}


def test_every_move_has_its_cause_and_there_is_no_cause_without_a_move() -> None:
    assert set(CAUSES) == EDGES


def test_the_diagram_and_the_table_show_exactly_the_moves() -> None:
    text = states()
    assert set(re.findall(r"(?m)^    (\w+) --> (\w+): ", text)) == EDGES
    assert set(re.findall(r"(?m)^\| `(\w+)` \| `(\w+)` \| ", text)) == EDGES
    assert set(re.findall(r"(?m)^    (\w+) --> \[\*\]$", text)) == FINAL
