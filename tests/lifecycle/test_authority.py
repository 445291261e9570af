"""What a binding allows, cell by cell (contract workgraph 3.3)."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from interlock.lifecycle import authority as rules
from interlock.lifecycle.attention import Authority, Delegated, Mode

ALWAYS = {
    "can_get": {"pursue", "coordinate", "review", "falsify", "judge", "observe"},
    "can_add_evidence": {"pursue", "coordinate", "review", "falsify", "judge"},
    "can_release": {"pursue"},
    "can_update": {"pursue", "coordinate"},
    "can_block": {"pursue"},
    "can_create": {"coordinate"},
    "can_link": {"coordinate"},
    "can_link_parent": {"coordinate"},
    "can_link_related": {"coordinate"},
    "can_link_derived_from": {"coordinate"},
    "can_close_own_review_item": set(),
    "can_close_if_policy_allows": set(),
}
DELEGATED = {
    "can_close_own_review_item": ("close_own_review_item", {"review", "falsify"}),
    "can_close_if_policy_allows": ("close_if_policy_allows", {"pursue", "coordinate", "judge"}),
}


@pytest.mark.parametrize("mode", get_args(Mode))
@pytest.mark.parametrize("delegated", get_args(Delegated))
def test_every_cell_of_the_table_holds(mode: Mode, delegated: Delegated) -> None:
    expected = {name for name, modes in ALWAYS.items() if mode in modes}
    expected |= {name for name, (word, modes) in DELEGATED.items() if delegated == word and mode in modes}
    bits = msgspec.to_builtins(rules.authority(mode, delegated))
    assert len(bits) == 12
    assert {name for name, held in bits.items() if held} == expected == rules.granted(mode, delegated)


def test_the_capability_to_close_and_to_link_is_one_of_the_twelve() -> None:
    names = set(Authority.__struct_fields__)
    assert {rules.closing(mode) for mode in get_args(Mode)} <= names
    assert {rules.linking(kind) for kind in ("parent", "related", "derived_from")} <= names


@pytest.mark.parametrize("kind", ["blocks", "supersedes"])
def test_no_mode_links_what_orders_work(kind: str) -> None:
    assert not any(rules.linking(kind) in rules.granted(mode, "add_evidence") for mode in get_args(Mode))


@pytest.mark.parametrize(
    ("capability", "named"),
    [
        ("can_create", "mode coordinate"),
        ("can_update", "mode pursue or coordinate"),
        ("can_close_own_review_item", "mode review or falsify with delegated_authority close_own_review_item"),
        ("can_link_blocks", "without binding_id"),
    ],
)
def test_the_way_out_names_what_would_be_allowed(capability: str, named: str) -> None:
    assert named in rules.way_out(capability)
