"""Retention beside everything else that the sweeper does."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from interlock.stores.health import STORE
from tests.harness import served

OLD_EVENTS = 60_000
ADD = (
    "INSERT INTO events(family, type, subject, at_ms, data) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1"
    " FROM n WHERE i < ?) SELECT 'ledger', 'handoff', 's', 1, '{}' FROM n"
)


async def test_what_is_due_does_not_wait_for_a_long_history_to_be_removed(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("worker",)) as daemon:
        state_dir = daemon.state_dir
    with closing(sqlite3.connect(state_dir / STORE)) as store, store:
        store.execute("UPDATE events SET at_ms = 1")
        store.execute(ADD, (OLD_EVENTS,))
    async with served(tmp_path) as daemon, daemon.client() as client:
        before = (await client.call("ledger/events/head"))["head"]
        sent = await client.call("ledger/send", kind="note", to="worker", body={"text": "x"}, ttl_ms=1)
        mine = {"events": {"subjects": [sent["msg_id"]]}}
        stored = (await client.call("daemon/wait", filter=mine, after_seq=before))["event"]
        over = (await client.call("daemon/wait", filter=mine, after_seq=stored["seq"]))["event"]
        assert over["data"]["state"] == "expired"
        pruned = {"events": {"types": ["ledger_pruned"]}}
        assert (await client.call("daemon/wait", filter=pruned, after_seq=over["seq"], timeout_ms=5000))["matched"]
