"""The loop's delays, and clocks that jump."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.daemon.health import JUMP_MS, Jump, LoopLag, Reading, SuspendWatch, read_clocks

START = Reading(wall=1_000_000, monotonic=5_000, boot=7_000)


def after(reading: Reading, *, ran: int = 0, slept: int = 0, stepped: int = 0) -> Reading:
    """The clocks after the machine ran, slept and had its wall clock set, in milliseconds."""
    boot = None if reading.boot is None else reading.boot + ran + slept
    return Reading(reading.wall + ran + slept + stepped, reading.monotonic + ran, boot)


def test_the_worst_delay_of_the_last_minute_counts() -> None:
    now = [0.0]
    lag = LoopLag(lambda: now[0])
    assert lag.worst_ms == 0
    lag.observe(10.0, 0.200)
    lag.observe(20.0, 0.300)
    lag.observe(30.0, 0.100)
    now[0] = 30.0
    assert lag.worst_ms == 300
    now[0] = 80.5
    assert lag.worst_ms == 100
    now[0] = 90.5
    assert lag.worst_ms == 0


def test_a_timer_that_is_early_counts_as_on_time() -> None:
    lag = LoopLag(lambda: 1.0)
    lag.observe(1.0, -0.001)
    assert lag.worst_ms == 0


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0, 5)), min_size=1, max_size=60))
def test_the_worst_is_what_looking_at_every_delay_would_find(steps: list[tuple[float, float]]) -> None:
    now = 0.0
    lag = LoopLag(lambda: now)
    seen: list[tuple[float, float]] = []
    for elapsed, delay in steps:
        now += elapsed
        lag.observe(now, delay)
        seen.append((now, delay))
    assert lag.worst_ms == max(int(delay * 1000) for moment, delay in seen if moment >= now - 60.0)


async def test_a_loop_that_is_held_up_is_noticed() -> None:
    lag = LoopLag()
    task = asyncio.create_task(lag.run(period=0.001))
    await asyncio.sleep(0)  # it has asked for its timer
    time.sleep(0.05)  # noqa: ASYNC251 (the very thing that is to be noticed)
    for _ in range(10):  # the timer is due: it goes off in the next round
        await asyncio.sleep(0)
    assert lag.worst_ms >= 40
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def test_a_quiet_time_is_no_jump() -> None:
    watch = SuspendWatch(START)
    assert watch.observe(after(START, ran=3_600_000)) == []


@pytest.mark.parametrize("boot", [7_000, None])
def test_a_sleep_and_a_step_back_are_told_apart(boot: int | None) -> None:
    start = START._replace(boot=boot)
    watch = SuspendWatch(start)
    asleep = after(start, ran=1_000, slept=60_000)
    assert watch.observe(asleep) == [Jump("suspend", 60_000)]
    back = after(asleep, ran=1_000, stepped=-3_600_000)
    assert watch.observe(back) == [Jump("clock_step", -3_600_000)]
    assert watch.observe(after(back, ran=1_000)) == []


def test_a_step_forward_is_no_sleep_where_a_clock_counts_sleep() -> None:
    assert SuspendWatch(START).observe(after(START, ran=10, stepped=5_000)) == [Jump("clock_step", 5_000)]


def test_a_step_forward_counts_as_sleep_where_no_clock_does() -> None:
    start = START._replace(boot=None)
    assert SuspendWatch(start).observe(after(start, ran=10, stepped=5_000)) == [Jump("suspend", 5_000)]


def test_a_clock_set_during_a_sleep_is_both() -> None:
    found = SuspendWatch(START).observe(after(START, slept=60_000, stepped=-2_000))
    assert found == [Jump("suspend", 60_000), Jump("clock_step", -2_000)]


amounts = st.integers(0, 10_000_000)
steps = st.integers(-10_000_000, 10_000_000)


@given(st.lists(st.tuples(amounts, amounts, steps), max_size=20))
def test_exactly_what_happened_is_found_and_slews_are_not(history: list[tuple[int, int, int]]) -> None:
    reading = START
    watch = SuspendWatch(reading)
    for ran, slept, stepped in history:
        reading = after(reading, ran=ran, slept=slept, stepped=stepped)
        wanted = [Jump("suspend", slept)] if slept >= JUMP_MS else []
        wanted += [Jump("clock_step", stepped)] if abs(stepped) >= JUMP_MS else []
        assert watch.observe(reading) == wanted


@pytest.mark.parametrize("stepped", [-499, 499])
def test_less_than_half_a_second_is_a_slew(stepped: int) -> None:
    assert SuspendWatch(START).observe(after(START, ran=1_000, stepped=stepped)) == []


def test_the_clocks_of_this_machine_agree_from_one_reading_to_the_next() -> None:
    first = read_clocks()
    second = read_clocks()
    assert SuspendWatch(first).observe(second) == []
    assert second.monotonic >= first.monotonic
    assert first.boot is None or first.boot >= first.monotonic
