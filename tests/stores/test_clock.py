"""Time as the store sees it: it goes on, whatever the wall clock does."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from interlock.stores.clock import SystemClock, Timeline
from tests.stores.engine import HandClock


def test_time_runs_on_when_the_wall_clock_is_turned_back() -> None:
    clock = HandClock(wall=1_000_000)
    timeline = Timeline(clock)
    assert timeline.now(0) == 1_000_000
    clock.wall -= 3_600_000
    clock.run(250)
    assert timeline.now(0) == 1_000_250
    clock.run(250)
    assert timeline.now(0) == 1_000_500


def test_time_follows_a_wall_clock_that_jumps_ahead() -> None:
    clock = HandClock(wall=1_000_000)
    timeline = Timeline(clock)
    clock.wall += 3_600_000
    assert timeline.now(0) == 4_600_000


def test_an_instant_is_never_earlier_than_its_floor_and_time_runs_on_from_there() -> None:
    """The wall clock was turned back while nobody ran: else time would stand still until it is there again."""
    clock = HandClock(wall=1_000_000)
    timeline = Timeline(clock)
    assert timeline.now(1_000_500) == 1_000_500
    clock.run(100)
    assert timeline.now(0) == 1_000_600
    clock.run(500)
    assert timeline.now(1_000_800) == 1_001_100


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(-(10**9), 10**9), st.integers(0, 10**12))))
def test_no_sequence_of_steps_turns_time_back_or_stops_it(moves: list[tuple[int, int, int]]) -> None:
    clock = HandClock(wall=10**10)
    timeline = Timeline(clock)
    last = timeline.now(0)
    for passed, step, floor in moves:
        clock.run(passed)
        clock.wall += step
        now = timeline.now(floor)
        assert now >= max(last, floor)
        last = now
    clock.run(2 * 10**12)
    assert timeline.now(0) > last


def test_threads_share_one_time() -> None:
    timeline = Timeline(SystemClock())
    seen: list[list[int]] = [[] for _ in range(4)]

    def take(mine: list[int]) -> None:
        mine.extend(timeline.now(0) for _ in range(500))

    threads = [threading.Thread(target=take, args=(mine,)) for mine in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in seen)


def test_the_system_clock_reads_milliseconds_since_1970_and_does_not_go_back() -> None:
    clock = SystemClock()
    assert clock.now_ms() > 1_700_000_000_000
    first = clock.monotonic_ms()
    assert clock.monotonic_ms() >= first
