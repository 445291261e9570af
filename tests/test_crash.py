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


SESSION: Final = "01a232ae-78dc-7a8f-8347-254850000000"


async def _worked(tmp_path: Path, facts: Any) -> None:
    """A store in which a bit of everything was done, and what its clients were told."""
    deeds: Any = importlib.import_module("crash_lib.deeds")
    known: Any = importlib.import_module("crash_lib.facts")
    async with served(tmp_path) as daemon, daemon.client() as client:

        async def do(method: str, **params: Any) -> Any:
            deed = known.Deed(method, {**params, "op_id": f"{method}-{len(facts.work.all)}"})
            deeds.begin(facts, deed)
            deeds.end(facts, deed, {"result": await client.call(method, **deed.params)})
            return deed.result

        child, parent = [(await do("workgraph/create", title=f"t{n}", labels=["red"]))["item"] for n in range(2)]
        edge = {"from_id": child["id"], "to_id": parent["id"]}
        await do("workgraph/link", kind="blocks", **edge)
        await do("workgraph/link", kind="parent", **edge)
        taken = await do("workgraph/claim_next", owner={"kind": "agent", "id": "a"})
        target = {"kind": "owner", "owner_key": {"kind": "agent", "id": "a"}}
        await do("workgraph/goal/create", title="goal", target=target)
        second = await do("workgraph/goal/create", title="over", target={"kind": "identity", "identity": "b"})
        binding = {"binding_id": second["attention"]["binding_id"], "expected_revision": 1}
        await do("workgraph/goal/request_close", **binding)
        await client.call("workgraph/member/register", identity="b", session_id=SESSION)
        assert taken["item"]["id"] == child["id"]


@pytest.mark.parametrize(
    ("tampering", "noticed"),
    [
        ("SELECT 1", None),
        ("DELETE FROM ops WHERE method = 'workgraph/claim_next'", "its op id is lost"),
        ("UPDATE items SET unresolved_blockers = 0", "unresolved_blockers is not what the edges say"),
        ("UPDATE items SET children_active = 0", "the counts of children are not what the edges say"),
        ("UPDATE items SET join_state = 'satisfied'", "join_state is not what the children say"),
        ("UPDATE items SET stage = 1", "stage is not the queue"),
        ("UPDATE item_labels SET stage = 2", "one unlike its item"),
        ("DELETE FROM item_labels WHERE item = 1", "a label has no row"),
        ("UPDATE items SET labels = NULL", "a label's row is of no label"),
        ("UPDATE items SET evidence = 1", "content or evidence is not what the item says"),
        ("UPDATE items SET due_order = 1", "an instant does not follow from the others"),
        ("UPDATE items SET owner_kind = NULL", "the columns of a claim do not fit the status"),
        ("UPDATE items SET fence = 7 WHERE fence = 1", "the feed says"),
        ("UPDATE items SET owner_id = 'b' WHERE owner_id = 'a'", "was acknowledged as"),
        ("UPDATE items SET title = 'another'", "was acknowledged as"),
        (
            "UPDATE items SET status = 'open', terminal_at = NULL WHERE status = 'completed'",
            "acknowledged as completed",
        ),
        ("UPDATE items SET revision = 1", "was acknowledged at revision 2"),
        ("INSERT INTO edges SELECT to_item, kind, from_item, on_failure, created_at FROM edges", "in a circle"),
        ("DELETE FROM edges", "edges say"),
        ("DELETE FROM events WHERE type = 'linked'", "was acknowledged as"),
        ("DELETE FROM events WHERE type = 'item_claimed'", "was given to a, the feed says None"),
        ("UPDATE events SET data = json_set(data, '$.fence', 0) WHERE type = 'item_claimed'", "was given out after"),
        (
            """INSERT INTO events(family, type, realm_id, namespace, subject, at_ms, data)
               SELECT family, type, realm_id, namespace, subject, at_ms,
               json_set(data, '$.fence', 2, '$.owner.key.id', 'b') FROM events WHERE type = 'item_claimed'""",
            "was given to b while a held it",
        ),
        ("UPDATE attention SET status = 'active', terminal_at = NULL", "attends to an item that has ended"),
        ("UPDATE attention SET alias_key = 'nobody'", "a duplicate stands beside nobody"),
        ("UPDATE attention SET paused_until = 1", "the columns of a binding do not fit its status"),
        ("DELETE FROM attention WHERE n = 1", "was acknowledged as"),
        (
            "DROP INDEX attention_occupying; UPDATE attention SET status = 'active', target_key = 'owner:agent:a'",
            "a target has two occupants",
        ),
        (f"UPDATE attention SET target_key = 'session:{SESSION}' WHERE n = 1", "not under its member's key"),
        ("DELETE FROM member_sessions", "a member's session is not its own"),
        ("DELETE FROM item_labels; DELETE FROM items WHERE n = 1", "refers to nothing"),
        ("UPDATE items SET title = 'plan a' WHERE n = 1", "a batch was done in part"),
        (
            "UPDATE events SET data = json_set(data, '$.target_key', 'owner:agent:a') WHERE type = 'attention_created'",
            "occupied it",
        ),
    ],
)
async def test_the_comparison_notices_what_is_wrong_with_the_work_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tampering: str, noticed: str | None
) -> None:
    monkeypatch.syspath_prepend(SCRIPTS)
    facts = importlib.import_module("crash_lib.facts").Facts()
    await _worked(tmp_path, facts)
    path = tmp_path / "state" / "interlock.sqlite3"
    with closing(sqlite3.connect(path)) as conn:
        conn.executescript(tampering)
    importlib.import_module("crash_lib.check").store(path, facts)
    assert bool(facts.violations) == (noticed is not None), facts.violations
    assert noticed is None or any(noticed in violation for violation in facts.violations), facts.violations
