"""When an item may be begun, against independent tables: contract workgraph 4."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from interlock.lifecycle import readiness
from interlock.lifecycle.items import Phase
from interlock.lifecycle.work import JoinPolicy, JoinState, OnFailure, Status

POLICIES: tuple[JoinPolicy, ...] = get_args(JoinPolicy)


def test_an_active_child_makes_every_parent_wait() -> None:
    for failed, cancelled, on_failed, on_cancelled in product((0, 2), (0, 2), POLICIES, POLICIES):
        assert readiness.join_state(1, failed, cancelled, on_failed, on_cancelled) == "waiting"


# (failed?, cancelled?) -> by (failed policy, cancelled policy): r require_success, p propagate, a accept.
JOINS: dict[tuple[int, int], dict[str, JoinState]] = {
    (0, 0): dict.fromkeys(("rr", "rp", "ra", "pr", "pp", "pa", "ar", "ap", "aa"), "satisfied"),
    (1, 0): {
        **dict.fromkeys(("rr", "rp", "ra"), "waiting"),
        **dict.fromkeys(("pr", "pp", "pa"), "propagate_failure"),
        **dict.fromkeys(("ar", "ap", "aa"), "satisfied"),
    },
    (0, 1): {
        **dict.fromkeys(("rr", "pr", "ar"), "waiting"),
        **dict.fromkeys(("rp", "pp", "ap"), "propagate_cancellation"),
        **dict.fromkeys(("ra", "pa", "aa"), "satisfied"),
    },
    (1, 1): {
        **dict.fromkeys(("pr", "pp", "pa"), "propagate_failure"),
        **dict.fromkeys(("rp", "ap"), "propagate_cancellation"),
        **dict.fromkeys(("rr", "ra", "ar"), "waiting"),
        "aa": "satisfied",
    },
}


@pytest.mark.parametrize(("failed", "cancelled"), JOINS)
def test_ended_children_decide_as_the_two_policies_say(failed: int, cancelled: int) -> None:
    found = {
        f"{on_failed[0]}{on_cancelled[0]}": readiness.join_state(0, failed, cancelled, on_failed, on_cancelled)
        for on_failed, on_cancelled in product(POLICIES, POLICIES)
    }
    assert found == JOINS[failed, cancelled]


@pytest.mark.parametrize("status", get_args(Status))
@pytest.mark.parametrize("on_failure", get_args(OnFailure))
def test_a_blocker_holds_back_until_it_is_completed_or_a_waiver_lets_go(status: Status, on_failure: OnFailure) -> None:
    waived = on_failure == "release" and status in ("cancelled", "failed")
    assert readiness.holds_back(status, on_failure) is (status != "completed" and not waived)


@pytest.mark.parametrize(
    ("not_before", "snoozed_until", "gate"), [(None, None, None), (5, None, 5), (None, 7, 7), (5, 7, 7), (7, 5, 7)]
)
def test_the_later_of_the_two_gates_counts(not_before: int | None, snoozed_until: int | None, gate: int | None) -> None:
    assert readiness.gate_at(not_before, snoozed_until) == gate


@pytest.mark.parametrize("status", get_args(Status))
@pytest.mark.parametrize("blockers", [0, 1])
@pytest.mark.parametrize("join", get_args(JoinState))
@pytest.mark.parametrize("gate", [None, 99, 100, 101])
def test_an_item_stands_in_the_queue_that_its_row_says(
    status: Status, blockers: int, join: JoinState, gate: int | None
) -> None:
    clear = status == "open" and blockers == 0 and join == "satisfied"
    shut = gate is not None and gate > 100
    expected = readiness.NEITHER if not clear else readiness.GATED if shut else readiness.READY
    assert readiness.stage(status, blockers, join, gate, 100) == expected


@pytest.mark.parametrize("phase", get_args(Phase))
def test_what_is_open_or_has_lost_its_holder_is_ready_when_nothing_is_in_its_way(phase: Phase) -> None:
    assert readiness.is_ready(phase, 0, "satisfied", 100, 100) is (phase in ("open", "elapsed"))
    assert not readiness.is_ready(phase, 1, "satisfied", None, 100)
    assert not readiness.is_ready(phase, 0, "waiting", None, 100)
    assert not readiness.is_ready(phase, 0, "satisfied", 101, 100)
