"""The leader's one background task: what time does to the store (DESIGN 5.3).

Driven by the earliest due time, woken by new deadlines, with a 30 s backstop; while there are other processes it also
looks every second whether they still live. A page of 200 rows, or 50 of work, per transaction never holds the writer.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Final, NamedTuple

from interlock.lifecycle.events import Event
from interlock.lifecycle.refusal import Refusal
from interlock.stores import presence, sweep

from . import chores, instances
from .chores import Chore
from .health import SuspendWatch, read_clocks
from .hub import Waiter
from .methods.delivery import let_go
from .services import Services

BACKSTOP_S: Final = 30.0
FOREIGN_S: Final = 1.0
"""How often the life of other processes is looked at: within 3 s of a death its mail is back (contract ledger 2.3)."""
SHORTEST_S: Final = 0.25
"""A pass at most this often, however many deadlines arrive."""
RETENTION_S: Final = 3600.0
DAY_MS: Final = 86_400_000
PAGE: Final = 200
PAGES: Final = 50
"""Of one kind that retention takes in one pass: what is due meanwhile must not wait for years of history."""
FAILED_S: Final = (1.0, 2.0, 5.0, 15.0, 30.0)
"""Pauses after passes that failed in a row."""


class Looked(NamedTuple):
    """What decides when the next pass must be: instants of the store."""

    next_due: int | None
    now: int


class Pause(NamedTuple):
    """How long to wait at most, and the instant of the wall clock that ends it: the machine may sleep meanwhile."""

    seconds: float
    due: int | None = None


class Sweeper:
    """Runs while this process leads."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._database = services.database
        self._retained_at = float("-inf")
        self._others = False
        self._clocks = SuspendWatch(read_clocks())
        self._failures = 0
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Until cancelled. A pass that fails is logged, counted and tried again later; it never ends the task."""
        waiter = Waiter(_has_deadline)
        with self._services.hub.listening(waiter, slow=True):
            while True:
                waiter.clear()
                pause = await self._pass_safely()
                await self._wait(waiter, self._loop.time() + pause.seconds, pause.due)

    async def _wait(self, waiter: Waiter, end: float, due: int | None) -> None:
        """Until then, until something that was written meanwhile is due, or until there is another process: no event
        tells that one has come.

        Nor that the clock was set or the machine slept, which the loop's own clock does not count. What is written only
        moves the end: a pass for each claim of a busy fleet would cost more than the claims.
        """
        await asyncio.sleep(SHORTEST_S)
        while self._loop.time() < end:
            try:
                async with asyncio.timeout_at(min(end, self._loop.time() + FOREIGN_S)):
                    await waiter.wait()
            except TimeoutError:
                if due is not None and self._services.clock.now_ms() >= due:
                    return
                if not self._others and self._somebody_came():
                    return
                continue
            waiter.clear()
            try:
                pause = await self._look()
            except Refusal:
                return  # the pass says what is wrong, and waits
            end, due = min(end, self._loop.time() + pause.seconds), pause.due
            if self._loop.time() < end:
                await asyncio.sleep(SHORTEST_S)

    def _listed(self) -> set[str]:
        """The processes that have a file, dead or alive. One small directory: no thread is worth it."""
        return set(instances.listed(self._services.settings.state_dir))

    def _somebody_came(self) -> bool:
        try:
            return bool(self._listed() - {self._services.instance_id})
        except OSError:  # too many open files, say: the next pass will tell
            return True

    async def _pass_safely(self) -> Pause:
        started = perf_counter()
        try:
            pause = await self._pass()
            self._failures = 0
        except Exception as error:
            level = self._services.log.warning if isinstance(error, Refusal) else self._services.log.exception
            level("sweep_failed", error=str(error))
            pause = Pause(FAILED_S[min(self._failures, len(FAILED_S) - 1)])
            self._failures += 1
        self._services.metrics.swept(perf_counter() - started, failed=self._failures > 0)
        return pause

    async def _pass(self) -> Pause:
        """One pass, in the order of DESIGN 5.3; how long until the next."""
        await self._note_jumps()
        await self._bury_the_dead()
        await self._expire()
        if self._loop.time() - self._retained_at >= RETENTION_S:
            if not await self._retain():
                return Pause(0.0)
            self._retained_at = self._loop.time()
        return await self._look()

    async def _look(self) -> Pause:
        """How long there is nothing to do, as things stand."""
        looked = await self._database.read(lambda snap: Looked(chores.next_due(snap), snap.now))
        return _pause(looked, self._others, self._services.policy.ttl_secs)

    async def _note_jumps(self) -> None:
        """Record that the machine slept or its clock was set (field C72)."""
        for jump in self._clocks.observe(read_clocks()):
            data: dict[str, object] = {"gap_ms": jump.ms} if jump.kind == "suspend" else {"step_ms": jump.ms}
            await self._services.tell(jump.kind, data)

    async def _bury_the_dead(self) -> None:
        """Take back what processes held that have died (contract ledger 2.3)."""
        state_dir = self._services.settings.state_dir
        known = {*await self._database.read(presence.instances), *self._listed()} - {self._services.instance_id}
        dead = await asyncio.to_thread(instances.dead_instances, state_dir, known)
        self._others = len(dead) < len(known)
        for instance_id in dead:
            attached = await self._database.read(lambda snap: presence.attachments_of(snap, instance_id))  # noqa: B023
            for role, holder in attached:
                await let_go(self._services, role, holder, "connection_lost")
            await asyncio.to_thread(instances.forget, state_dir, instance_id)

    async def _expire(self) -> None:
        for chore in await self._database.read(chores.due):
            await self._pages(chore)
        ttl_ms = self._services.policy.ttl_secs * 1000
        if ttl_ms:
            for role in await self._database.read(sweep.absent_roles):
                await self._pages(chores.unfetched(role, ttl_ms))

    async def _pages(self, chore: Chore) -> None:
        """Act on every row of every page, each page in one transaction.

        One bad row never stops a pass: where a page fails its rows are done one by one; the bad one becomes a fault.
        """
        more = True
        while more:
            try:
                more = await self._database.write(chore.whole_page)
            except Refusal:
                raise
            except Exception:
                self._services.log.exception("bad_page", kind=chore.kind)
                more = await self._one_by_one(chore)

    async def _one_by_one(self, chore: Chore) -> bool:
        found = await self._database.write(chore.page)
        for row_id in found.ids:
            try:
                await self._database.write(lambda tx: chore.act(tx, row_id))  # noqa: B023 - awaited here
            except Refusal:
                raise
            except Exception as error:
                reason = f"the sweeper cannot read this row: {type(error).__name__}"
                await self._database.write(lambda tx: chore.give_up(tx, row_id, reason))  # noqa: B023
        return found.more

    async def _retain(self) -> bool:
        """Remove what is older than the settings allow, in pages (contract ledger 2.8); whether nothing is left."""
        ledger = self._services.settings.ledger
        now = await self._database.read(lambda snap: snap.now)
        complete = True
        retained, history = now - ledger.retention_days * DAY_MS, now - ledger.history_days * DAY_MS
        for prune, before in (
            (sweep.prune_events, retained),
            (sweep.prune_bodies, retained),
            (sweep.prune_faults, retained),
            (sweep.prune_ops, retained),
            (sweep.prune_rows, history),
        ):
            more, pages = True, 0
            while more and pages < PAGES:
                _, more = await self._database.write(lambda tx: prune(tx, before, PAGE))  # noqa: B023 - awaited here
                pages += 1
            complete = complete and not more
        return complete


DEADLINES: Final = frozenset(
    {
        *("role_presence", "item_created", "item_updated", "item_claimed", "lease_renewed", "item_unblocked"),
        *("item_released", "item_closed", "edge_changed", "unlinked", "attention_paused"),
    }
)
"""Events that may bring a due time which is earlier than the known ones."""


def _has_deadline(event: Event) -> bool:
    return event.type in DEADLINES or (event.type == "ledger_state" and b'"state":"queued"' in bytes(event.data))


def _pause(looked: Looked, others: bool, ttl_secs: int) -> Pause:
    pause = BACKSTOP_S
    if looked.next_due is not None:
        pause = min(pause, max(0.0, (looked.next_due - looked.now) / 1000))
    if others or ttl_secs:
        pause = min(pause, FOREIGN_S)
    return Pause(pause, looked.next_due)
