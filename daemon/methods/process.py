"""`initialize` and what `daemon/*` says of the process."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from functools import lru_cache

from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.times import rfc3339
from interlock.protocol import daemon as contract
from interlock.protocol import openrpc
from interlock.protocol.limits import LIMITS
from interlock.protocol.methods import CAPABILITIES, METHODS
from interlock.stores import faults, listing, schema
from interlock.stores.tx import Snapshot

from .. import backup, doctor, leadership, metrics
from ..dispatch import Call, on_loop
from ..places import LOCK
from ..services import Services
from ..version import VERSION

STATUS_READ_S = 0.08
"""How long `daemon/status` waits for the store: it answers within 100 ms whatever happens to it."""
PROBE_AGE_MS = 10_000


@on_loop(contract.INITIALIZE)
async def initialize(call: Call, params: contract.InitializeParams) -> contract.InitializeResult:
    return contract.InitializeResult(
        server_info=contract.ServerInfo(name="interlock", version=VERSION),
        protocol_version=1,
        capabilities=sorted(CAPABILITIES),
        limits=LIMITS,
    )


@on_loop(contract.PING)
async def ping(call: Call, params: contract.NoParams) -> contract.PingResult:
    services = call.services
    return contract.PingResult(now=rfc3339(services.clock.now_ms()), instance_id=services.instance_id)


@on_loop(contract.STATUS)
async def status(call: Call, params: contract.NoParams) -> contract.Status:
    return await status_of(call.services)


async def status_of(services: Services) -> contract.Status:
    """What is known now; what the store does not say in time is left out."""
    state = services.state
    counted = await _counted(services) if services.opened else None
    failed = services.database.failed if services.opened else None
    _probe_again(services)
    return contract.Status(
        state="failed" if failed and state.name == "ready" else state.name,
        reason=state.reason or failed,
        version=VERSION,
        instance_id=services.instance_id,
        pid=os.getpid(),
        started_at=rfc3339(services.started_ms),
        uptime_ms=services.clock.monotonic_ms() - services.started_monotonic_ms,
        kind=services.kind,
        leader=state.leader,
        leader_process=leader_process(services),
        socket=state.socket,
        state_dir=str(services.settings.state_dir),
        durability=services.settings.durability,
        event_head=counted.head if counted else None,
        event_floor=counted.floor if counted else None,
        connections=len(services.connections),
        requests_in_flight=sum(connection.requests_in_flight for connection in services.connections),
        subscriptions=sum(len(connection.subscriptions) for connection in services.connections),
        writer_queue=services.database.queue_length if services.opened else 0,
        loop_lag_ms=services.lag.worst_ms,
        probe_ms=state.probe_ms,
        messages=contract.MessageCounts(queued=counted.queued, in_flight=counted.in_flight) if counted else None,
        open_faults=counted.open_faults if counted else None,
        sqlite_version=sqlite3.sqlite_version,
        schema_version=len(schema.migrations()),
    )


async def _counted(services: Services) -> doctor.Counted | None:
    try:
        async with asyncio.timeout(STATUS_READ_S):
            return await services.database.read(count)
    except (TimeoutError, Refusal):
        return None


def count(snap: Snapshot) -> doctor.Counted:
    """The store's own numbers."""
    queued, in_flight = listing.counts(snap)
    open_faults = snap.execute(faults.COUNT_OPEN).fetchone()[0]
    return doctor.Counted(snap.head(), snap.floor(), queued, in_flight, open_faults)


def _probe_again(services: Services) -> None:
    """Write and read a row back beside the answer, so that the next status has a fresh figure."""
    now = services.clock.monotonic_ms()
    if services.state.name != "ready" or now - services.state.probed_at_ms < PROBE_AGE_MS:
        return
    services.state.probed_at_ms = now
    services.background(services.probe())


def leader_process(services: Services) -> contract.LeaderProcess | None:
    """Who leads the state directory, as the lock file says; None when nobody is known to."""
    owner = leadership.read_owner(services.settings.state_dir / LOCK)
    if owner is None or owner.kind not in ("daemon", "stdio"):
        return None
    return contract.LeaderProcess(
        instance_id=owner.instance_id,
        pid=owner.pid,
        kind="daemon" if owner.kind == "daemon" else "stdio",
        socket=owner.socket,
    )


@lru_cache(maxsize=1)
def _document() -> contract.DiscoverResult:
    document = openrpc.document(METHODS, version=VERSION)
    return contract.DiscoverResult(
        openrpc=document["openrpc"],
        info=document["info"],
        methods=document["methods"],
        components=document["components"],
        x_limits=document["x-limits"],
    )


@on_loop(contract.DISCOVER)
async def discover(call: Call, params: contract.NoParams) -> contract.DiscoverResult:
    return await call.connection.paced(_described)


async def _described() -> contract.DiscoverResult:
    return _document()


@on_loop(contract.METRICS)
async def read_metrics(call: Call, params: contract.NoParams) -> contract.MetricsResult:
    counted = await call.services.database.read(count)
    return contract.MetricsResult(content_type=metrics.CONTENT_TYPE, text=metrics.text(call.services, counted))


@on_loop(contract.DOCTOR)
async def examine(call: Call, params: contract.NoParams) -> contract.DoctorResult:
    findings = await doctor.examine(call.services)
    ok = all(finding.severity == "info" for finding in findings)
    return contract.DoctorResult(ok=ok, findings=findings)


@on_loop(contract.BACKUP)
async def back_up(call: Call, params: contract.BackupParams) -> contract.BackupResult:
    return await backup.back_up(call.services, params.path)


@on_loop(contract.SHUTDOWN)
async def shut_down(call: Call, params: contract.ShutdownParams) -> contract.ShutdownResult:
    call.after_reply.append(lambda: call.services.shut_down(params.drain_ms))
    return contract.ShutdownResult(state="draining")
