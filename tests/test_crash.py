"""A few rounds of scripts/crash, and proof that its comparison would notice."""

from __future__ import annotations

import importlib
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import served

SCRIPTS: Final = Path(__file__).parent.parent / "scripts"


def test_three_daemons_killed_under_load_lose_and_double_nothing() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPTS / "run_crash.py", "--rounds", "3", "--seed", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "3 rounds of kill -9 under load" in done.stdout


@pytest.mark.parametrize(
    ("tampering", "noticed"),
    [
        ("SELECT 1", None),
        ("DELETE FROM messages WHERE op_id = 'first'", "acknowledged and is lost"),
        ("DELETE FROM ops WHERE op_id = 'first'", "was acknowledged, the store has"),
        ("UPDATE messages SET state = 'acked' WHERE op_id = 'first'", "the feed says"),
        ("UPDATE messages SET state = 'queued' WHERE op_id = 'second'", "acknowledged as acked and is queued"),
        ("UPDATE messages SET head = (SELECT head FROM messages WHERE op_id = 'first')", "the text one is there 2"),
        ("DELETE FROM events WHERE seq = (SELECT max(seq) FROM events WHERE type = 'ledger_state')", "the feed says"),
    ],
)
async def test_the_comparison_notices_what_is_lost_doubled_or_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tampering: str, noticed: str | None
) -> None:
    monkeypatch.syspath_prepend(SCRIPTS)
    known: Any = importlib.import_module("crash_lib.facts")
    check: Any = importlib.import_module("crash_lib.check")
    facts = known.Facts()
    async with served(tmp_path, roles=("red",)) as daemon, daemon.client() as client:
        for op_id, text in (("first", "one"), ("second", "two")):
            params = {"op_id": op_id, "to": "red", "kind": "note", "body": {"head": text, "text": text}}
            facts.sent.append(known.Sent(None, params, (await client.call("ledger/send", **params))["msg_id"]))
        await client.call("ledger/ack", msg_id=facts.sent[1].msg_id)
        facts.settled[facts.sent[1].msg_id] = "acked"
    path = tmp_path / "state" / "interlock.sqlite3"
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute(tampering)
    check.store(path, facts)
    assert bool(facts.violations) == (noticed is not None)
    assert noticed is None or any(noticed in violation for violation in facts.violations), facts.violations
