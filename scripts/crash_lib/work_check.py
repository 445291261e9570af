"""What must hold of the work graph after a crash, once the daemon is back."""

from __future__ import annotations

import json
import random
import sqlite3
from pathlib import Path
from typing import Any, Final

from bench_lib.wire import Wire

from .deeds import end
from .facts import ABSENT, Deed, Facts
from .fold import Fold
from .recount import recount

AGAIN: Final = 400
TERMINAL: Final = frozenset({"completed", "cancelled", "failed"})
PRIORITIES: Final = ("high", "medium", "low")
ITEMS: Final = "SELECT id, revision, status, title, priority, labels, owner_id FROM items"
BINDINGS: Final = "SELECT binding_id, revision, status, target_key, superseded_by FROM attention"
OPS: Final = "SELECT op_id, result FROM ops"


def retry(socket: Path, facts: Facts, since: int, rng: random.Random) -> None:
    """Say every unanswered write with an op id again, and some answered ones, which must have their first answer."""
    named = [deed for deed in facts.work.all if "op_id" in deed.params and deed.refused is None]
    answered = [deed for deed in named if deed.result is not None]
    fresh = (deed for deed in facts.work.all[since:] if "op_id" in deed.params)
    unanswered = [deed for deed in fresh if deed.result is None and deed.refused is None]
    with Wire.connect(socket) as wire:
        for deed in rng.sample(answered, min(AGAIN, len(answered))):
            _first_answer(deed, wire.ask_all(deed.method, [deed.params])[0], facts)
        for deed in unanswered:
            answer = wire.ask_all(deed.method, [deed.params])[0]
            if "result" in answer:
                stored = answer["result"].get("replayed")
                facts.count("unanswered deeds that were done" if stored else "unanswered deeds done now")
            end(facts, deed, answer)


def _first_answer(deed: Deed, answer: dict[str, Any], facts: Facts) -> None:
    result = answer.get("result")
    if result is None or result != {**(deed.result or {}), "replayed": True}:
        facts.violated(f"{deed.method} {deed.params['op_id']}: first {deed.result}, again {answer}")
    else:
        facts.count("acknowledged deeds replayed")


def store(conn: sqlite3.Connection, facts: Facts) -> None:
    """Compare the store, in the open snapshot, with itself, with its feed and with what the clients were told."""
    recount(conn, facts)
    fold = Fold(facts)
    fold.read(conn)
    fold.compare(conn)
    _ops(conn, facts)
    _items(conn, facts)
    _bindings(conn, facts)
    for claim, owner in facts.work.claims.items():
        if fold.claims.get(claim) != owner:
            facts.violated(f"{claim} was given to {owner}, the feed says {fold.claims.get(claim)}")
    for key, there in facts.work.edges.items():
        if there is not None and fold.edges.get(key, ABSENT) != there:
            facts.violated(f"{key} was acknowledged as {there!r}, it is {fold.edges.get(key, ABSENT)!r}")


def _ops(conn: sqlite3.Connection, facts: Facts) -> None:
    kept = {op_id for op_id, _ in conn.execute(OPS)}
    for deed in facts.work.all:
        if deed.result is not None and deed.params.get("op_id", "") not in kept | {""}:
            facts.violated(f"{deed.method} {deed.params['op_id']} was acknowledged, its op id is lost")


def _items(conn: sqlite3.Connection, facts: Facts) -> None:
    table = {row[0]: row for row in conn.execute(ITEMS)}
    facts.counts["items compared"] += len(table)
    for item_id, told in facts.work.items.items():
        row = table.get(item_id)
        if row is None:
            facts.violated(f"{item_id} was acknowledged and is lost")
        elif row[1] < told["revision"]:
            facts.violated(f"{item_id} was acknowledged at revision {told['revision']} and is at {row[1]}")
        elif told["status"] in TERMINAL and row[2] != told["status"]:
            facts.violated(f"{item_id} was acknowledged as {told['status']} and is {row[2]}")
        elif row[1] == told["revision"] and _shown(row) != _told(told):
            facts.violated(f"{item_id} was acknowledged as {_told(told)} and is {_shown(row)}")


def _shown(row: Any) -> tuple[Any, ...]:
    return (*row[2:4], PRIORITIES[row[4]], json.loads(row[5] or "[]"), row[6])


def _told(item: dict[str, Any]) -> tuple[Any, ...]:
    owner = item["owner"]["key"]["id"] if "owner" in item else None
    return item["status"], item["title"], item["priority"], item.get("labels", []), owner


def _bindings(conn: sqlite3.Connection, facts: Facts) -> None:
    table = {row[0]: row for row in conn.execute(BINDINGS)}
    facts.counts["bindings compared"] += len(table)
    for binding_id, told in facts.work.bindings.items():
        row = table.get(binding_id)
        said = (told["revision"], told["status"]["state"], told["target_key"], told.get("superseded_by"))
        if row is None or row[1] < told["revision"] or (row[1] == told["revision"] and row[1:] != said):
            facts.violated(f"{binding_id} was acknowledged as {said} and is {row}")
        elif said[1] in ("superseded", "stopped") and row[2] != said[1]:
            facts.violated(f"{binding_id} was acknowledged as {said[1]} and is {row[2]}")
    for binding_id in facts.work.stopped:
        if binding_id in table and table[binding_id][2] != "stopped":
            facts.violated(f"{binding_id} was acknowledged as stopped and is {table[binding_id][2]}")
