"""The gate: who waits for whom, for how long, and what is left when somebody goes away."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from interlock.admission import sidecar
from interlock.admission.gate import Gate
from interlock.lifecycle.refusal import Refusal

from .holder import PATIENCE_S, holding

LONG_MS = 60_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / sidecar.NAME


@pytest.fixture
def gate(path: Path) -> Iterator[Gate]:
    found = Gate(path, LONG_MS)
    yield found
    found.close()


@pytest.fixture
def garbage(path: Path) -> Path:
    path.write_bytes(b"no database at all")
    return path


class Visitor:
    """Somebody who comes to the gate, stays until told to go, and says how it went."""

    def __init__(self, gate: Gate) -> None:
        self.inside = asyncio.Event()
        self.leave = asyncio.Event()
        self.task = asyncio.get_running_loop().create_task(self._visit(gate))

    async def _visit(self, gate: Gate) -> None:
        async with gate.held():
            self.inside.set()
            await self.leave.wait()

    async def entered(self) -> None:
        with anyio.fail_after(PATIENCE_S):
            await self.inside.wait()

    async def left(self) -> None:
        self.leave.set()
        with anyio.fail_after(PATIENCE_S):
            await self.task


async def settle() -> None:
    """Until everybody has come as far as they can without time passing."""
    for _ in range(20):
        await asyncio.sleep(0)


async def passes(gate: Gate) -> None:
    """The gate is free: somebody gets through."""
    visitor = Visitor(gate)
    await visitor.entered()
    await visitor.left()


async def test_who_comes_first_goes_first(gate: Gate) -> None:
    first = Visitor(gate)
    await first.entered()
    others = [Visitor(gate) for _ in range(20)]
    await settle()
    before = first
    for n, visitor in enumerate(others):
        assert not any(one.inside.is_set() for one in others[n:])
        await before.left()
        await visitor.entered()
        before = visitor
    await before.left()


async def test_an_error_inside_lets_go(gate: Gate) -> None:
    with pytest.raises(ZeroDivisionError):
        async with gate.held():
            raise ZeroDivisionError
    await passes(gate)


async def test_a_cancelled_holder_lets_go(gate: Gate) -> None:
    holder = Visitor(gate)
    await holder.entered()
    holder.task.cancel()
    await passes(gate)
    assert holder.task.cancelled()


async def test_a_cancelled_waiter_leaves_its_place_to_the_next(gate: Gate) -> None:
    holder, waiter, last = Visitor(gate), Visitor(gate), Visitor(gate)
    await settle()
    waiter.task.cancel()
    await settle()
    assert waiter.task.cancelled()
    assert not last.inside.is_set()
    await holder.left()
    await last.entered()
    await last.left()


async def test_a_waiter_that_is_cancelled_as_its_turn_comes_passes_it_on(gate: Gate) -> None:
    holder, waiter, last = Visitor(gate), Visitor(gate), Visitor(gate)
    await settle()
    holder.leave.set()
    waiter.task.cancel()
    await last.entered()
    await last.left()
    assert waiter.task.cancelled()


async def test_a_waiter_at_another_processs_lock_can_be_cancelled(gate: Gate, path: Path) -> None:
    async with holding(path) as holder:
        waiter = Visitor(gate)
        await settle()
        assert not waiter.inside.is_set()
        waiter.task.cancel()
        await asyncio.wait([waiter.task])
        assert waiter.task.cancelled()
        await holder.let_go()
        await passes(gate)


async def test_admission_waits_for_another_process_and_then_goes_on(gate: Gate, path: Path) -> None:
    async with holding(path) as holder:
        waiters = [Visitor(gate), Visitor(gate)]
        await settle()
        assert not any(one.inside.is_set() for one in waiters)
        await holder.let_go()
        for visitor in waiters:
            await visitor.entered()
            await visitor.left()


async def test_after_its_time_it_is_refused_with_the_file_and_how_long_it_waited(gate: Gate, path: Path) -> None:
    gate.wait_ms = 30
    async with holding(path) as holder:
        with anyio.fail_after(PATIENCE_S), pytest.raises(Refusal) as caught:
            await Visitor(gate).task
        refusal = caught.value
        assert refusal.code == "admission_lock_timeout"
        assert refusal.data["file"] == str(path)
        assert isinstance(refusal.data["waited_ms"], int)
        assert refusal.data["waited_ms"] >= 30
        assert str(path) in refusal.message
        await holder.let_go()
        await passes(gate)


async def test_who_queues_in_the_process_waits_no_longer_than_who_stands_in_front(gate: Gate, path: Path) -> None:
    gate.wait_ms = 30
    async with holding(path):
        waiters = [Visitor(gate) for _ in range(5)]
        with anyio.fail_after(PATIENCE_S):
            answers = await asyncio.gather(*(one.task for one in waiters), return_exceptions=True)
    assert [answer.code for answer in answers if isinstance(answer, Refusal)] == ["admission_lock_timeout"] * 5


async def test_a_holder_of_this_process_is_waited_for_no_longer_either(gate: Gate) -> None:
    holder = Visitor(gate)
    await holder.entered()
    gate.wait_ms = 30
    with anyio.fail_after(PATIENCE_S), pytest.raises(Refusal, match="nothing was written"):
        await Visitor(gate).task
    await holder.left()
    await passes(gate)


async def test_time_spent_inside_is_no_waiting(gate: Gate) -> None:
    gate.wait_ms = 1
    async with gate.held():
        await anyio.sleep(0.02)
    await passes(gate)


async def test_a_file_that_cannot_be_locked_refuses_and_stops_nobody_later(gate: Gate, garbage: Path) -> None:
    for _ in range(2):
        with pytest.raises(Refusal) as caught:
            await Visitor(gate).task
        assert caught.value.code == "store_failed"
    os.unlink(garbage)
    await passes(gate)


async def test_a_closed_gate_keeps_nobody_out(gate: Gate, path: Path) -> None:
    await passes(gate)
    gate.close()
    async with holding(path):
        pass
