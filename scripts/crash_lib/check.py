"""What must hold after a crash, once the daemon is back."""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from bench_lib.wire import Wire

from . import work_check
from .facts import Facts, Sent

TABLE: Final = "SELECT msg_id, state, deliveries, requeued, session, reason, settled_by FROM messages"
FEED: Final = "SELECT data FROM events WHERE type = 'ledger_state' ORDER BY seq"
DOUBLES: Final = {
    "text": "SELECT head, count(*) FROM messages GROUP BY head HAVING count(*) > 1",
    "op id": "SELECT op_id, count(*) FROM messages WHERE op_id IS NOT NULL GROUP BY op_id HAVING count(*) > 1",
    "kept op id": "SELECT op_id, count(*) FROM ops GROUP BY op_id HAVING count(*) > 1",
}
"""What must be there once: each message has a text of its own."""
AGAIN: Final = 400
CHUNK: Final = 50
Row = tuple[object, ...]


def retry(socket: Path, facts: Facts, since: int, rng: random.Random) -> None:
    """Say every unanswered send with an op id again, and some answered ones: each must have its first answer."""
    fresh = [sent for sent in facts.sent[since:] if "op_id" in sent.params]
    unanswered = [sent for sent in fresh if sent.msg_id is None]
    answered = [sent for sent in facts.sent if "op_id" in sent.params and sent.msg_id is not None]
    again = unanswered + rng.sample(answered, min(AGAIN, len(answered)))
    for role in {sent.role for sent in again}:
        with Wire.connect(socket) as wire:
            if role is not None:
                wire.ask("ledger/attach", role=role)
            mine = [sent for sent in again if sent.role == role]
            for first in range(0, len(mine), CHUNK):
                part = mine[first : first + CHUNK]
                for sent, answer in zip(part, wire.ask_all("ledger/send", [sent.params for sent in part]), strict=True):
                    _judge(sent, answer, facts)


def _judge(sent: Sent, answer: Any, facts: Facts) -> None:
    result = answer.get("result")
    op = sent.params["op_id"]
    if result is None:
        facts.violated(f"{op}: the retry was refused: {answer['error']}")
    elif sent.msg_id is None:
        sent.msg_id = result["msg_id"]
        facts.count("unanswered sends that were stored" if result.get("replayed") else "unanswered sends stored now")
    elif result["msg_id"] != sent.msg_id or not result.get("replayed"):
        facts.violated(f"{op}: {sent.msg_id} was acknowledged, the retry made {result}")
    else:
        facts.count("acknowledged sends replayed")


def store(path: Path, facts: Facts) -> None:
    """Compare the store with what the clients were told, in one snapshot."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)) as conn:
        conn.execute("BEGIN")
        verdict = [row[0] for row in conn.execute("PRAGMA integrity_check")]
        if verdict != ["ok"]:
            facts.violated(f"integrity_check: {verdict[:3]}")
        table = {row[0]: row for row in conn.execute(TABLE)}
        _sends(conn, table, facts)
        _settled(table, facts)
        _folded(table, (row[0] for row in conn.execute(FEED)), facts)
        work_check.store(conn, facts)
    facts.counts["messages compared"] += len(table)


def _sends(conn: sqlite3.Connection, table: dict[str, Row], facts: Facts) -> None:
    for name, doubles in DOUBLES.items():
        for value, n in conn.execute(doubles):
            facts.violated(f"the {name} {value} is there {n} times")
    by_op = dict(conn.execute("SELECT op_id, msg_id FROM messages WHERE op_id IS NOT NULL"))
    kept = {row[0] for row in conn.execute("SELECT op_id FROM ops")}
    for sent in facts.sent:
        op = sent.params.get("op_id")
        if sent.msg_id is not None and sent.msg_id not in table:
            facts.violated(f"{sent.msg_id} was acknowledged and is lost")
        if op is not None and sent.msg_id is not None and (by_op.get(op) != sent.msg_id or op not in kept):
            facts.violated(f"{op}: {sent.msg_id} was acknowledged, the store has {by_op.get(op)}")


def _settled(table: dict[str, Row], facts: Facts) -> None:
    for msg_id, state in facts.settled.items():
        now = table[msg_id][1] if msg_id in table else "lost"
        if now != state:
            facts.violated(f"{msg_id} was acknowledged as {state} and is {now}")
    for msg_id, state in facts.uncertain.items():
        now = table[msg_id][1] if msg_id in table else "lost"
        # it may have come back and been settled by somebody else, who was told so
        if now not in (state, "queued", "in_flight", facts.settled.get(msg_id)):
            facts.violated(f"{msg_id} was being {state} and is {now}")
    facts.uncertain.clear()


def _folded(table: dict[str, Row], feed: Iterable[str], facts: Facts) -> None:
    fold: dict[str, Row] = {}
    for data in feed:
        said = json.loads(data)
        rest = (said.get(name) for name in ("session", "reason", "by"))
        fold[said["msg_id"]] = (said["msg_id"], said["state"], said["deliveries"], said["requeued"], *rest)
        facts.counts["events folded"] += 1
    for msg_id in table.keys() | fold.keys():
        if fold.get(msg_id) != table.get(msg_id):
            facts.violated(f"the feed says {fold.get(msg_id)}, the table {table.get(msg_id)}")
