"""The composition root: builds the parts, and owns the order in which they start and stop (DESIGN 5.2)."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from interlock.lifecycle.refusal import Refusal
from interlock.stores.clock import SystemClock
from interlock.stores.database import Database
from interlock.stores.health import STORE
from interlock.stores.ids import Ids

from . import dispatch, sdnotify, stdio
from .connection import Connection
from .health import LoopLag
from .hub import Hub
from .instances import Presence
from .leader import Leadership
from .leadership import AlreadyRunning, Lock, StateDir, read_owner
from .methods import batch, delivery, feed, mail, process, roles, waiting
from .methods.delivery import let_go
from .services import Services
from .settings import Settings
from .stdio import Wire
from .tasks import end

DRAIN_MS: Final = 5000
STDIO_DRAIN_MS: Final = 1500
"""At the end of a stdio process's input: it must be gone within 2 s (field C04)."""
START_S: Final = 2.0
"""How long a stdio client's first requests wait for the store before they are answered `starting`."""
LOOKED_AT_S: Final = 0.05
CLOSING_S: Final = 0.3
"""How long a client may take to read its last answers once everything is answered."""


class App:
    """One process, from start to stop."""

    def __init__(self, settings: Settings, wire: Wire | None) -> None:
        clock, ids = SystemClock(), Ids()
        self._wire = wire
        self._stop = asyncio.Event()
        self._drain_ms = DRAIN_MS
        self._hurry = asyncio.Event()
        self._holders = itertools.count(1)
        self.services = Services(
            settings=settings,
            kind="stdio" if wire is not None else "daemon",
            instance_id=ids.new("instance", clock.now_ms()),
            clock=clock,
            ids=ids,
            methods=dispatch.collect(process, waiting, batch, roles, mail, delivery, feed),
            lag=LoopLag(),
            on_shutdown=self.stop,
        )
        self.services.on_connection_gone = self._connection_gone

    def stop(self, drain_ms: int) -> None:
        """Begin to stop. A second call can only shorten the time."""
        self._drain_ms = min(self._drain_ms, drain_ms) if self._stop.is_set() else drain_ms
        if self._stop.is_set():
            self._hurry.set()
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
        await asyncio.wait([opening], timeout=START_S)
        if opening.done():
            opening.result()
        client = await self._open_stdio() if self._wire is not None else None
        database = await opening
        hub = services.hub
        tasks = [
            asyncio.create_task(hub.run(), name="hub"),
            asyncio.create_task(services.lag.run(), name="lag"),
            asyncio.create_task(self._watch_idle(), name="idle"),
            asyncio.create_task(self._watchdog(), name="watchdog"),
        ]
        try:
            if leadership.held:
                await leadership.lead(must_listen=client is None)
            tasks.append(asyncio.create_task(leadership.run(), name="leadership"))
            services.state.name = "ready"
            services.log.info("ready", pid=os.getpid(), state_dir=str(services.settings.state_dir))
            sdnotify.notify("READY=1")
            self._on_ready()
            services.background(services.probe())
            await self._stop.wait()
            await self._drain(leadership)
        finally:
            services.state.name = "draining"
            await leadership.stop_sweeping()
            await end(tasks)
            await database.close()

    async def _open_stdio(self) -> Connection:
        holder = f"{self.services.instance_id}/{next(self._holders)}"
        client = Connection(self.services, holder, "stdio", on_end=lambda: self.stop(STDIO_DRAIN_MS))
        await stdio.open_stdio(client, self._wire)
        return client

    async def _open_database(self) -> Database:
        services, settings = self.services, self.services.settings
        hub: Hub | None = None
        database = await Database.open(
            settings.state_dir / STORE,
            clock=services.clock,
            ids=services.ids,
            durability=settings.durability,
            on_commit=lambda events: None if hub is None else hub.committed(events),
        )
        hub = Hub(database, await database.read(lambda snap: snap.head()))
        services.open(database, hub)
        return database

    async def _drain(self, leadership: Leadership) -> None:
        """Refuse new work, finish what runs, answer the rest, close (contract daemon 1.7)."""
        services = self.services
        services.state.name = "draining"
        services.log.info("draining", drain_ms=self._drain_ms)
        sdnotify.notify("STOPPING=1")
        leadership.stop_accepting()
        draining = services.not_ready()
        for connection in list(services.connections):
            connection.end_waiting(draining)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._drain_ms / 1000):
                await _first(self._hurry.wait(), _all_drained(services))
        for connection in list(services.connections):
            connection.cancel_all(draining)
            for subscription in list(connection.subscriptions.values()):
                subscription.close("draining")
        await self._close_connections()
        await services.background_done()

    async def _close_connections(self) -> None:
        connections = list(self.services.connections)
        for connection in connections:
            await connection.drained()
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
        """Let go of what a connection held (contract ledger 2.3). What fails here the leader does once we are gone."""
        if not connection.attached:
            return
        try:
            for role in await self.services.attached_roles(connection.caller.holder):
                await let_go(self.services, role, connection.caller.holder, "connection_lost")
        except Refusal as refusal:
            self.services.log.warning("release_failed", code=refusal.code, holder=connection.caller.holder)

    def listen_to_signals(self) -> None:
        """SIGTERM and SIGINT stop in order; the second one cuts the wait."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)

    def _signalled(self) -> None:
        self.stop(0 if self._stop.is_set() else self._drain_ms)

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
                self.stop(DRAIN_MS)
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


async def _all_drained(services: Services) -> None:
    for connection in list(services.connections):
        await connection.drained()


async def _first(*waits: object) -> None:
    """Until the first of several is done; the others are cancelled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]  # type: ignore[call-overload]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end(tasks)
