"""Where a message stands in its run, and the bounds of a family (contract ledger 2.6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.causality import HOP_MAX, Place, TaskFacts, check_bounds, place, stricter
from interlock.lifecycle.mail import Causality, MailKind
from interlock.lifecycle.refusal import Refusal

bounds = st.none() | st.integers(0, 100)
PARENT = TaskFacts(
    from_role="boss", family="F", hop=3, hop_budget=5, deadline_at=500, origin="home", labels={"team": "red"}
)


def placed(kind: MailKind, given: Causality, **more: object) -> Place:
    about: dict[str, object] = {"task": given.task, "deadline_at": None, "parent": None, "first": None, **more}
    return place(kind=kind, given=given, **about)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("a", "b", "stricter_one"),
    [(None, None, None), (1, None, 1), (None, 2, 2), (1, 2, 1), (2, 1, 1), (0, 5, 0), (5, 0, 0)],
)
def test_the_stricter_of_two_bounds_holds_and_an_absent_one_does_not_bind(
    a: int | None, b: int | None, stricter_one: int | None
) -> None:
    assert stricter(a, b) == stricter_one


@given(bounds, bounds)
def test_stricter_is_symmetric_and_never_looser_than_either(a: int | None, b: int | None) -> None:
    found = stricter(a, b)
    assert found == stricter(b, a)
    for bound in (a, b):
        assert bound is None or (found is not None and found <= bound)


def test_a_root_task_is_its_own_family_at_hop_0() -> None:
    found = placed("task", Causality(task="T"))
    assert (found.family, found.hop, found.attempt) == ("T", 0, 0)


def test_a_root_task_keeps_what_its_sender_says() -> None:
    found = placed("task", Causality(task="T", family="G", hop=4, hop_budget=9, attempt=2, reply_to="somewhere"))
    assert found[2:6] == ("G", 4, 2, 9)
    assert found.reply_to == "somewhere"


def test_a_parent_that_is_not_in_the_ledger_gives_nothing() -> None:
    found = placed("task", Causality(task="T", parent_task="gone"))
    assert (found.parent_task, found.family, found.hop, found.hop_budget) == ("gone", "T", 0, None)


def test_a_child_takes_hop_and_family_from_its_parent_whatever_it_says() -> None:
    found = placed("task", Causality(task="T", parent_task="P", family="other", hop=0), parent=PARENT)
    assert (found.family, found.hop) == ("F", 4)


def test_a_child_inherits_what_it_does_not_say() -> None:
    found = placed("task", Causality(task="T", parent_task="P"), parent=PARENT)
    assert (found.hop_budget, found.deadline_at, found.origin, found.labels) == (5, 500, "home", {"team": "red"})


def test_a_child_keeps_its_own_origin_and_labels() -> None:
    found = placed("task", Causality(task="T", parent_task="P", origin="mine", labels={}), parent=PARENT)
    assert (found.origin, found.labels) == ("mine", {})


@given(bounds, bounds, bounds, bounds)
def test_a_child_is_never_freer_than_its_parent(
    budget: int | None, deadline: int | None, parent_budget: int | None, parent_deadline: int | None
) -> None:
    parent = PARENT._replace(hop_budget=parent_budget, deadline_at=parent_deadline)
    found = placed("task", Causality(task="T", hop_budget=budget), parent=parent, deadline_at=deadline)
    assert found.hop_budget == stricter(budget, parent_budget)
    assert found.deadline_at == stricter(deadline, parent_deadline)


@pytest.mark.parametrize("kind", ["completion", "note", "control"])
def test_other_kinds_stand_where_their_task_stands(kind: MailKind) -> None:
    found = placed(kind, Causality(task="T"), first=PARENT)
    assert (found.family, found.hop, found.hop_budget, found.deadline_at) == ("F", 3, None, None)
    said = placed(kind, Causality(task="T", family="G", hop=9), first=PARENT)
    assert (said.family, said.hop) == ("G", 9)
    unknown = placed(kind, Causality(task="T"))
    assert (unknown.family, unknown.hop) == (None, 0)


def test_a_second_row_of_a_task_is_placed_like_a_root_and_not_like_its_first() -> None:
    found = placed("task", Causality(task="T"), first=PARENT)
    assert (found.family, found.hop) == ("T", 0)


def test_the_farthest_hop_has_children_as_far_away() -> None:
    found = placed("task", Causality(task="T"), parent=PARENT._replace(hop=HOP_MAX))
    assert found.hop == HOP_MAX


@pytest.mark.parametrize(("hop", "budget", "passes"), [(0, 0, True), (1, 1, True), (1, 0, False), (9, None, True)])
def test_the_hop_budget_is_spent_by_the_hop_beyond_it(hop: int, budget: int | None, passes: bool) -> None:
    derived = placed("task", Causality(task="T", family="F", hop=hop, hop_budget=budget))
    if passes:
        check_bounds(derived, 0)
        return
    with pytest.raises(Refusal) as refused:
        check_bounds(derived, 0)
    assert refused.value.code == "hop_budget_exhausted"
    assert refused.value.data == {"hop": hop, "hop_budget": budget, "family": "F"}


@pytest.mark.parametrize(("deadline", "passes"), [(None, True), (101, True), (100, False), (99, False)])
def test_a_deadline_that_is_over_is_refused(deadline: int | None, passes: bool) -> None:
    derived = placed("task", Causality(task="T"), deadline_at=deadline)
    if passes:
        check_bounds(derived, 100)
        return
    with pytest.raises(Refusal) as refused:
        check_bounds(derived, 100)
    assert refused.value.code == "deadline_passed"
    assert refused.value.data == {"family": "T"}


def test_the_hop_budget_is_looked_at_before_the_deadline() -> None:
    derived = placed("task", Causality(task="T", hop=2, hop_budget=1), deadline_at=1)
    with pytest.raises(Refusal) as refused:
        check_bounds(derived, 100)
    assert refused.value.code == "hop_budget_exhausted"
