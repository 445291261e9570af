"""The life of one message, against tables written down independently (contract ledger 2.2 to 2.4)."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.delivery import (
    FINAL,
    TRANSITIONS,
    Release,
    RequeuePolicy,
    due_at,
    expiry_reason,
    plan,
    release,
)
from interlock.lifecycle.mail import MailKind, MailState

STATES: tuple[MailState, ...] = get_args(MailState)
KINDS: tuple[MailKind, ...] = get_args(MailKind)
PAIRS = list(product(STATES, STATES))

ALLOWED = {
    ("queued", "in_flight"),
    ("queued", "rejected"),
    ("queued", "expired"),
    ("in_flight", "queued"),
    ("in_flight", "acked"),
    ("in_flight", "rejected"),
    ("in_flight", "expired"),
}
"""Copied from the contract by hand: every other pair is no move."""


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_a_move_exists_exactly_where_the_contract_has_one(before: MailState, after: MailState) -> None:
    assert (after in TRANSITIONS[before]) == ((before, after) in ALLOWED)


@pytest.mark.parametrize(("before", "wish"), PAIRS)
def test_a_wish_holds_is_a_move_passes_through_or_is_refused(before: MailState, wish: MailState) -> None:
    if before == wish:
        expected = "holds"
    elif (before, wish) in ALLOWED:
        expected = "move"
    elif (before, wish) == ("queued", "acked"):
        expected = "through_in_flight"
    else:
        expected = "refuse"
    assert plan(before, wish) == expected


def test_the_final_states_are_those_that_nothing_leaves() -> None:
    assert {"acked", "rejected", "expired"} == FINAL
    assert set(TRANSITIONS) == set(STATES)


NOW = 1_000_000_000
LATE, EARLY, EDGE = NOW - 60_001, NOW - 59_999, NOW - 60_000
"""Before, after and exactly at the end of 60 s."""
CASES = list(product(KINDS, (False, True), (LATE, EARLY, EDGE), (0, 1, 2, 3), (0, 2), (0, 60)))


def gate(kind: str, settled: bool, at: int, requeued: int, most: int, ttl: int) -> Release:
    """The table of 2.3, read from top to bottom."""
    if kind == "task" and settled:
        return Release("rejected", "task_settled")
    if ttl and at == LATE:
        return Release("expired", "requeue_ttl")
    if most and requeued in (2, 3):
        return Release("rejected", "requeue_exhausted", fault=True)
    return Release("queued", "connection_lost")


@pytest.mark.parametrize("kind", KINDS)
def test_the_requeue_gate_takes_the_first_rule_that_applies(kind: MailKind) -> None:
    seen = set()
    for case in CASES:
        if case[0] != kind:
            continue
        _, settled, at, requeued, most, ttl = case
        found = release(
            kind=kind,
            settled_task=settled,
            enqueued_at=at,
            requeued=requeued,
            now=NOW,
            cause="connection_lost",
            policy=RequeuePolicy(most, ttl),
        )
        assert found == gate(*case), case
        seen.add(found.reason)
    assert seen == {"requeue_ttl", "requeue_exhausted", "connection_lost"} | (
        {"task_settled"} if kind == "task" else set()
    )


@pytest.mark.parametrize("cause", ["connection_lost", "detached", "session_exited", "requeued"])
def test_the_cause_becomes_the_reason_of_a_requeue(cause: str) -> None:
    found = release(
        kind="note", settled_task=False, enqueued_at=NOW, requeued=0, now=NOW, cause=cause, policy=RequeuePolicy()
    )
    assert found == Release("queued", cause)


def test_the_default_budget_is_sixteen_requeues_and_no_ttl() -> None:
    assert RequeuePolicy() == RequeuePolicy(max_attempts=16, ttl_secs=0)


@given(st.integers(0, 40), st.integers(1, 20))
def test_a_row_is_put_back_exactly_as_often_as_the_budget_says(requeued: int, most: int) -> None:
    found = release(
        kind="task",
        settled_task=False,
        enqueued_at=0,
        requeued=requeued,
        now=NOW,
        cause="detached",
        policy=RequeuePolicy(most, 0),
    )
    assert (found.state == "queued") == (requeued < most)
    assert found.fault == (requeued >= most)


@pytest.mark.parametrize(("kind", "state"), list(product(KINDS, STATES)))
def test_only_live_notes_and_waiting_tasks_have_a_due_time(kind: MailKind, state: MailState) -> None:
    expected = None
    if kind == "note" and state in ("queued", "in_flight"):
        expected = 5
    if kind == "task" and state == "queued":
        expected = 7
    assert due_at(kind=kind, state=state, expires_at=5, deadline_at=7) == expected
    assert due_at(kind=kind, state=state, expires_at=None, deadline_at=None) is None


def test_what_is_due_says_why() -> None:
    assert {kind: expiry_reason(kind) for kind in KINDS if kind in ("task", "note")} == {
        "task": "deadline",
        "note": "expired",
    }
