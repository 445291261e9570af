"""The composition root: builds the parts, and owns the order in which they start and stop (DESIGN 5.2)."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from interlock.lifecycle.events import Event
from interlock.lifecycle.refusal import Refusal
from interlock.stores.clock import SystemClock
from interlock.stores.database import Database
from interlock.stores.health import STORE
from interlock.stores.ids import Ids

from . import dispatch, sdnotify, stdio
from .audit import audit
from .connection import Connection
from .health import LoopLag
from .hub import Hub
from .instances import Presence
from .leader import Leadership
from .leadership import AlreadyRunning, Lock, StateDir, read_owner
from .methods import (
    attention,
    batch,
    delivery,
    feed,
    goals,
    graph,
    items,
    mail,
    members,
    mobkit,
    process,
    roles,
    waiting,
)
from .methods.delivery import let_go
from .services import Services
from .settings import Settings
from .stdio import Wire
from .tasks import end

DRAIN_MS: Final = 5000
STDIO_DRAIN_MS: Final = 1500
"""At the end of a stdio process's input: it must be gone within 2 s (field C04)."""
START_S: Final = 1.0
"""How long a stdio client's first requests wait for the store before they are answered `starting`."""
LOOKED_AT_S: Final = 0.05
AGAIN_S: Final = 1.0
"""How long to wait before the store is asked again to take back what a lost connection held."""
CLOSING_S: Final = 0.3
"""How long a client may take to read its last answers once everything is answered."""


class App:
    """One process, from start to stop."""

    def __init__(self, settings: Settings, wire: Wire | None) -> None:
        clock, ids = SystemClock(), Ids()
        self._wire = wire
        self._joined = False
        self._stop = asyncio.Event()
        self.why: str | None = None
        """What the process was stopped by; None while it was not."""
        self._drain_until: float | None = None
        self._draining: asyncio.Timeout | None = None
        self._holders = itertools.count(1)
        self.services = Services(
            settings=settings,
            kind="stdio" if wire is not None else "daemon",
            instance_id=ids.new("instance", clock.now_ms()),
            clock=clock,
            ids=ids,
            methods=mobkit.with_aliases(
                dispatch.collect(
                    *(process, waiting, batch, roles, mail, delivery, feed),
                    *(items, graph, goals, attention, members, mobkit),
                )
            ),
            lag=LoopLag(),
            on_shutdown=self.stop,
        )
        self.services.on_connection_gone = self._connection_gone

    def stop(self, drain_ms: int, why: str = "daemon/shutdown") -> None:
        """Begin to stop. A second call can only shorten the time."""
        self.why = self.why or why
        until = asyncio.get_running_loop().time() + drain_ms / 1000
        self._drain_until = until if self._drain_until is None else min(self._drain_until, until)
        if self._draining is not None and not self._draining.expired():
            self._draining.reschedule(self._drain_until)
        self._stop.set()

    async def run(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """Serve until stopped. Raises StartError, StoreUnusable."""
        self._on_ready = on_ready
        services, settings = self.services, self.services.settings
        directory = StateDir.take(settings.state_dir)
        if directory.narrowed:
            services.log.warning("state_dir_narrowed", path=str(directory.path))
        leadership = Leadership(services, Lock(directory.lock_path), self._holders)
        if not await self._bid(leadership) and self._wire is None:
            raise AlreadyRunning(directory.path, read_owner(directory.lock_path))
        presence = Presence(directory.path, services.instance_id)
        try:
            await self._serve(leadership)
        finally:
            leadership.give_up()
            presence.release()

    async def _bid(self, leadership: Leadership) -> bool:
        """Try for the lock, twice: `interlock status` looks at it by sharing it for a moment."""
        if leadership.try_lock():
            return True
        await asyncio.sleep(LOOKED_AT_S)
        return leadership.try_lock()

    async def _serve(self, leadership: Leadership) -> None:
        services = self.services
        opening = asyncio.create_task(self._open_database(), name="open")
        # A client that speaks at once gets its answers a moment later. Only where the start takes long, because another
        # process migrates the store, it is told `starting`.
        await self._unless_stopped(opening, START_S)
        if self._wire is not None and not opening.done():
            await self._open_stdio()
            await self._unless_stopped(opening)
        if not opening.done():
            await end([opening])
            await self._drain(leadership)
            return
        database = await opening
        tasks = [
            asyncio.create_task(services.hub.run(), name="hub"),
            asyncio.create_task(services.lag.run(), name="lag"),
            asyncio.create_task(self._watch_idle(), name="idle"),
            asyncio.create_task(self._watchdog(), name="watchdog"),
        ]
        try:
            await self._begin(leadership, tasks)
            await self._stop.wait()
            await self._drain(leadership)
        finally:
            services.state.name = "draining"
            await leadership.stop_sweeping()
            await end(tasks)
            await database.close()
            services.gate.close()

    async def _unless_stopped(self, opening: asyncio.Task[Database], timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Until the store is open, but no longer than until we are told to stop."""
        stopped = asyncio.create_task(self._stop.wait(), name="stopped")
        await asyncio.wait([opening, stopped], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        await end([stopped])

    async def _begin(self, leadership: Leadership, tasks: list[asyncio.Task[None]]) -> None:
        """Be ready first, then let clients in: nobody who comes after the start is told `starting`."""
        services = self.services
        services.state.name = "ready"
        if leadership.held:
            await leadership.lead(must_listen=self._wire is None)
        tasks.append(asyncio.create_task(leadership.run(), name="leadership"))
        if self._wire is not None and not self._joined:
            await self._open_stdio()
        services.log.info("ready", pid=os.getpid(), state_dir=str(services.settings.state_dir))
        sdnotify.notify("READY=1")
        self._on_ready()
        services.background(services.probe())

    async def _open_stdio(self) -> None:
        self._joined = True
        holder = f"{self.services.instance_id}/{next(self._holders)}"
        client = Connection(self.services, holder, "stdio", on_end=lambda: self.stop(STDIO_DRAIN_MS, "end of input"))
        await stdio.open_stdio(client, self._wire)

    async def _open_database(self) -> Database:
        services, settings = self.services, self.services.settings
        hub: Hub | None = None

        def committed(events: list[Event]) -> None:
            audit(services.log, events)
            if hub is not None:
                hub.committed(events)

        database = await Database.open(
            settings.state_dir / STORE,
            clock=services.clock,
            ids=services.ids,
            durability=settings.durability,
            on_commit=committed,
        )
        hub = Hub(database, await database.read(lambda snap: snap.head()))
        services.open(database, hub)
        return database

    async def _drain(self, leadership: Leadership) -> None:
        """Refuse new work, finish what runs, answer the rest, close (contract daemon 1.7)."""
        services = self.services
        services.state.name = "draining"
        services.log.info("draining")
        sdnotify.notify("STOPPING=1")
        leadership.stop_accepting()
        draining = services.not_ready()
        for connection in list(services.connections):
            connection.begin_to_drain(draining)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._drain_until) as self._draining:
                for connection in list(services.connections):
                    await connection.drained()
        self._draining = None
        if services.opened:
            services.database.hurry()
        for connection in list(services.connections):
            connection.cut(draining)
            connection.close_subscriptions("draining")
        await self._close_connections()
        await services.background_done()

    async def _close_connections(self) -> None:
        connections = list(self.services.connections)
        for connection in connections:
            await connection.settled()
            connection.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                for connection in connections:
                    await connection.gone.wait()
        for connection in connections:
            connection.transport.abort()
        for connection in connections:
            await connection.gone.wait()

    async def _connection_gone(self, connection: Connection) -> None:
        """Let go of what a connection held (contract ledger 2.3), again and again while the store does not take it.

        What still fails when we stop the next leader does once we are gone.
        """
        holder = connection.caller.holder
        released = not connection.attached
        while not released:
            try:
                for role in await self.services.attached_roles(holder):
                    await let_go(self.services, role, holder, "connection_lost")
                released = True
            except Refusal as refusal:
                self.services.log.warning("release_failed", code=refusal.code, holder=holder)
                with suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN_S):
                        await self._stop.wait()
                released = self._stop.is_set()

    def listen_to_signals(self) -> None:
        """SIGTERM and SIGINT stop in order; the second one cuts the wait."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)

    def _signalled(self) -> None:
        self.stop(0 if self._stop.is_set() else DRAIN_MS, "signal")

    async def _watch_idle(self) -> None:
        """Leave after `--idle-exit` seconds without a connection and without mail in flight."""
        seconds = self.services.settings.idle_exit_seconds
        idle_since: float | None = None
        loop = asyncio.get_running_loop()
        while seconds:
            await asyncio.sleep(min(1.0, seconds / 2))
            if self.services.connections or await self._in_flight():
                idle_since = None
            elif idle_since is None:
                idle_since = loop.time()
            elif loop.time() - idle_since >= seconds:
                self.services.log.info("idle")
                self.stop(DRAIN_MS, "idle")
                return

    async def _in_flight(self) -> int:
        try:
            return (await self.services.database.read(process.count)).in_flight
        except Refusal:
            return 1

    async def _watchdog(self) -> None:
        """Tell systemd that the loop turns and the store works, if it asked to be told."""
        interval = sdnotify.watchdog_seconds()
        while interval:
            await asyncio.sleep(interval / 2)
            await self.services.probe()
            if self.services.database.failed is None:
                sdnotify.notify("WATCHDOG=1")
