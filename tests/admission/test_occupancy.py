"""The refusal of a taken target (contract workgraph 5.2)."""

from __future__ import annotations

import msgspec
import pytest

from interlock.admission.occupancy import Seat, occupied
from interlock.lifecycle.refusal import Refusal

KEY = "owner:agent:mob/m/agent/a"
ACTIVE = Seat("attention_1", "active", "work_1", KEY, None, 1000)
PAUSED = Seat("attention_2", "paused", "work_2", "session:0199c3a2-7c11-7d4e-8a51-3f1d2b6c9e07", 86_400_000, 1000)


def refusal(*seats: Seat) -> Refusal:
    found = occupied(KEY, seats, "create the goal")
    assert found is not None
    return found


def test_a_free_target_is_not_refused() -> None:
    assert occupied(KEY, [], "create the goal") is None


def test_an_active_occupant_is_named_with_the_way_out() -> None:
    found = refusal(ACTIVE)
    assert found.code == "occupied"
    assert msgspec.to_builtins(found.data) == {
        "target_key": KEY,
        "occupant": {"binding_id": "attention_1", "status": "active", "item_id": "work_1", "target_key": KEY},
        "remedy": "attention/reassign it or close its goal (goal/request_close), then create the goal",
    }
    assert all(part in found.message for part in (KEY, "attention_1", "active"))


def test_a_paused_occupant_is_shown_with_its_own_key_and_its_deadline() -> None:
    found = refusal(PAUSED)
    assert msgspec.to_builtins(found.data) == {
        "target_key": KEY,
        "occupant": {
            "binding_id": "attention_2",
            "status": "paused",
            "item_id": "work_2",
            "target_key": PAUSED.target_key,
            "paused_until": "1970-01-02T00:00:00.000Z",
        },
        "remedy": "attention/resume it or close its goal (goal/request_close), then create the goal",
    }
    assert all(part in found.message for part in (KEY, "attention_2", "paused"))


@pytest.mark.parametrize("seats", [(ACTIVE, PAUSED), (PAUSED, ACTIVE)])
def test_of_two_occupants_the_one_that_wins_arbitration_is_named(seats: tuple[Seat, Seat]) -> None:
    assert "attention_2" in refusal(*seats).message
    older = tuple(seat._replace(created_at=999) if seat is PAUSED else seat for seat in seats)
    assert "attention_1" in refusal(*older).message
