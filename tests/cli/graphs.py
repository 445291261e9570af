"""Hand-made snapshots of a work graph, as `workgraph/snapshot` answers them."""

from __future__ import annotations

from typing import Any

NOW = "2026-12-01T12:00:00.000Z"
SCOPE = {"realm_id": "default", "namespace": "default"}

Row = dict[str, Any]


def item(item_id: str, title: str | None = None, **fields: Any) -> Row:
    """An open item without anything beside."""
    made = {
        "id": item_id,
        **SCOPE,
        "title": item_id.upper() if title is None else title,
        "status": "open",
        "priority": "medium",
        "completion_policy": {"kind": "self_attest"},
        "failed_child_join_policy": "require_success",
        "cancelled_child_join_policy": "require_success",
        "unresolved_blockers": 0,
        "join_state": "satisfied",
        "content_revision": 1,
        "revision": 1,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return made | fields


def edge(kind: str, from_id: str, to_id: str, **fields: Any) -> Row:
    """An edge; a `blocks` blocks on failure."""
    released = {"on_failure": "block"} if kind == "blocks" else {}
    return {**SCOPE, "kind": kind, "from_id": from_id, "to_id": to_id, **released, "created_at": NOW} | fields


def binding(item_id: str, target_key: str, mode: str = "pursue", state: str = "active") -> Row:
    """Who attends to an item."""
    return {
        "binding_id": f"attention_{target_key}",
        "work_ref": {**SCOPE, "item_id": item_id},
        "target_key": target_key,
        "mode": mode,
        "status": {"state": state},
    }


def claim(owner: str, until: str | None = None) -> Row:
    """The fields of an item that somebody holds."""
    kind, _, owner_id = owner.partition(":")
    held = {"key": {"kind": kind, "id": owner_id}}
    lease = {"lease_expires_at": until} if until else {}
    return {"status": "in_progress", "owner": held, "claim": {"owner": held, "fence": 1, "claimed_at": NOW, **lease}}


def snapshot(items: list[Row], edges: list[Row] = [], ready: list[str] = [], attention: list[Row] = []) -> Row:  # noqa: B006
    """One whole snapshot."""
    return {
        **SCOPE,
        "all_namespaces": False,
        "captured_at": NOW,
        "event_high_water_mark": 7,
        "items": items,
        "edges": edges,
        "attention": attention,
        "ready_item_ids": ready,
        "has_more": False,
        "as_of_seq": 7,
    }
