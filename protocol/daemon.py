"""`initialize` and `daemon/*`: params and results (contract daemon 3)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import field

from interlock.lifecycle.events import Event
from interlock.lifecycle.mail import MailKind, Record
from interlock.lifecycle.types import Count, Id, Name, OpId, Rule, Seq, Text4K, Time, WaitMs, meta
from interlock.lifecycle.work import OwnerKey

from .contract import Method, Params, Result
from .ledger_feed import EventFilter
from .limits import BATCH_STEPS, LEASE_SECONDS
from .workgraph import DEFAULT, FilterLabels


class NoParams(Params, frozen=True, kw_only=True):
    """A method without params."""


class InitializeParams(Params, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Any object; nothing in it is required, refused or remembered."""


class ServerInfo(Record, frozen=True, kw_only=True):
    """What this server is."""

    name: str
    version: str


class InitializeResult(Result, frozen=True, kw_only=True):
    """Nothing compares version numbers: capability names say what is there."""

    server_info: ServerInfo
    protocol_version: int
    capabilities: list[str]
    limits: dict[str, int]


class PingResult(Result, frozen=True, kw_only=True):
    """Alive."""

    now: Time
    instance_id: Id


class LeaderProcess(Record, frozen=True, kw_only=True):
    """The process that holds the lock."""

    instance_id: Id
    pid: int
    kind: Literal["daemon", "stdio"]
    socket: str | None = None


class MessageCounts(Record, frozen=True, kw_only=True):
    """Exact counts of live mail in the store."""

    queued: int
    in_flight: int


class Status(Result, frozen=True, kw_only=True):
    """This process and the store, as far as they can be read (contract daemon 2.2)."""

    state: Literal["starting", "ready", "draining", "failed"]
    reason: str | None = None
    version: str
    instance_id: Id
    pid: int
    started_at: Time
    uptime_ms: Count
    kind: Literal["daemon", "stdio"]
    leader: bool
    leader_process: LeaderProcess | None = None
    socket: str | None = None
    state_dir: str
    durability: Literal["full", "normal"]
    event_head: Seq | None = None
    event_floor: Seq | None = None
    connections: int
    requests_in_flight: int
    subscriptions: int
    writer_queue: int
    loop_lag_ms: Count
    probe_ms: Count | None = None
    messages: MessageCounts | None = None
    open_faults: int | None = None
    sqlite_version: str
    schema_version: int | None = None


class DiscoverResult(Result, frozen=True, kw_only=True):
    """An OpenRPC document."""

    openrpc: str
    info: dict[str, Any]
    methods: list[Any]
    components: dict[str, Any]
    x_limits: dict[str, int] = field(name="x-limits")


class MetricsResult(Result, frozen=True, kw_only=True):
    """Prometheus text."""

    content_type: str
    text: str


Severity = Literal["info", "warning", "error"]


class Finding(Record, frozen=True, kw_only=True):
    """One thing that `daemon/doctor` noticed (contract daemon 2.3)."""

    code: str
    severity: Severity
    message: str
    remedy: str | None = None
    subject: str | None = None


class DoctorResult(Result, frozen=True, kw_only=True):
    """`ok` where no finding is a warning or an error; worst first."""

    ok: bool
    findings: list[Finding]


class BackupParams(Params, frozen=True, kw_only=True):
    """Where to: an absolute path that does not exist yet, in a directory that does."""

    path: Text4K


class BackupFile(Record, frozen=True, kw_only=True):
    """One file of a backup."""

    name: str
    bytes: int
    sha256: str


class BackupResult(Result, frozen=True, kw_only=True):
    """Also the backup's `manifest.json`."""

    path: str
    event_head: Seq
    taken_at: Time
    files: list[BackupFile]


WithinMs = Annotated[int, meta(Rule(kind="limit", max=LEASE_SECONDS * 1000), minimum=0, maximum=LEASE_SECONDS * 1000)]
DrainMs = Annotated[int, meta(Rule(kind="limit", max=60_000), minimum=0, maximum=60_000)]


class ShutdownParams(Params, frozen=True, kw_only=True):
    """How long requests that run may take."""

    drain_ms: DrainMs = 5000


class ShutdownResult(Result, frozen=True, kw_only=True):
    """Sent before the process drains."""

    state: Literal["draining"]


class MailCondition(Record, frozen=True, kw_only=True):
    """Holds when a pull with these would be given something now."""

    role: Name
    session: Name | None = None
    kinds: Annotated[list[MailKind], meta(Rule(kind="list", min=1, max=4), minItems=1, maxItems=4)] | None = None


class ItemReadyCondition(Record, frozen=True, kw_only=True):
    """Holds when an item is ready that carries all these labels."""

    labels: FilterLabels = field(default_factory=list)
    realm_id: Id = DEFAULT
    namespace: Id = DEFAULT


class LeaseEndingCondition(Record, frozen=True, kw_only=True):
    """Holds when a live claim, of that owner if one is named, ends within that time."""

    owner: OwnerKey | None = None
    within_ms: WithinMs
    realm_id: Id = DEFAULT
    namespace: Id = DEFAULT


class WaitFilter(Record, frozen=True, kw_only=True):
    """The alternatives; at least one."""

    mail: MailCondition | None = None
    events: EventFilter | None = None
    item_ready: ItemReadyCondition | None = None
    lease_ending: LeaseEndingCondition | None = None


class WaitParams(Params, frozen=True, kw_only=True):
    """One wait for everything."""

    filter: WaitFilter
    after_seq: Seq | None = None
    timeout_ms: WaitMs = 30_000


class WaitResult(Result, frozen=True, kw_only=True):
    """`matched` is empty at the time-out; `event` is the lowest that matched."""

    matched: list[str]
    as_of_seq: Seq
    event: Event | None = None


class Step(Record, frozen=True, kw_only=True):
    """One step: a method that says `batch: yes`. `{"$ref": "/0/msg_id"}` stands for a value of an earlier result."""

    method: str
    params: dict[str, Any] | None = None


class BatchParams(Params, frozen=True, kw_only=True):
    """Steps that commit together or not at all."""

    steps: Annotated[list[Step], meta(Rule(kind="list", min=1, max=BATCH_STEPS), minItems=1, maxItems=BATCH_STEPS)]
    op_id: OpId | None = None


class BatchResult(Result, frozen=True, kw_only=True):
    """Each step's own result, in order."""

    results: list[Any]
    replayed: bool = False


INITIALIZE = Method(
    name="initialize",
    summary="What this server is and can do",
    params=InitializeParams,
    result=InitializeResult,
    kind="read",
)
PING = Method(
    name="daemon/ping", summary="Answer at once, touching no store", params=NoParams, result=PingResult, kind="read"
)
STATUS = Method(
    name="daemon/status",
    summary="The state of this process and of the store",
    params=NoParams,
    result=Status,
    kind="read",
)
DISCOVER = Method(
    name="daemon/discover",
    summary="Every method with its schemas, as an OpenRPC document",
    params=NoParams,
    result=DiscoverResult,
    kind="read",
    aliases=("rpc.discover",),
)
METRICS = Method(
    name="daemon/metrics",
    summary="Counters and gauges as Prometheus text",
    params=NoParams,
    result=MetricsResult,
    kind="read",
)
DOCTOR = Method(
    name="daemon/doctor",
    summary="Look for what is wrong and say what to do",
    params=NoParams,
    result=DoctorResult,
    kind="async",
)
BACKUP = Method(
    name="daemon/backup",
    summary="Copy every store into a new directory while writes go on",
    params=BackupParams,
    result=BackupResult,
    kind="async",
    operator_only=True,
    errors=("not_admin", "store_failed"),
)
SHUTDOWN = Method(
    name="daemon/shutdown",
    summary="Finish what runs, then stop",
    params=ShutdownParams,
    result=ShutdownResult,
    kind="async",
    operator_only=True,
    errors=("not_admin", "limit_out_of_range"),
)
WAIT = Method(
    name="daemon/wait",
    summary="Wait until mail, an event or work is there",
    params=WaitParams,
    result=WaitResult,
    kind="async",
    errors=("not_found", "cursor_expired", "cursor_ahead", "limit_out_of_range", "at_capacity"),
)
BATCH = Method(
    name="daemon/batch",
    summary="Run up to 64 writes in one transaction, all or nothing",
    params=BatchParams,
    result=BatchResult,
    kind="write",
    idempotent="op_id",
    kept_as_history=True,
    errors=("op_conflict", "admission_lock_timeout", "unavailable"),
)

METHODS = (INITIALIZE, PING, STATUS, DISCOVER, METRICS, DOCTOR, BACKUP, SHUTDOWN, WAIT, BATCH)
