"""What the columns of the work graph must be, counted again from the rows that they follow from.

Each statement names what is wrong: it finds nothing in a store that is as it must be. They share no code with the
daemon.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Final

from .facts import Facts

RECOUNTS: Final = {
    "unresolved_blockers is not what the edges say": (
        "SELECT i.id, i.unresolved_blockers, count(f.n) FROM items AS i"
        " LEFT JOIN edges AS e ON e.to_item = i.n AND e.kind = 'blocks'"
        " LEFT JOIN items AS f ON f.n = e.from_item AND f.status <> 'completed'"
        " AND NOT (e.on_failure = 'release' AND f.status IN ('cancelled', 'failed'))"
        " GROUP BY i.n HAVING i.unresolved_blockers <> count(f.n)"
    ),
    "the counts of children are not what the edges say": (
        "WITH counted AS (SELECT e.to_item AS n, sum(f.status IN ('open', 'in_progress', 'blocked')) AS active,"
        " sum(f.status = 'completed') AS completed, sum(f.status = 'failed') AS failed,"
        " sum(f.status = 'cancelled') AS cancelled"
        " FROM edges AS e JOIN items AS f ON f.n = e.from_item WHERE e.kind = 'parent' GROUP BY e.to_item)"
        " SELECT i.id, i.children_active, c.active FROM items AS i LEFT JOIN counted AS c ON c.n = i.n WHERE"
        " i.children_active <> coalesce(c.active, 0) OR i.children_completed <> coalesce(c.completed, 0)"
        " OR i.children_failed <> coalesce(c.failed, 0) OR i.children_cancelled <> coalesce(c.cancelled, 0)"
    ),
    "join_state is not what the children say": (
        "SELECT id, join_state FROM items WHERE join_state <> CASE WHEN children_active > 0 THEN 'waiting'"
        " WHEN children_failed > 0 AND failed_join = 'propagate' THEN 'propagate_failure'"
        " WHEN children_cancelled > 0 AND cancelled_join = 'propagate' THEN 'propagate_cancellation'"
        " WHEN children_failed > 0 AND failed_join = 'require_success' THEN 'waiting'"
        " WHEN children_cancelled > 0 AND cancelled_join = 'require_success' THEN 'waiting' ELSE 'satisfied' END"
    ),
    "stage is not the queue in which the item belongs": (
        "SELECT id, status, stage, gate_at FROM items WHERE CASE"
        " WHEN status <> 'open' OR unresolved_blockers > 0 OR join_state <> 'satisfied' THEN stage <> 0"
        " WHEN gate_at IS NULL THEN stage <> 1 WHEN gate_at > :now THEN stage <> 2 ELSE stage NOT IN (1, 2) END"
    ),
    "an instant does not follow from the others": (
        "SELECT id FROM items WHERE due_order <> coalesce(due_at, 9223372036854775807)"
        " OR gate_at IS NOT max(coalesce(not_before, snoozed_until), coalesce(snoozed_until, not_before))"
        " OR coalesce(overdue_at, due_at) IS NOT due_at"
        " OR (overdue_at IS NOT NULL AND status IN ('completed', 'cancelled', 'failed'))"
        " OR (terminal_at IS NOT NULL) <> (status IN ('completed', 'cancelled', 'failed'))"
    ),
    "the columns of a claim do not fit the status": (
        "SELECT id, status, owner_id FROM items WHERE (status = 'in_progress') <> (owner_kind IS NOT NULL)"
        " OR (owner_kind IS NULL) <> (owner_id IS NULL) OR (owner_kind IS NULL) <> (claimed_at IS NULL)"
        " OR (owner_kind IS NULL AND lease_expires_at IS NOT NULL) OR (owner_kind IS NOT NULL AND fence = 0)"
    ),
    "a label has no row, or one unlike its item": (
        "SELECT i.id, j.value FROM items AS i JOIN json_each(i.labels) AS j"
        " LEFT JOIN item_labels AS l ON l.item = i.n AND l.label = j.value WHERE l.item IS NULL OR"
        " (l.realm_id, l.namespace, l.status, l.stage, l.priority, l.due_order, l.created_at, l.updated_at, l.id) <>"
        " (i.realm_id, i.namespace, i.status, i.stage, i.priority, i.due_order, i.created_at, i.updated_at, i.id)"
    ),
    "a label's row is of no label": (
        "SELECT l.id, l.label FROM item_labels AS l LEFT JOIN items AS i ON i.n = l.item"
        " WHERE i.n IS NULL OR l.label NOT IN (SELECT value FROM json_each(i.labels))"
    ),
    "content or evidence is not what the item says": (
        "SELECT i.id FROM items AS i WHERE i.evidence <> (SELECT count(*) FROM item_evidence WHERE item = i.n)"
        " OR i.has_content <> EXISTS (SELECT 1 FROM item_content WHERE item = i.n)"
    ),
    "a target has two occupants": (
        "SELECT realm_id, namespace, target_key, count(*) FROM attention WHERE status IN ('active', 'paused')"
        " GROUP BY realm_id, namespace, target_key HAVING count(*) > 1"
    ),
    "a duplicate stands beside nobody": (
        "SELECT a.binding_id, a.alias_key FROM attention AS a WHERE a.alias_key IS NOT NULL AND ("
        " a.status NOT IN ('active', 'paused') OR NOT EXISTS (SELECT 1 FROM attention AS b WHERE b.n <> a.n"
        " AND b.realm_id = a.realm_id AND b.namespace = a.namespace AND b.target_key = a.alias_key"
        " AND b.status IN ('active', 'paused')))"
    ),
    "a session's binding is not under its member's key": (
        "SELECT a.binding_id, a.target_key FROM attention AS a"
        " JOIN member_sessions AS s ON a.target_key = 'session:' || s.session_id"
        " WHERE a.status IN ('active', 'paused')"
        " AND a.alias_key IS NOT 'owner:agent:mob/' || s.mob_id || '/agent/' || s.identity"
    ),
    "a binding attends to an item that has ended": (
        "SELECT a.binding_id, i.id FROM attention AS a JOIN items AS i ON i.n = a.item"
        " WHERE a.status IN ('active', 'paused') AND i.status IN ('completed', 'cancelled', 'failed')"
    ),
    "the columns of a binding do not fit its status": (
        "SELECT binding_id, status FROM attention AS a WHERE"
        " (terminal_at IS NOT NULL) <> (status IN ('superseded', 'stopped'))"
        " OR (paused_until IS NOT NULL AND status <> 'paused')"
        " OR (superseded_by IS NOT NULL) <> (status = 'superseded')"
        " OR (superseded_by IS NOT NULL"
        " AND NOT EXISTS (SELECT 1 FROM attention AS b WHERE b.binding_id = a.superseded_by))"
    ),
    "a member's session is not its own": (
        "SELECT m.identity, m.session_id FROM members AS m LEFT JOIN member_sessions AS s USING (session_id)"
        " WHERE m.session_id IS NOT NULL AND (s.mob_id, s.identity) IS NOT (m.mob_id, m.identity)"
    ),
    "a batch was done in part": (
        "SELECT rtrim(title, '!'), count(*) FROM items WHERE title LIKE 'plan %'"
        " GROUP BY rtrim(title, '!') HAVING count(*) <> 2"
    ),
}
EDGES: Final = "SELECT DISTINCT from_item, to_item FROM edges WHERE kind IN ('blocks', 'parent')"


def recount(conn: sqlite3.Connection, facts: Facts) -> None:
    """Count everything again, in the snapshot that is open."""
    now = time.time_ns() // 1_000_000
    for text, sql in RECOUNTS.items():
        for row in conn.execute(sql, {"now": now} if ":now" in sql else {}):
            facts.violated(f"{text}: {row}")
    for table, row, *_ in conn.execute("PRAGMA foreign_key_check"):
        facts.violated(f"row {row} of {table} refers to nothing")
    cyclic = _cyclic(conn.execute(EDGES).fetchall())
    if cyclic:
        facts.violated(f"{cyclic} items wait for each other in a circle")


def _cyclic(edges: list[tuple[int, int]]) -> int:
    """How many items are left when those that wait for nothing are taken away, again and again."""
    waiting: dict[int, set[int]] = {}
    behind: dict[int, list[int]] = {}
    for source, target in edges:
        waiting.setdefault(source, set())
        waiting.setdefault(target, set()).add(source)
        behind.setdefault(source, []).append(target)
    free = [item for item, sources in waiting.items() if not sources]
    left = len(waiting)
    while free:
        item = free.pop()
        left -= 1
        for target in behind.get(item, ()):
            waiting[target].discard(item)
            if not waiting[target]:
                free.append(target)
    return left
