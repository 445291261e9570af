"""A new item says what it was given, and what it says can be given again (contract workgraph 1, 6, 10)."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any, Final

from tests.harness import served
from tests.ledger.common import head

from .common import at, claim, create, get, since, target, told

ME: Final = f"principal:{pwd.getpwuid(os.getuid()).pw_name}"
GIVEN: Final[dict[str, Any]] = {
    "description": "  as it is\n",
    "priority": "high",
    "labels": ["z", "a", "z", "B"],
    "failed_child_join_policy": "accept",
    "cancelled_child_join_policy": "propagate",
    "due_at": "2999-01-01T02:00:00+02:00",
    "not_before": "2001-01-01T00:00:00Z",
    "snoozed_until": "2001-01-02T00:00:00.123456Z",
    "external_refs": [{"kind": "issue", "id": "7", "url": "https://x/7"}, {"kind": "issue", "id": "7"}],
    "evidence_refs": [{"kind": "log", "id": "1", "label": "l", "summary": "s"}, {"kind": "log", "id": "1"}],
}
STORED: Final[dict[str, Any]] = {
    **GIVEN,
    "labels": ["B", "a", "z"],
    "due_at": "2999-01-01T00:00:00.000Z",
    "not_before": "2001-01-01T00:00:00.000Z",
    "snoozed_until": "2001-01-02T00:00:00.123Z",
}


def plain(item: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An item of which only the title was given, with the id and the instants of another."""
    return {
        **{name: item[name] for name in ("id", "created_at", "updated_at")},
        **{"realm_id": "default", "namespace": "default", "title": "t", "status": "open", "priority": "medium"},
        "completion_policy": {"kind": "self_attest"},
        "failed_child_join_policy": "require_success",
        "cancelled_child_join_policy": "require_success",
        **{"unresolved_blockers": 0, "join_state": "satisfied", "content_revision": 1, "revision": 1},
        **more,
    }


async def test_a_new_item_has_its_defaults_and_omits_what_is_empty(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client, " \tt\n ")
        assert item == plain(item)
        assert item["id"].startswith("work_")
        assert item["id"][5:][14] == "7", "a UUIDv7"
        assert item["created_at"] == item["updated_at"]
        assert await get(client, item["id"]) == item


async def test_a_new_item_is_stored_as_given(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        before = await head(client)
        item = await create(client, "t", status="blocked", realm_id="r", namespace="n", **GIVEN)
        evidence = [{**given, "at": item["created_at"], "by": ME} for given in GIVEN["evidence_refs"]]
        scope = {"realm_id": "r", "namespace": "n"}
        assert item == plain(item, status="blocked", **{**scope, **STORED, "evidence_refs": evidence})
        assert await get(client, item["id"], **scope) == item
        told = {"status": "blocked", "title": "t", "priority": "high", "labels": ["B", "a", "z"]}
        data = {"revision": 1, "completion_policy": {"kind": "self_attest"}, **told}
        assert await since(client, before) == [("item_created", item["id"], data)]


async def test_a_new_item_is_told_and_that_it_is_ready(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client, daemon.client(role="w") as worker:
        item = await create(worker)
        data = {"status": "open", "title": "t", "priority": "medium", "completion_policy": {"kind": "self_attest"}}
        events = await told(client, item["id"])
        assert [(event["type"], event["data"]) for event in events] == [
            ("item_created", {"revision": 1, **data}),
            ("item_ready", {"revision": 1, "cause": "created"}),
        ]
        scope = {"family": "workgraph", "realm_id": "default", "namespace": "default", "role": "w"}
        assert all({**event, **scope} == event for event in events)
        operators = await create(client)
        assert all("role" not in event for event in await told(client, operators["id"]))
        gated = await create(client, not_before="2999-01-01T00:00:00Z")
        assert [event["type"] for event in await told(client, gated["id"])] == ["item_created"]


WRONG: Final[list[tuple[dict[str, Any], str, str | None]]] = [
    ({"title": " \t "}, "invalid_params", "/title"),
    ({"title": ""}, "invalid_params", "/title"),
    ({"title": None}, "invalid_params", "/title"),
    ({"title": "t" * 1025}, "too_large", "/title"),
    ({"title": "a\0b"}, "invalid_params", None),
    ({"description": "d" * ((1 << 20) + 1)}, "too_large", "/description"),
    ({"labels": ["a", ""]}, "invalid_params", "/labels/1"),
    ({"labels": [str(n) for n in range(65)]}, "too_large", "/labels"),
    ({"priority": "urgent"}, "invalid_params", "/priority"),
    ({"status": "done"}, "invalid_params", "/status"),
    ({"due_at": "tomorrow"}, "invalid_params", "/due_at"),
    ({"failed_child_join_policy": "ignore"}, "invalid_params", "/failed_child_join_policy"),
    ({"external_refs": [{"kind": "k", "id": str(n)} for n in range(65)]}, "too_large", "/external_refs"),
    ({"external_refs": [{"kind": "k" * 65, "id": "1"}]}, "too_large", "/external_refs/0/kind"),
    ({"external_refs": [{"kind": "k", "id": "1", "url": "u" * 2049}]}, "too_large", "/external_refs/0/url"),
    ({"evidence_refs": [{"kind": "k", "id": str(n)} for n in range(257)]}, "too_large", "/evidence_refs"),
    (
        {"evidence_refs": [{"kind": "k", "id": "1"}, {"kind": " ", "id": "1"}]},
        "invalid_params",
        "/evidence_refs/1/kind",
    ),
    ({"evidence_refs": [{"kind": "host_confirmation", "id": "1"}]}, "invalid_params", "/evidence_refs/0/kind"),
    ({"evidence_refs": [{"kind": "k", "id": "1", "summary": "s" * 8193}]}, "too_large", "/evidence_refs/0/summary"),
    ({"evidence_refs": [{"kind": "k", "id": "1", "label": "s" * 1025}]}, "too_large", "/evidence_refs/0/label"),
    ({"evidence_refs": [{"kind": "k" * 257, "id": "1"}]}, "too_large", "/evidence_refs/0/kind"),
    ({"completion_policy": {"kind": "host_confirmed"}}, "invalid_params", "/completion_policy"),
    (
        {"completion_policy": {"kind": "reviewer_quorum", "threshold": 65}},
        "invalid_params",
        "/completion_policy/threshold",
    ),
    (
        {"completion_policy": {"kind": "reviewer_quorum", "threshold": 0}},
        "invalid_params",
        "/completion_policy/threshold",
    ),
    ({"completion_policy": {"kind": "anyone"}}, "invalid_params", "/completion_policy/kind"),
    ({"realm_id": ""}, "invalid_params", "/realm_id"),
    ({"lables": ["a"]}, "invalid_params", "/lables"),
]
"""What a new item may not be given, and where it is wrong."""


async def test_a_new_item_of_a_wrong_shape_is_refused_where_it_is_wrong(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        before = await head(client)
        for given, code, path in WRONG:
            refused = await client.refused("workgraph/create", **{"title": "t", **given})
            assert refused.code == code, given
            assert path is None or refused.data["path"] == path
        assert await head(client) == before


async def test_no_item_begins_in_another_status_which_is_said_last(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        observer = {"title": "t", "target": target("o"), "mode": "observe"}
        goal = await client.call("workgraph/goal/create", **observer)
        before = await head(client)
        for status in ("in_progress", "completed", "cancelled", "failed"):
            call = {"title": "t", "status": status}
            for method, more in (("create", {}), ("goal/create", {"target": target("x")})):
                refused = await client.refused(f"workgraph/{method}", **call, **more)
                assert (refused.code, refused.data["reason"]) == ("invalid_transition", "create_status")
                blank = await client.refused(f"workgraph/{method}", **{**call, **more, "title": " "})
                assert blank.code == "invalid_params"
            for binding, code in (("none", "not_found"), (goal["attention"]["binding_id"], "authority_missing")):
                assert (await client.refused("workgraph/create", **call, binding_id=binding)).code == code
        assert await head(client) == before


async def test_what_is_exactly_as_large_as_allowed_is_stored(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        given: dict[str, Any] = {
            "title": "é" * 512,
            "description": "d" * (1 << 20),
            "labels": [f"{n:02}" for n in range(64)],
            "external_refs": [{"kind": "k" * 64, "id": "i" * 256, "url": "u" * 2048}] * 64,
            "evidence_refs": [{"kind": "k" * 256, "id": "i", "label": "l" * 1024, "summary": "s" * 8192}] * 256,
        }
        item = await create(client, **given)
        evidence = item.pop("evidence_refs")
        assert len(evidence) == 256
        assert {name: item[name] for name in given if name != "evidence_refs"} == {
            name: value for name, value in given.items() if name != "evidence_refs"
        }


FORGED: Final = {
    "confirmation_kind": "host_confirmation",
    "confirming_owner_key": {"kind": "agent", "id": "boss"},
    "content_revision": 1,
    "at": "2001-01-01T00:00:00.000Z",
    "by": "somebody else",
}


async def test_what_only_the_daemon_says_of_evidence_is_stripped_and_counts_nothing(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client, daemon.client(role="w") as worker:
        item = await create(client, evidence_refs=[{"kind": "k", "id": "1", **FORGED}])
        assert item["evidence_refs"] == [{"kind": "k", "id": "1", "at": item["created_at"], "by": ME}]
        added = await worker.call("workgraph/evidence/add", **at(item), evidence={"kind": "k", "id": "1", **FORGED})
        last = added["item"]["evidence_refs"][1]
        assert last == {"kind": "k", "id": "1", "at": added["item"]["updated_at"], "by": "w"}
        assert "confirmations" not in added["item"]
        given = await client.call("workgraph/evidence/add", id=item["id"], evidence=last)
        assert given["item"]["evidence_refs"][2] == {**last, "at": given["item"]["updated_at"], "by": ME}
        copy = await create(client, evidence_refs=given["item"]["evidence_refs"])
        assert copy["evidence_refs"] == [{"kind": "k", "id": "1", "at": copy["created_at"], "by": ME}] * 3


async def test_a_result_can_be_sent_back_wherever_its_type_is_a_param(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client, **GIVEN)
        params = {name: item[name] for name in (*GIVEN, "title", "status", "completion_policy")}
        again = await create(client, **params)
        assert {**again, **{name: item[name] for name in ("id", "created_at", "updated_at", "evidence_refs")}} == item
        fields = {name: value for name, value in params.items() if name not in ("status", "evidence_refs")}
        assert (await client.call("workgraph/update", **at(item), **fields))["item"] == item
        claimed = (await claim(client, item))["item"]
        await client.call("workgraph/list", owner_key=claimed["owner"]["key"])
        taken = await client.call("workgraph/claim", **at(again), owner=claimed["claim"]["owner"])
        assert taken["item"]["owner"] == claimed["owner"]
