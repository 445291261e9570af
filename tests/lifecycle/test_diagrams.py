"""The page of states shows every move that there is, and no other."""

from __future__ import annotations

import re
from typing import get_args

from interlock.lifecycle import binding, delivery, items
from interlock.lifecycle.diagrams import MAIL, states

MAIL_EDGES = {(state, to) for state, after in delivery.TRANSITIONS.items() for to in after}
BINDING_EDGES = {(state, to) for state, after in binding.TRANSITIONS.items() for to in after.values()}


def section(title: str) -> str:
    """The text below a heading, up to the next."""
    return states().partition(f"## {title}\n")[2].partition("\n## ")[0]


def drawn(text: str) -> set[tuple[str, str]]:
    """The arrows of the diagram."""
    return set(re.findall(r"(?m)^    (\w+) --> (\w+): ", text))


def ends(text: str) -> set[str]:
    """The states that the diagram shows as final."""
    return set(re.findall(r"(?m)^    (\w+) --> \[\*\]$", text))


def test_every_move_of_mail_has_its_cause_and_there_is_no_cause_without_a_move() -> None:
    assert set(MAIL) == MAIL_EDGES


def test_the_diagram_and_the_table_of_a_message_show_exactly_the_moves() -> None:
    text = section("A message")
    assert drawn(text) == MAIL_EDGES
    assert set(re.findall(r"(?m)^\| `(\w+)` \| `(\w+)` \| ", text)) == MAIL_EDGES
    assert ends(text) == delivery.FINAL


def test_the_diagram_and_the_table_of_a_binding_show_exactly_the_moves() -> None:
    text = section("An attention binding")
    assert drawn(text) == BINDING_EDGES
    assert set(re.findall(r"(?m)^\| `(\w+)` \| `(\w+)` \| ", text)) == BINDING_EDGES
    assert ends(text) == binding.FINAL


def test_the_table_of_an_item_has_a_cell_for_each_phase_and_input() -> None:
    text = section("An item of work")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    heads, _, *cells = rows
    assert heads == list(get_args(items.Input))
    assert [len(row) for row in cells] == [len(heads) + 1] * len(get_args(items.Phase))
    assert drawn(text) == {
        *(("open", to) for to in ("in_progress", "blocked", "terminal")),
        *(("in_progress", to) for to in ("open", "blocked", "terminal")),
        *(("blocked", to) for to in ("open", "terminal")),
    }
    assert ends(text) == {"terminal"}
