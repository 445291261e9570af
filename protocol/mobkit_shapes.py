"""Results of the work graph as MobKit's SDK reads them (contract workgraph 11): ours and what it wants beside. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from interlock.lifecycle.events import Event
from interlock.lifecycle.times import as_ms

from .workgraph_graph import EventsResult

KINDS: Final[dict[str, str]] = {
    "item_created": "created",
    "item_updated": "updated",
    "policy_escalated": "updated",
    "item_claimed": "claimed",
    "item_released": "released",
    "item_blocked": "blocked",
    "item_unblocked": "updated",
    "item_closed": "closed",
    "linked": "linked",
    "evidence_added": "evidence_added",
    "item_ready": "readiness_observed",
    "attention_created": "attention_created",
    "attention_paused": "attention_updated",
    "attention_resumed": "attention_updated",
    "attention_superseded": "attention_updated",
    "attention_stopped": "attention_updated",
    "attention_rekeyed": "attention_updated",
}
"""MobKit's kind of each type of event that it has a kind for. The others are left out."""
_ABOUT_NO_ITEM: Final = ("linked", "attention_")


def from_native(result: msgspec.Struct) -> dict[str, Any]:
    """A result in MobKit's envelopes: items and bindings with their `machine_state`, a settled parent as the item."""
    if isinstance(result, EventsResult):
        return _events(result)
    plain: dict[str, Any] = msgspec.to_builtins(result)
    if "settled" in plain:
        plain["item"] = plain.pop("settled")
    for name, state in (("item", item_state), ("items", item_state), *_BINDINGS):
        found = plain.get(name, ())
        for record in (found,) if isinstance(found, dict) else found:
            record["machine_state"] = state(record)
    return plain


def item_state(item: dict[str, Any]) -> dict[str, Any]:
    """What MobKit's machine knows of an item. The four sets are empty on every item that is stored."""
    claim, policy, counted = item.get("claim", {}), item["completion_policy"], item.get("confirmations", {})
    return {
        "lifecycle_phase": item["status"],
        "revision": item["revision"],
        "unresolved_blocker_count": item["unresolved_blockers"],
        "topology_item_keys": [],
        "topology_edge_keys": [],
        "blocks_reachability": [],
        "parent_reachability": [],
        "claim_owner_key": claim["owner"]["key"] if claim else None,
        "claimed_at_utc_ms": as_ms(claim.get("claimed_at")),
        "lease_expires_at_utc_ms": as_ms(claim.get("lease_expires_at")),
        "due_at_utc_ms": as_ms(item.get("due_at")),
        "not_before_utc_ms": as_ms(item.get("not_before")),
        "snoozed_until_utc_ms": as_ms(item.get("snoozed_until")),
        "completion_policy": policy["kind"],
        "completion_supervisor_owner_key": policy.get("owner_key"),
        "completion_reviewer_quorum_threshold": policy.get("threshold"),
        "terminal_at_utc_ms": as_ms(item.get("terminal_at")),
        "evidence_count": len(item.get("evidence_refs", ())),
        "host_confirmation_count": counted.get("host", 0),
        "principal_confirmation_count": counted.get("principal", 0),
        "supervisor_confirmation_owner_keys": counted.get("supervisors", []),
        "reviewer_confirmation_owner_keys": counted.get("reviewers", []),
        "failed_child_join_policy": item["failed_child_join_policy"],
        "cancelled_child_join_policy": item["cancelled_child_join_policy"],
    }


def binding_state(binding: dict[str, Any]) -> dict[str, Any]:
    """What MobKit's machine knows of a binding."""
    return {
        "lifecycle_phase": binding["status"]["state"],
        "revision": binding["revision"],
        "paused_until_utc_ms": as_ms(binding["status"].get("until")),
        "superseded_by_binding_key": binding.get("superseded_by"),
        "terminal_at_utc_ms": as_ms(binding.get("terminal_at")),
    }


_BINDINGS: Final = (("attention", binding_state), ("previous", binding_state))


def shown(events: list[Event]) -> list[dict[str, Any]]:
    """The events that MobKit has a kind for, as it spells them."""
    return [_event(event, KINDS[event.type]) for event in events if event.type in KINDS]


def _events(page: EventsResult) -> dict[str, Any]:
    return {
        "events": shown(page.events),
        "scanned_seq": page.scanned_seq,
        "has_more": page.has_more,
        "as_of_seq": page.as_of_seq,
        "floor": page.floor,
    }


def _event(event: Event, kind: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "seq": event.seq,
        "realm_id": event.realm_id,
        "namespace": event.namespace,
        "kind": kind,
        "at": event.at,
        "payload": event.data,
    }
    if not event.type.startswith(_ABOUT_NO_ITEM):
        entry["item_id"] = event.subject
    facts = _facts(event)
    return {**entry, "facts": facts} if facts else entry


def _facts(event: Event) -> list[dict[str, Any]]:
    """What the machine observed with it: at most one fact."""
    if event.type not in ("item_ready", "item_released"):
        return []
    data = msgspec.json.decode(event.data)
    if event.type == "item_ready":
        fact = {"kind": "item_ready", "item_id": event.subject, "item_revision": data.get("revision")}
    elif data.get("cause") == "lease_expired":
        fact = {
            "kind": "lease_expired",
            "item_id": event.subject,
            "expired_owner": data.get("owner"),
            "lease_expires_at": data.get("lease_expires_at"),
            "observed_at": event.at,
        }
    else:
        return []
    return [{name: value for name, value in fact.items() if value is not None}]
