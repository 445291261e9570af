"""Counters of this process and their Prometheus text (contract daemon, `daemon/metrics`)."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .version import VERSION

if TYPE_CHECKING:
    from .doctor import Counted
    from .services import Services

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """What this process counts. Durations are in seconds."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        self.request_seconds: defaultdict[str, float] = defaultdict(float)
        self.subscription_lagged = 0
        self.sweep_passes = 0
        self.sweep_failures = 0
        self.sweep_seconds = 0.0

    def request(self, method: str, code: str, seconds: float) -> None:
        """Count one answered request; an unknown method is counted under the empty name."""
        self.requests[method, code] += 1
        self.request_seconds[method] += seconds

    def swept(self, seconds: float, *, failed: bool) -> None:
        """Count one pass of the sweeper."""
        self.sweep_passes += 1
        self.sweep_seconds += seconds
        self.sweep_failures += failed


class Family(NamedTuple):
    """One metric: its samples are (labels, value). A summary's samples carry `_sum` or `_count` in `suffix`."""

    name: str
    kind: str
    help: str
    samples: Sequence[tuple[str, Mapping[str, str], float]]


def render(families: Iterable[Family]) -> str:
    """Prometheus text: one HELP and TYPE per name, each with the prefix `interlock_`."""
    lines: list[str] = []
    for family in families:
        name = f"interlock_{family.name}"
        lines += [f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}"]
        lines += [f"{name}{suffix}{_labels(labels)} {_number(value)}" for suffix, labels, value in family.samples]
    return "\n".join(lines) + "\n"


def _one(name: str, kind: str, help_: str, value: float, labels: Mapping[str, str] | None = None) -> Family:
    return Family(name, kind, help_, [("", labels or {}, value)])


def text(services: Services, counted: Counted) -> str:
    """All metrics of the process and the store."""
    return render([*_gauges(services, counted), *_counters(services), *_summaries(services)])


def _gauges(services: Services, counted: Counted) -> Iterator[Family]:
    build = {"version": VERSION, "sqlite": sqlite3.sqlite_version}
    connections = services.connections
    yield _one("build_info", "gauge", "The running program.", 1, build)
    yield _one("leader", "gauge", "Whether this process leads the state directory.", services.state.leader)
    yield _one("connections", "gauge", "Open connections.", len(connections))
    yield _one("requests_in_flight", "gauge", "Requests begun.", sum(c.requests_in_flight for c in connections))
    yield _one("subscriptions", "gauge", "Open subscriptions.", sum(len(c.subscriptions) for c in connections))
    yield _one("writer_queue", "gauge", "Jobs waiting for the writer.", services.database.queue_length)
    yield _one("loop_lag_seconds", "gauge", "Worst delay of the loop in a minute.", services.lag.worst_ms / 1000)
    yield _one("wal_bytes", "gauge", "Size of the write-ahead log.", services.database.stats.wal_bytes())
    yield _one("event_head", "gauge", "Highest seq of the feed.", counted.head)
    states = [("", {"state": "queued"}, counted.queued), ("", {"state": "in_flight"}, counted.in_flight)]
    yield Family("messages", "gauge", "Live messages by state.", states)
    yield _one("open_faults", "gauge", "Open faults.", counted.open_faults)


def _counters(services: Services) -> Iterator[Family]:
    metrics, stats = services.metrics, services.database.stats
    requests = [("", {"method": m, "code": c}, float(n)) for (m, c), n in sorted(metrics.requests.items())]
    yield Family("requests_total", "counter", "Answered requests.", requests)
    yield _one("writer_jobs_total", "counter", "Jobs the writer ran.", stats.jobs)
    yield _one("writer_commits_total", "counter", "Transactions that changed something.", stats.commits)
    changed = stats.counters.get("session_writes", 0)
    yield _one("session_writes_total", "counter", "Statements that changed the sessions table.", changed)
    yield _one("subscription_lagged_total", "counter", "Subscriptions ended as lagged.", metrics.subscription_lagged)
    requeued = stats.counters.get("messages_requeued", 0)
    yield _one("messages_requeued_total", "counter", "Messages put back into the queue.", requeued)
    yield _one("sweep_passes_total", "counter", "Passes of the sweeper.", metrics.sweep_passes)
    yield _one("sweep_failures_total", "counter", "Passes that failed.", metrics.sweep_failures)
    yield Family("hook_runs_total", "counter", "Runs of hooks by result.", [])


def _summaries(services: Services) -> Iterator[Family]:
    metrics, stats = services.metrics, services.database.stats
    counts: Counter[str] = Counter()
    for (method, _), n in metrics.requests.items():
        counts[method] += n
    samples: list[tuple[str, Mapping[str, str], float]] = []
    for method, n in sorted(counts.items()):
        samples += [("_sum", {"method": method}, metrics.request_seconds[method]), ("_count", {"method": method}, n)]
    yield Family("request_seconds", "summary", "Time to answer a request.", samples)
    yield _summary("commit_seconds", "Time of a COMMIT.", stats.commit_seconds, stats.commits)
    yield _summary("sweep_seconds", "Time of a pass of the sweeper.", metrics.sweep_seconds, metrics.sweep_passes)


def _summary(name: str, help_: str, total: float, count: int) -> Family:
    return Family(name, "summary", help_, [("_sum", {}, total), ("_count", {}, count)])


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    escaped = (
        (key, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")) for key, value in labels.items()
    )
    return "{" + ",".join(f'{key}="{value}"' for key, value in escaped) + "}"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
