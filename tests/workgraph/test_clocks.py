"""Clocks that are set, and machines that sleep: leases end once, when they should (field C72)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.harness import Served, served
from tests.ledger.common import until_event

from .common import claim, create, get
from .due import HOUR_MS, Due, swept, until_told


class StepClock:
    """The machine's clocks, of which the wall clock can be set."""

    def __init__(self) -> None:
        self.step_ms = 0

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.step_ms

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StepClock:
    """The clock of every daemon that is started in this loop."""
    found = StepClock()
    monkeypatch.setattr("interlock.daemon.app.SystemClock", lambda: found)
    return found


async def test_a_wall_clock_that_is_turned_back_neither_ends_nor_prolongs_a_lease(
    tmp_path: Path, clock: StepClock
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        held = await claim(client, await create(client), lease_seconds=60)
        running = await claim(client, await create(client), lease_seconds=1)
        before = await now_of_store(daemon)
        clock.step_ms -= HOUR_MS
        assert await now_of_store(daemon) >= before
        fresh = await claim(client, await create(client), lease_seconds=1)
        assert fresh["item"]["claim"]["claimed_at"] >= running["item"]["claim"]["claimed_at"]
        for one in (running, fresh):
            ended = await until_event(client, subjects=[one["item"]["id"]], types=["item_released"])
            assert ended["data"]["lease_expires_at"] == one["item"]["claim"]["lease_expires_at"]
        await swept(client)
        assert (await get(client, held["item"]["id"]))["claim"] == held["item"]["claim"]


async def now_of_store(daemon: Served) -> int:
    """The instant at which the store judges."""
    return await daemon.app.services.database.read(lambda snap: snap.now)


async def test_a_clock_that_was_turned_back_while_nobody_ran_does_not_stop_time(
    tmp_path: Path, clock: StepClock
) -> None:
    """The feed is ahead of the wall clock then, and a lease of a second would last as long as that."""
    async with served(tmp_path) as daemon, daemon.client() as client:
        held = await claim(client, await create(client), lease_seconds=60)
        running = await claim(client, await create(client), lease_seconds=2)
    clock.step_ms -= HOUR_MS
    async with served(tmp_path) as daemon, daemon.client() as client:
        fresh = await claim(client, await create(client), lease_seconds=1)
        assert fresh["item"]["claim"]["claimed_at"] >= running["item"]["claim"]["claimed_at"]
        for one in (running, fresh):
            await until_event(client, subjects=[one["item"]["id"]], types=["item_released"])
        assert (await get(client, held["item"]["id"]))["claim"] == held["item"]["claim"]


async def test_a_machine_that_slept_ends_what_has_elapsed_and_fences_hold(tmp_path: Path, clock: StepClock) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        thing = await Due.make(client, HOUR_MS)
        held = await claim(client, await create(client), "b", lease_seconds=7200)
        item_id = next(subject for type_, subject, _ in thing.expected if type_ == "item_released")
        clock.step_ms += HOUR_MS
        late = await client.refused("workgraph/close", id=item_id, expected_revision=2, fence=1)
        assert late.code == "stale_lease"
        await until_told(client, thing)
        assert (await get(client, held["item"]["id"]))["claim"] == held["item"]["claim"]


async def test_a_wait_for_the_end_of_a_lease_looks_again_when_the_machine_has_slept(
    tmp_path: Path, clock: StepClock
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client, daemon.client() as waiter:
        await claim(client, await create(client), lease_seconds=7200)
        wanted = {"lease_ending": {"within_ms": HOUR_MS + 60_000}}
        waiting = waiter.start("daemon/wait", filter=wanted, timeout_ms=60_000)
        await client.call("daemon/ping")
        clock.step_ms += HOUR_MS
        await daemon.app.services.tell("suspend", {"gap_ms": HOUR_MS})  # as the sweeper does that notices it
        assert (await waiting)["result"]["matched"] == ["lease_ending"]
