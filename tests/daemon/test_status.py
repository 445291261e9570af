"""What the process says of itself: status, metrics, doctor."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from interlock.daemon.version import VERSION
from interlock.lifecycle.times import parse_rfc3339
from tests.e2e.support import locked, note, until
from tests.harness import Client, Served, served

LONG_AGO_MS = 11 * 60_000


def change(daemon: Served, statement: str, *values: object) -> None:
    """Change the store behind the daemon's back: time cannot be waited for."""
    with closing(sqlite3.connect(daemon.state_dir / "interlock.sqlite3")) as conn, conn:
        assert conn.execute(statement, values).rowcount > 0


async def findings(client: Client) -> dict[str, dict[str, Any]]:
    """What doctor finds, by code."""
    report = await client.call("daemon/doctor")
    severities = [finding["severity"] for finding in report["findings"]]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)
    assert report["ok"] == (not set(severities) & {"error", "warning"})
    return {finding["code"]: finding for finding in report["findings"]}


async def test_status_says_who_it_is_and_how_it_stands(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client(role="w") as client, daemon.client() as other:
        for n in range(3):
            await other.call("ledger/send", **note(n))
        await client.call("ledger/pull", limit=1)
        await client.call("ledger/events/subscribe")
        status = await other.call("daemon/status")
        assert status["state"] == "ready"
        assert (status["version"], status["pid"], status["kind"]) == (VERSION, os.getpid(), "daemon")
        assert status["leader"]
        assert status["leader_process"] == {
            "instance_id": status["instance_id"],
            "pid": os.getpid(),
            "kind": "daemon",
            "socket": str(daemon.socket),
        }
        assert (status["socket"], status["state_dir"]) == (str(daemon.socket), str(daemon.state_dir))
        assert status["durability"] == "full"
        assert status["event_head"] == (await other.call("ledger/events/head"))["head"]
        assert (status["connections"], status["requests_in_flight"], status["subscriptions"]) == (2, 1, 1)
        assert status["messages"] == {"queued": 2, "in_flight": 1}
        assert (status["open_faults"], status["writer_queue"]) == (0, 0)
        assert status["sqlite_version"] == sqlite3.sqlite_version
        assert status["schema_version"] >= 1
        assert status["uptime_ms"] >= 0
        now = (await other.call("daemon/ping"))["now"]
        assert parse_rfc3339(status["started_at"]) <= parse_rfc3339(now)
        assert "reason" not in status


async def test_the_probe_is_measured_soon(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:

        async def measured() -> bool:
            return "probe_ms" in await client.call("daemon/status")

        await until(measured)


async def test_status_is_answered_while_a_write_is_held(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client, daemon.client() as other:
        with locked(daemon.state_dir / "interlock.sqlite3"):
            sending = [client.start("ledger/send", **note(n)) for n in range(3)]
            await client.call("daemon/ping")
            status = await other.call("daemon/status")
            assert status["state"] == "ready"
            assert status["requests_in_flight"] == 4
            assert not sending[0].done()
        for answer in sending:
            assert "result" in await answer


async def test_metrics_are_prometheus_text_with_one_help_and_type_per_name(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client:
        await client.call("ledger/send", **note(1))
        await client.refused("ledger/send", to="nobody", kind="note", body={"text": "x"})
        await client.refused("no/such/method")
        read = await client.call("daemon/metrics")
        assert read["content_type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert read["text"].endswith("\n")
        lines = read["text"].splitlines()
        helps = [line.split(" ")[2] for line in lines if line.startswith("# HELP ")]
        types = [line.split(" ")[2] for line in lines if line.startswith("# TYPE ")]
        assert helps == types
        assert len(helps) == len(set(helps))
        names = {line.split("{")[0].split(" ")[0] for line in lines if not line.startswith("#")}
        known = {f"{name}{end}" for name in types for end in ("", "_sum", "_count")}
        assert names <= known
        for wanted in (
            'interlock_requests_total{method="ledger/send",code="ok"} 1',
            'interlock_requests_total{method="ledger/send",code="not_found"} 1',
            'interlock_messages{state="queued"} 1',
            "interlock_leader 1",
            "interlock_connections 1",
        ):
            assert wanted in lines, wanted
        assert "no/such" not in read["text"]


GAUGES = (
    *("build_info", "leader", "connections", "requests_in_flight", "subscriptions", "writer_queue", "loop_lag_seconds"),
    *("wal_bytes", "event_head", "messages", "open_faults", "requests_total", "writer_jobs_total"),
    *("writer_commits_total", "session_writes_total", "subscription_lagged_total", "messages_requeued_total"),
    *("sweep_passes_total", "sweep_failures_total", "hook_runs_total", "request_seconds", "commit_seconds"),
    "sweep_seconds",
)


@pytest.mark.parametrize("name", GAUGES)
async def test_each_metric_of_the_contract_is_there(tmp_path: Path, name: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        assert f"# TYPE interlock_{name} " in (await client.call("daemon/metrics"))["text"]


# -- doctor


async def test_a_healthy_daemon_is_ok(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        assert set(await findings(client)) <= {"sqlite_wal_reset_bug", "disk_low"}


async def test_modes_that_were_widened_are_found_with_the_remedy(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        daemon.state_dir.chmod(0o755)
        daemon.socket.chmod(0o666)
        found = await findings(client)
        for code, path in (("state_dir_mode", daemon.state_dir), ("socket_mode", daemon.socket)):
            assert found[code]["severity"] == "error"
            assert found[code]["subject"] == str(path)
            assert str(path) in found[code]["remedy"]


async def test_mail_that_waits_for_nobody_is_found(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client:
        await client.call("ledger/send", **note(1))
        assert "mail_unattended" not in await findings(client)
        change(daemon, "UPDATE messages SET enqueued_at = enqueued_at - ?", LONG_AGO_MS)
        found = await findings(client)
        assert (found["mail_unattended"]["severity"], found["mail_unattended"]["subject"]) == ("warning", "w")
        await client.call("ledger/attach", role="w")
        assert "mail_unattended" not in await findings(client)


async def test_mail_that_nobody_holds_is_found(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client:
        await client.call("ledger/send", **note(1))
        async with daemon.client(role="w") as consumer:
            await consumer.call("ledger/pull")
            change(daemon, "UPDATE messages SET offered_at = offered_at - ?", LONG_AGO_MS)
            assert "held_by_nobody" not in await findings(client)
            change(daemon, "UPDATE messages SET holder = 'gone/1'")
            found = await findings(client)
            assert (found["held_by_nobody"]["severity"], found["held_by_nobody"]["subject"]) == ("warning", "w")


async def test_open_faults_are_found(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await client.call("ledger/fault/record", kind="delivery", reason="it broke", task_id="t")
        assert "1 fault" in (await findings(client))["open_faults"]["message"]


async def test_clocks_that_jumped_are_found_for_an_hour(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await daemon.app.services.tell("suspend", {"gap_ms": 90_000})
        await daemon.app.services.tell("clock_step", {"step_ms": -5000})
        found = await findings(client)
        assert found["suspend"]["severity"] == found["clock_step"]["severity"] == "warning"
        change(daemon, "UPDATE events SET at_ms = at_ms - ?", 61 * 60_000)
        assert not {"suspend", "clock_step"} & set(await findings(client))


async def test_a_loop_that_was_held_up_is_found(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        daemon.app.services.lag.observe(time.monotonic(), 1.5)
        assert (await client.call("daemon/status"))["loop_lag_ms"] >= 1500
        assert (await findings(client))["loop_lag"]["severity"] == "warning"


async def test_a_log_that_has_grown_large_is_found(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        wal = daemon.state_dir / "interlock.sqlite3-wal"
        with wal.open("r+b") as file:
            file.truncate(65 << 20)  # what lies behind its last frame is never read
        found = await findings(client)
        assert (found["wal_large"]["severity"], found["wal_large"]["subject"]) == ("warning", "interlock.sqlite3")
