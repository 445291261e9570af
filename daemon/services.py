"""What every request can reach: built once by `app`, handed to each connection."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from interlock.admission import sidecar
from interlock.admission.gate import Gate
from interlock.lifecycle.delivery import RequeuePolicy
from interlock.lifecycle.refusal import Refusal
from interlock.protocol.limits import ADMISSION_WAIT_MS
from interlock.protocol.mobkit_errors import PREFIX
from interlock.stores import presence
from interlock.stores.clock import Clock
from interlock.stores.database import Database
from interlock.stores.ids import Ids

from .admitting import Runtimes
from .health import LoopLag
from .hub import Hub
from .instances import dead_instances
from .leadership import read_owner
from .logs import get_logger
from .metrics import Metrics
from .places import LOCK
from .settings import Settings

if TYPE_CHECKING:
    from .connection import Connection
    from .dispatch import Bound

COMPARED: Final = 64
"""Characters of an unknown method that are compared: a name of megabytes must not hold the loop."""

StateName = Literal["starting", "ready", "draining", "failed"]


class ProcessState:
    """How this process stands; what `daemon/status` reports of it."""

    def __init__(self) -> None:
        self._name: StateName = "starting"
        self.started = asyncio.Event()
        """Set once it is no longer `starting`."""
        self.reason: str | None = None
        self.leader = False
        self.socket: str | None = None
        self.probe_ms: int | None = None
        self.probed_at_ms = 0

    @property
    def name(self) -> StateName:
        """What `daemon/status` calls it."""
        return self._name

    @name.setter
    def name(self, name: StateName) -> None:
        self._name = name
        self.started.set()


class Services:
    """The process's parts. `database` and `hub` are there once the process is no longer `starting`."""

    def __init__(
        self,
        *,
        settings: Settings,
        kind: Literal["daemon", "stdio"],
        instance_id: str,
        clock: Clock,
        ids: Ids,
        methods: Mapping[str, Bound],
        lag: LoopLag,
        on_shutdown: Callable[[int], None],
    ) -> None:
        self.settings = settings
        self.kind: Literal["daemon", "stdio"] = kind
        self.instance_id = instance_id
        self.clock = clock
        self.ids = ids
        self.methods = methods
        self.lag = lag
        self.shut_down = on_shutdown
        self.started_ms = clock.now_ms()
        self.started_monotonic_ms = clock.monotonic_ms()
        self.state = ProcessState()
        self.metrics = Metrics()
        self.connections: set[Connection] = set()
        self.policy = RequeuePolicy(settings.ledger.requeue_max_attempts, settings.ledger.requeue_ttl_secs)
        self.history_ms = (settings.ledger.history_days - settings.ledger.retention_days) * 86_400_000
        """How much longer final rows are kept than events are."""
        self.gate = Gate(settings.state_dir / sidecar.NAME, ADMISSION_WAIT_MS)
        self.runtimes = Runtimes()
        self.log = get_logger("interlock")
        self.on_connection_gone: Callable[[Connection], Awaitable[None]] | None = None
        self._database: Database | None = None
        self._hub: Hub | None = None
        self._background: set[asyncio.Task[Any]] = set()

    def open(self, database: Database, hub: Hub) -> None:
        """The store is there."""
        self._database, self._hub = database, hub

    @property
    def opened(self) -> bool:
        """Whether the store is there."""
        return self._database is not None

    @property
    def database(self) -> Database:
        """The store. Raises `starting` before it is open."""
        if self._database is None:
            raise self.not_ready()
        return self._database

    @property
    def hub(self) -> Hub:
        """The event hub. Raises `starting` before the store is open."""
        if self._hub is None:
            raise self.not_ready()
        return self._hub

    def not_ready(self) -> Refusal:
        """Why a request is not taken now (contract daemon 1.7)."""
        if self.state.name == "draining":
            return Refusal("draining", "the daemon is stopping", retry_after_ms=1000)
        if self.state.name == "failed":
            return Refusal("store_failed", self.state.reason or "the store cannot be used")
        return Refusal("starting", "the daemon is not ready yet", retry_after_ms=200)

    def no_method(self, name: str) -> Refusal:
        """The refusal of a method that does not exist, with the nearest that does."""
        of_mobkit = name.startswith(PREFIX)
        candidates = [known for known in self.methods if known.startswith(PREFIX) == of_mobkit and known != name]
        near = difflib.get_close_matches(name[:COMPARED], candidates, 1, 0.0)
        return Refusal("method_not_found", f"there is no method {name[:256]}", expected=near[0])

    def bug(self, what: str) -> Refusal:
        """Log the exception that is being handled; what the client gets is an id to find it by, nothing else."""
        error_id = self.ids.new("error", self.clock.now_ms())
        self.log.exception("internal_error", error_id=error_id, method=what)
        return Refusal("internal", "an internal error; the log has it under error_id", error_id=error_id)

    async def probe(self) -> None:
        """Write and read back the probe row; what fails is in `database.failed` and the log."""
        try:
            self.state.probe_ms = round(await self.database.probe())
        except Refusal as refusal:
            self.log.warning("probe_failed", code=refusal.code)

    async def tell(self, type_: str, data: dict[str, object]) -> None:
        """Record an event about this process (contract daemon 2.4)."""
        await self.database.write(lambda tx: tx.emit("daemon", type_, self.instance_id, data))

    async def attached_roles(self, holder: str) -> list[str]:
        """The roles that a connection is attached to, as the store knows it."""
        return await self.database.read(lambda snap: presence.roles_of(snap, self.instance_id, holder))

    def leader_alive(self) -> bool:
        """Whether a process that the lock file names as leader lives."""
        owner = read_owner(self.settings.state_dir / LOCK)
        return owner is not None and not dead_instances(self.settings.state_dir, [owner.instance_id])

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something to its end beside the requests; a failure is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.log.error("background_failed", error=repr(error))

    async def background_done(self) -> None:
        """Until nothing runs in the background."""
        while self._background:
            await asyncio.wait(list(self._background))

    async def connection_gone(self, connection: Connection) -> None:
        """What must happen to a connection's roles and mail once it has gone."""
        if self.on_connection_gone is not None:
            await self.on_connection_gone(connection)
