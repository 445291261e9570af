"""Refusals in MobKit's numbers: every code of ours has its row of the contract's table, and keeps its data."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.lifecycle.refusal import Refusal
from interlock.protocol import envelope
from interlock.protocol.errors import CODES
from interlock.protocol.mobkit_errors import mobkit_error

CONFLICTS = ("stale_revision", "occupied", "op_conflict", "duplicate", "stale_lease", "fence_required")
INVALID = ("invalid_params", "limit_out_of_range", "too_large")
NAMED = {
    "method_not_found": (-32601, None),
    **dict.fromkeys(INVALID, (-32602, None)),
    **dict.fromkeys(CONFLICTS, (-32042, "workgraph_conflict")),
    "not_admin": (-32030, "access_denied"),
    "unavailable": (-32041, "workgraph_unavailable"),
    "starting": (-32018, "init_in_progress"),
}


def spoken(refusal: Refusal, method: str = "mobkit/workgraph/update") -> dict[str, Any]:
    """The error object as it is on the wire."""
    found: dict[str, Any] = json.loads(envelope.encode_error(1, refusal, method=method))["error"]
    assert found == json.loads(json.dumps(mobkit_error(refusal, method)))
    return found


@pytest.mark.parametrize("code", list(CODES))
def test_every_code_has_a_number_and_keeps_its_data(code: str) -> None:
    error = spoken(Refusal(code, "this is why", holder="h"))
    number, kind = NAMED.get(code, (-32000, "workgraph_error"))
    assert (error["code"], error["data"].get("kind")) == (number, kind)
    assert (error["data"]["code"], error["data"]["holder"]) == (code, "h")
    assert error["data"]["retryable"] is CODES[code].retryable
    assert error["message"].endswith(error["data"]["detail"])
    assert "this is why" in error["data"]["detail"]


@pytest.mark.parametrize(
    ("code", "begins"),
    [
        ("method_not_found", "Method not found"),
        *((code, "Invalid params: ") for code in INVALID),
        *((code, "workgraph conflict: ") for code in CONFLICTS),
        ("not_found", "this is why"),
        ("starting", "this is why"),
    ],
)
def test_a_message_begins_as_mobkits_does(code: str, begins: str) -> None:
    assert spoken(Refusal(code, "this is why"))["message"].startswith(begins)


def test_a_policy_that_does_not_become_stricter_is_a_wrong_param() -> None:
    error = spoken(Refusal("invalid_transition", "no", reason="not_an_escalation"), "mobkit/workgraph/policy/escalate")
    assert (error["code"], "kind" in error["data"], error["message"]) == (-32602, False, "Invalid params: no")
    other = spoken(Refusal("invalid_transition", "no", reason="terminal"))
    assert (other["code"], other["data"]["kind"], other["message"]) == (-32000, "workgraph_error", "no")


@pytest.mark.parametrize(
    ("method", "capability", "number", "kind"),
    [
        ("goal/confirm", "trusted_principal", -32602, None),
        ("attention/break_glass_reassign", "trusted_principal", -32030, "access_denied"),
        ("goal/confirm", "can_add_evidence", -32000, "workgraph_error"),
        ("attention/reassign", "can_link_derived_from", -32000, "workgraph_error"),
        ("policy/escalate", "can_update", -32000, "workgraph_error"),
    ],
)
def test_authority_that_is_missing_is_said_as_its_method_does(
    method: str, capability: str, number: int, kind: str | None
) -> None:
    error = spoken(Refusal("authority_missing", "no", capability=capability), f"mobkit/workgraph/{method}")
    assert (error["code"], error["data"].get("kind"), error["data"]["capability"]) == (number, kind, capability)


def test_a_target_of_another_mob_is_told_apart_from_other_wrong_params() -> None:
    where = {"owner_key": {"kind": "agent", "id": "mob/b/agent/x"}, "mob_id": "b", "required_realm_id": "mob.b"}
    reason = "attention_target_realm_mismatch"
    error = spoken(Refusal("invalid_params", "no", reason=reason, realm_id="mob.a", **where))
    assert (error["code"], error["data"]["kind"]) == (-32602, reason)
    assert {name: error["data"][name] for name in where} == where


def test_the_detail_of_a_stale_revision_says_stale() -> None:
    data = {"kind": "item", "id": "work_1", "expected_revision": 1, "current_revision": 2}
    error = spoken(Refusal("stale_revision", "it is at revision 2", **data))
    assert error["data"]["detail"] == "stale revision: it is at revision 2"
    assert error["message"] == "workgraph conflict: stale revision: it is at revision 2"
    assert spoken(Refusal("stale_revision", "stale: 1"))["data"]["detail"] == "stale: 1"


def test_the_kind_of_what_was_looked_for_makes_room_for_mobkits() -> None:
    error = spoken(Refusal("not_found", "none", kind="attention", id="attention_1"))
    assert (error["data"]["kind"], error["data"]["record_kind"]) == ("workgraph_error", "attention")


def test_the_detail_of_an_occupied_target_has_its_key_its_binding_and_the_way_out() -> None:
    message = "owner:agent:a is taken by attention_1, which is active"
    error = spoken(Refusal("occupied", message, remedy="close it", target_key="owner:agent:a"))
    assert error["data"]["detail"] == f"{message}; close it"
    assert spoken(Refusal("occupied", f"{message}: close it", remedy="close it"))["data"]["detail"].count("close") == 1


def test_our_own_names_speak_our_own_numbers() -> None:
    refusal = Refusal("not_found", "none", kind="item")
    error = json.loads(envelope.encode_error(1, refusal, method="workgraph/get"))["error"]
    assert error == {
        "code": -32001,
        "message": "none",
        "data": {"code": "not_found", "retryable": False, "kind": "item"},
    }
