"""Results as MobKit's SDK reads them: machine states beside our records, and its kinds of events."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from interlock.lifecycle.attention import AttentionBinding, LoweredTarget, ProjectionPolicy, TargetOwner
from interlock.lifecycle.events import Event
from interlock.lifecycle.work import (
    BindingStatus,
    Claim,
    Confirmations,
    Evidence,
    Owner,
    OwnerKey,
    ReviewerQuorum,
    SelfAttest,
    Supervisor,
    WorkItem,
    WorkRef,
)
from interlock.protocol.mobkit_shapes import KINDS, from_native
from interlock.protocol.workgraph_attention import AttentionPage, AttentionPruneResult, AttentionResult, MovedResult
from interlock.protocol.workgraph_goals import GoalResult
from interlock.protocol.workgraph_graph import EventsResult, SnapshotResult
from interlock.protocol.workgraph_items import ClaimResult, ItemResult, ItemsResult

T0, T1 = "2026-05-26T10:00:00.000Z", "2026-05-26T11:00:00.250Z"
MS0, MS1 = 1779789600000, 1779793200250
KEY = OwnerKey(kind="agent", id="mob/m1/agent/coder")
PLAIN: dict[str, Any] = {
    "id": "work_1",
    "realm_id": "default",
    "namespace": "default",
    "title": "Check car",
    "status": "open",
    "priority": "high",
    "completion_policy": SelfAttest(),
    "failed_child_join_policy": "require_success",
    "cancelled_child_join_policy": "accept",
    "unresolved_blockers": 0,
    "join_state": "satisfied",
    "content_revision": 1,
    "revision": 1,
    "created_at": T0,
    "updated_at": T0,
}


def item(**fields: Any) -> WorkItem:
    """An item that differs in these fields from a new one."""
    return WorkItem(**{**PLAIN, **fields})


def binding(**fields: Any) -> AttentionBinding:
    """A binding that differs in these fields from a new one."""
    plain: dict[str, Any] = {
        "binding_id": "attention_1",
        "work_ref": WorkRef(realm_id="default", namespace="default", item_id="work_1"),
        "target": LoweredTarget(owner_key=TargetOwner(kind="agent", id=KEY.id)),
        "target_key": f"owner:{KEY}",
        "mode": "pursue",
        "delegated_authority": "add_evidence",
        "projection_policy": ProjectionPolicy(),
        "status": BindingStatus(state="active"),
        "revision": 1,
        "created_at": T0,
        "updated_at": T0,
    }
    return AttentionBinding(**{**plain, **fields})


def wire(result: msgspec.Struct) -> Any:
    """The result as it is sent."""
    return json.loads(msgspec.json.encode(from_native(result)))


def test_a_new_item_has_a_machine_state_in_which_nothing_is_left_out() -> None:
    found = wire(ItemResult(item=item()))["item"]
    state = found.pop("machine_state")
    assert found == msgspec.to_builtins(item())
    assert state == {
        "lifecycle_phase": "open",
        "revision": 1,
        "unresolved_blocker_count": 0,
        "topology_item_keys": [],
        "topology_edge_keys": [],
        "blocks_reachability": [],
        "parent_reachability": [],
        "claim_owner_key": None,
        "claimed_at_utc_ms": None,
        "lease_expires_at_utc_ms": None,
        "due_at_utc_ms": None,
        "not_before_utc_ms": None,
        "snoozed_until_utc_ms": None,
        "completion_policy": "self_attest",
        "completion_supervisor_owner_key": None,
        "completion_reviewer_quorum_threshold": None,
        "terminal_at_utc_ms": None,
        "evidence_count": 0,
        "host_confirmation_count": 0,
        "principal_confirmation_count": 0,
        "supervisor_confirmation_owner_keys": [],
        "reviewer_confirmation_owner_keys": [],
        "failed_child_join_policy": "require_success",
        "cancelled_child_join_policy": "accept",
    }


def test_a_machine_state_repeats_what_the_item_says() -> None:
    owner = Owner(key=KEY, display_name="Coder")
    full = item(
        status="in_progress",
        unresolved_blockers=2,
        owner=owner,
        claim=Claim(owner=owner, fence=3, claimed_at=T0, lease_expires_at=T1),
        due_at=T1,
        not_before=T0,
        snoozed_until=T1,
        terminal_at=T1,
        completion_policy=ReviewerQuorum(threshold=2),
        evidence_refs=[Evidence(kind="note", id="1"), Evidence(kind="note", id="2")],
        confirmations=Confirmations(host=1, principal=2, supervisors=[KEY], reviewers=[KEY]),
        revision=7,
    )
    state = wire(ItemResult(item=full))["item"]["machine_state"]
    key = {"kind": "agent", "id": KEY.id}
    expected = {
        "lifecycle_phase": "in_progress",
        "revision": 7,
        "unresolved_blocker_count": 2,
        "claim_owner_key": key,
        "claimed_at_utc_ms": MS0,
        "lease_expires_at_utc_ms": MS1,
        "due_at_utc_ms": MS1,
        "not_before_utc_ms": MS0,
        "snoozed_until_utc_ms": MS1,
        "terminal_at_utc_ms": MS1,
        "completion_policy": "reviewer_quorum",
        "completion_reviewer_quorum_threshold": 2,
        "evidence_count": 2,
        "host_confirmation_count": 1,
        "principal_confirmation_count": 2,
        "supervisor_confirmation_owner_keys": [key],
        "reviewer_confirmation_owner_keys": [key],
    }
    assert {name: state[name] for name in expected} == expected
    supervised = wire(ItemResult(item=item(completion_policy=Supervisor(owner_key=KEY))))["item"]["machine_state"]
    assert (supervised["completion_policy"], supervised["completion_supervisor_owner_key"]) == ("supervisor", key)


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, ("active", 1, None, None, None)),
        ({"status": BindingStatus(state="paused", until=T1), "revision": 2}, ("paused", 2, MS1, None, None)),
        (
            {"status": BindingStatus(state="superseded"), "superseded_by": "attention_2", "terminal_at": T1},
            ("superseded", 1, None, "attention_2", MS1),
        ),
    ],
)
def test_a_binding_has_a_machine_state_and_its_status_is_an_object(
    fields: dict[str, Any], state: tuple[object, ...]
) -> None:
    found = wire(AttentionResult(attention=binding(**fields)))["attention"]
    assert isinstance(found["status"], dict)
    assert tuple(found["machine_state"].values()) == state
    assert list(found["machine_state"]) == [
        *("lifecycle_phase", "revision", "paused_until_utc_ms", "superseded_by_binding_key", "terminal_at_utc_ms"),
    ]


def test_every_envelope_keeps_its_name_and_all_in_it_has_its_state() -> None:
    goal = wire(GoalResult(item=item(), attention=binding()))
    assert set(goal) == {"item", "attention"}
    moved = wire(MovedResult(previous=binding(), attention=binding()))
    assert set(moved) == {"previous", "attention"}
    page = wire(AttentionPage(attention=[binding(), binding()], has_more=False, as_of_seq=1))
    listed = wire(ItemsResult(items=[item(), item()], has_more=False, as_of_seq=1))
    records = [*goal.values(), *moved.values(), *page["attention"], *listed["items"]]
    assert all(record["machine_state"]["revision"] == 1 for record in records)


def test_a_snapshot_is_as_ours_with_states_and_empty_arrays() -> None:
    snapshot = SnapshotResult(
        realm_id="default",
        namespace="default",
        all_namespaces=False,
        captured_at=T0,
        event_high_water_mark=4,
        items=[item()],
        edges=[],
        attention=[binding()],
        ready_item_ids=[],
        has_more=False,
        as_of_seq=4,
    )
    found = wire(snapshot)
    assert (found["edges"], found["ready_item_ids"], found["event_high_water_mark"]) == ([], [], 4)
    assert "machine_state" in found["items"][0]
    assert "machine_state" in found["attention"][0]


def test_a_parent_that_a_claim_settled_is_the_item() -> None:
    found = wire(ClaimResult(settled=item(status="failed", terminal_at=T1)))
    assert set(found) == {"item"}
    assert found["item"]["machine_state"]["lifecycle_phase"] == "failed"
    assert set(wire(ClaimResult(item=item(), fence=4))) == {"item", "fence"}
    assert wire(AttentionPruneResult(pruned=3, has_more=False)) == {"pruned": 3, "has_more": False}


def seen(type_: str, data: dict[str, Any], subject: str = "work_1") -> list[dict[str, Any]]:
    """What a client sees of a page with this event."""
    event = Event(
        seq=12,
        family="workgraph",
        type=type_,
        at=T1,
        subject=subject,
        realm_id="default",
        namespace="default",
        data=msgspec.Raw(json.dumps(data).encode()),
    )
    page = EventsResult(events=[event], scanned_seq=12, has_more=False, as_of_seq=12, floor=0)
    found: list[dict[str, Any]] = wire(page)["events"]
    return found


@pytest.mark.parametrize(("type_", "kind"), KINDS.items())
def test_every_event_with_a_kind_has_its_payload_and_items_have_their_id(type_: str, kind: str) -> None:
    [found] = seen(type_, {"revision": 2})
    expected = {"seq": 12, "realm_id": "default", "namespace": "default", "kind": kind, "at": T1}
    assert {name: found[name] for name in expected} == expected
    assert found["payload"] == {"revision": 2}
    assert found.get("item_id") == (None if type_ == "linked" or type_.startswith("attention_") else "work_1")


@pytest.mark.parametrize(
    "type_",
    [
        *("lease_renewed", "edge_changed", "unlinked", "item_overdue", "namespace_terminal", "attention_pruned"),
        *("member_registered", "member_retired"),
    ],
)
def test_the_other_events_are_left_out(type_: str) -> None:
    assert seen(type_, {}) == []


def test_what_the_machine_observed_is_a_fact() -> None:
    [ready] = seen("item_ready", {"cause": "created", "revision": 1})
    assert ready["facts"] == [{"kind": "item_ready", "item_id": "work_1", "item_revision": 1}]
    owner = {"key": {"kind": "agent", "id": "a"}}
    [expired] = seen("item_released", {"owner": owner, "fence": 1, "cause": "lease_expired", "lease_expires_at": T0})
    assert expired["facts"] == [
        {
            "kind": "lease_expired",
            "item_id": "work_1",
            "expired_owner": owner,
            "lease_expires_at": T0,
            "observed_at": T1,
        }
    ]
    [released] = seen("item_released", {"owner": owner, "fence": 1, "cause": "released"})
    assert "facts" not in released
