"""`meerkat-mobkit`, the SDK of MobKit, with the daemon as the gateway that it spawns (contract workgraph 11)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import environment

HERE: Final = Path(__file__).parent
PYTHON: Final = HERE / ".venv" / "bin" / "python"
SECONDS: Final = 50
REALM: Final = "mob.crew"

pytestmark = pytest.mark.needs("meerkat-mobkit")


def gateway(tmp_path: Path) -> Path:
    """A program that is the daemon, and that leaves its exit statuses behind."""
    path = tmp_path / "gateway"
    path.write_text(
        f'#!/bin/sh\n"{sys.executable}" -m interlock.daemon "$@"\necho $? >>"{tmp_path}/status"\n', encoding="utf-8"
    )
    path.chmod(0o755)
    return path


def seen_by_the_client(tmp_path: Path) -> dict[str, Any]:
    """What the client program saw of daemons of its own, and how those ended."""
    log = tmp_path / "gateway.log"
    places = {"INTERLOCK_STATE_DIR": str(tmp_path / "state"), "INTERLOCK_SOCKET": "none"}
    done = subprocess.run(
        [str(PYTHON), str(HERE / "mobkit_client.py"), str(gateway(tmp_path))],
        env=environment(tmp_path, MOBKIT_GATEWAY_STDERR_FILE=str(log), **places),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr + log.read_text("utf-8")
    seen: dict[str, Any] = json.loads(done.stdout)
    return {**seen, "exits": (tmp_path / "status").read_text("utf-8").split(), "log": log.read_text("utf-8")}


def check_items(seen: dict[str, Any]) -> None:
    """A claim without a lease never expires and needs no fence to go on; conflicts are the SDK's conflicts."""
    assert (seen["edge"]["kind"], seen["edge"]["realm_id"]) == ("blocks", REALM)
    assert seen["ready"] is True
    claimed = seen["claimed"]
    assert (claimed["status"], claimed["owner"]["key"]["id"]) == ("in_progress", "mob/crew/agent/ada")
    assert "lease_expires_at" not in claimed["claim"]
    assert claimed["machine_state"]["claim_owner_key"] == claimed["owner"]["key"]
    assert (seen["taken"]["number"], seen["taken"]["conflict"]) == (-32000, False)
    assert (seen["released"]["status"], seen["released"]["claim"]) == ("open", None)
    assert seen["again"]["machine_state"]["lease_expires_at_utc_ms"] is not None
    assert (seen["updated"]["title"], seen["updated"]["description"]) == ("Dig deep", "deep")
    assert (seen["stale"]["conflict"], "stale" in seen["stale"]["detail"]) == (True, True)
    assert (seen["closed"]["status"], seen["closed"]["machine_state"]["evidence_count"]) == ("completed", 1)
    assert (seen["blocked"], seen["given_up"], seen["listed"]) == ("blocked", "cancelled", ["Dig deep", "Plant"])
    assert [seen[name]["number"] for name in ("missing", "wrong", "foreign")] == [-32000, -32602, -32602]


def check_goals(seen: dict[str, Any]) -> None:
    """One goal per identity, whoever asks; the way out is in the conflict's detail."""
    key = "owner:agent:mob/crew/agent/ada"
    binding = seen["goal"]["attention"]
    assert binding["target"] == {"kind": "lowered_owner", "owner_key": {"kind": "agent", "id": "mob/crew/agent/ada"}}
    assert binding["work_ref"]["realm_id"] == REALM
    for conflict in seen["duplicate"], seen["while_paused"]:
        assert (conflict["class"], conflict["number"]) == ("WorkGraphConflictError", -32042)
        assert key in conflict["detail"]
        assert binding["binding_id"] in conflict["detail"]
        assert "goal/request_close" in conflict["detail"]
    assert seen["paused"]["machine_state"]["lifecycle_phase"] == "paused"
    assert (seen["resumed"], seen["status"]) == ({"state": "active"}, True)
    assert seen["stricter"] == {"kind": "host_confirmed"}
    assert seen["previous"] == {"state": "superseded"}
    assert seen["moved"]["owner_key"]["id"] == "mob/crew/agent/grace"
    assert seen["freed"] == binding["target"]
    assert (seen["confirmed"], seen["closed"]) == (1, ["completed", {"state": "stopped"}])
    assert seen["attended"] == ["active", "stopped", "superseded"]
    assert (seen["pruned"], seen["left"]) == ([2, 0], ["active"])


def check_overview(seen: dict[str, Any]) -> None:
    """One realm, every kind of event once at least, and a catalogue of what is there."""
    snapshot = seen["snapshot"]
    assert (snapshot["realm_id"], snapshot["namespace"], snapshot["items"]) == (REALM, "default", 4)
    assert (len(snapshot["edges"]), len(snapshot["attention"])) == (1, 1)
    kinds = {"created", "updated", "claimed", "released", "blocked", "closed", "linked", "evidence_added"}
    assert kinds | {"readiness_observed", "attention_created", "attention_updated"} == set(seen["kinds"])
    assert (seen["ascending"], seen["after"]) == (True, 0)
    assert (seen["status"]["contract_version"], seen["status"]["running"]) == ("0.5.0", True)
    methods = seen["capabilities"]["methods"]
    assert (seen["capabilities"]["workgraph"], len(methods)) == (True, 27)
    assert "mobkit/workgraph/attention/break_glass_reassign" not in methods


def test_the_sdk_does_all_its_work_from_two_processes_and_ends_both_in_order(tmp_path: Path) -> None:
    seen = seen_by_the_client(tmp_path)
    check_items(seen["items"])
    check_goals(seen["goals"])
    check_overview(seen["overview"])
    assert (seen["elsewhere"]["class"], seen["elsewhere"]["number"]) == ("WorkGraphConflictError", -32042)
    assert seen["exits"] == ["0", "0"]
    assert "internal_error" not in seen["log"]
