"""Callers that leave: a write was made and is answered, or never was; a close goes on; an opening leaves nothing."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from pathlib import Path

import pytest

from interlock.lifecycle.refusal import Refusal
from interlock.stores.tx import Tx
from tests.stores.engine import Counted, Gate, note, opened, refuse, stored, subjects


async def test_a_job_that_has_not_begun_is_dropped_when_its_caller_is_cancelled(tmp_path: Path) -> None:
    gate, job = Gate(), Counted(note("never"))
    async with opened(tmp_path / "store") as db:
        held = asyncio.create_task(db.write(gate))
        await asyncio.to_thread(gate.entered.wait)
        task = asyncio.create_task(db.write(job))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert db.queue_length == 0
        gate.open()
        await held
        await db.write(note("a"))
    assert job.runs == 0


async def test_a_job_that_has_begun_ends_and_its_cancelled_caller_gets_the_result(tmp_path: Path) -> None:
    gate = Gate()
    async with opened(tmp_path / "store") as db:

        async def caller() -> tuple[str, int]:
            result = await db.write(gate)
            task = asyncio.current_task()
            assert task is not None
            await asyncio.sleep(0)  # it can go on to wait for other things
            return result, task.cancelling()

        task = asyncio.create_task(caller())
        await asyncio.to_thread(gate.entered.wait)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        gate.open()
        assert await task == ("through", 0)


async def test_a_cancelled_caller_of_a_job_that_was_refused_gets_the_refusal(tmp_path: Path) -> None:
    gate = Gate()

    def refused(tx: Tx) -> None:
        gate(tx)
        refuse(tx)

    async with opened(tmp_path / "store") as db:
        task = asyncio.create_task(db.write(refused))
        await asyncio.to_thread(gate.entered.wait)
        task.cancel()
        await asyncio.sleep(0)
        gate.open()
        with pytest.raises(Refusal):
            await task


async def test_a_timeout_that_comes_too_late_does_not_hide_what_was_committed(tmp_path: Path) -> None:
    gate = Gate()
    async with opened(tmp_path / "store") as db:

        async def caller() -> str:
            async with asyncio.timeout(0):
                return await db.write(gate)

        task = asyncio.create_task(caller())
        # the deadline is over at once: whether it falls before or after the beginning, the answer says which
        await asyncio.sleep(0)
        gate.open()
        try:
            assert await task == "through"
            assert gate.entered.is_set()
        except TimeoutError:
            assert not gate.entered.is_set()


async def test_cancelled_at_any_moment_a_write_is_either_answered_or_did_not_happen(tmp_path: Path) -> None:
    path = tmp_path / "store"
    answered: list[str] = []
    dropped: list[str] = []
    async with opened(path) as db:
        for turns, neighbours, again in itertools.product(range(12), (0, 3), range(4)):
            subject = f"{turns}/{neighbours}/{again}"
            others = [asyncio.create_task(db.write(note("other"))) for _ in range(neighbours)]
            task = asyncio.create_task(db.write(note(subject)))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            try:
                await task
                answered.append(subject)
            except asyncio.CancelledError:
                dropped.append(subject)
            await asyncio.gather(*others)
    assert [subject for subject in stored(path) if subject != "other"] == answered
    assert answered
    assert dropped


async def test_closing_runs_what_is_queued_and_refuses_what_comes_later(tmp_path: Path) -> None:
    path = tmp_path / "store"
    async with opened(path) as db:
        queued = [asyncio.create_task(db.write(note(str(i)))) for i in range(300)]
        await asyncio.sleep(0)
        await asyncio.gather(db.close(), db.close())
        assert await asyncio.gather(*queued) == list(range(1, 301))
        await db.close()
        for call in (db.write(note("late")), db.read(subjects), db.checkpoint(), db.data_version(), db.probe()):
            with pytest.raises(Refusal) as refused:
                await call
            assert refused.value.code == "draining"
    assert len(stored(path)) == 300
    assert os.listdir(tmp_path) == ["store"]


async def test_a_cancelled_close_goes_on(tmp_path: Path) -> None:
    gate = Gate()
    async with opened(tmp_path / "store") as db:
        held = asyncio.create_task(db.write(gate))
        await asyncio.to_thread(gate.entered.wait)
        closing = asyncio.create_task(db.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        gate.open()
        assert await held == "through"
        await db.close()


async def test_when_the_loop_ends_what_has_begun_is_answered_and_the_rest_is_refused(tmp_path: Path) -> None:
    gate = Gate()
    async with opened(tmp_path / "store") as db:
        held = asyncio.create_task(db.write(gate))
        await asyncio.to_thread(gate.entered.wait)
        queued = asyncio.create_task(db.write(note("a")))
        await asyncio.sleep(0)
        (coordinator,) = (task for task in asyncio.all_tasks() if task.get_name() == "store writer")
        coordinator.cancel()
        await asyncio.sleep(0)
        gate.open()
        assert await held == "through"
        with pytest.raises(Refusal) as refused:
            await queued
        assert refused.value.code == "draining"


async def test_cancelled_at_any_moment_an_opening_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "store"

    async def use() -> int:
        async with opened(path) as db:
            return await db.write(note("x"))

    for turns in range(12):
        task = asyncio.create_task(use())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        # cancelled while it closed, that goes on by itself
        await asyncio.gather(*(other for other in asyncio.all_tasks() if other.get_name() == "store close"))
        for thread in threading.enumerate():
            if "connection_worker" in thread.name:
                await asyncio.to_thread(thread.join, 10)
                assert not thread.is_alive()
    before = len(stored(path))
    assert await use() == before + 1
