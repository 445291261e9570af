"""`ledger/role/*`: who exists, what it allows, who is there (contract ledger 1.3, 3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness import served
from tests.ledger.common import feed, head, pulled, send

DEFAULTS = {"admin": False, "max_sessions": 1, "note_queue": True}


async def test_a_new_role_has_the_defaults_and_is_announced(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as operator:
        before = await head(operator)
        role = {"name": "b", **DEFAULTS}
        assert await operator.call("ledger/role/upsert", name="b") == {"role": role, "changed": True}
        [event] = await feed(operator, before)
        assert (event["type"], event["subject"], event["role"]) == ("role_changed", "b", "b")
        assert event["data"] == {"change": "upserted", "role": role}


async def test_absent_keeps_null_gives_the_default_back_and_no_change_is_no_event(tmp_path: Path) -> None:
    full: dict[str, Any] = {"admin": True, "max_sessions": 7, "allowed_senders": ["a"], "note_queue": False}
    async with served(tmp_path) as daemon, daemon.client() as operator:
        assert (await operator.call("ledger/role/upsert", name="b", **full))["role"] == {"name": "b", **full}
        before = await head(operator)
        again = await operator.call("ledger/role/upsert", name="b", admin=True)
        assert again == {"role": {"name": "b", **full}, "changed": False}
        assert await head(operator) == before
        some = await operator.call("ledger/role/upsert", name="b", max_sessions=None, allowed_senders=[])
        assert some["role"] == {"name": "b", **full, "max_sessions": 1, "allowed_senders": []}
        nothing = dict.fromkeys(full)
        assert (await operator.call("ledger/role/upsert", name="b", **nothing))["role"] == {"name": "b", **DEFAULTS}


@pytest.mark.parametrize(
    ("params", "code", "path"),
    [
        ({"name": "daemon"}, "invalid_params", "/name"),
        ({"name": "two words"}, "invalid_params", "/name"),
        ({"name": ""}, "invalid_params", "/name"),
        ({"name": "n" * 257}, "too_large", "/name"),
        ({}, "invalid_params", "/name"),
        ({"name": "b", "max_sessions": 0}, "invalid_params", "/max_sessions"),
        ({"name": "b", "max_sessions": 10_001}, "invalid_params", "/max_sessions"),
        ({"name": "b", "allowed_senders": ["a"] * 257}, "too_large", "/allowed_senders"),
        ({"name": "b", "allowed_senders": ["a b"]}, "invalid_params", "/allowed_senders/0"),
        ({"name": "b", "max_session": 2}, "invalid_params", "/max_session"),
    ],
)
async def test_a_role_that_is_none_is_refused(tmp_path: Path, params: dict[str, Any], code: str, path: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as operator:
        refused = await operator.refused("ledger/role/upsert", **params)
        assert (refused.code, refused.data["path"]) == (code, path)


async def test_the_role_operator_is_there_from_the_start(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as operator:
        [info] = (await operator.call("ledger/role/list"))["roles"]
        assert info.pop("updated_at")
        assert info == {
            "role": {"name": "operator", **DEFAULTS},
            "presence": "offline",
            "connections": 0,
            "sessions": 0,
        }
        # What the operator sends comes from it, and answers go to it.
        await operator.call("ledger/role/upsert", name="b")
        await send(operator, "b", causality={"task": "T"})
        async with daemon.client(role="b") as b:
            await pulled(b)
            answer = await b.call(
                "ledger/send",
                kind="completion",
                to="operator",
                outcome="done",
                body={"text": "done"},
                causality={"task": "T"},
            )
        assert await pulled(operator, role="operator") == [answer["msg_id"]]


async def test_roles_are_listed_by_name_with_who_is_there_and_pages_go_on_behind_the_last(tmp_path: Path) -> None:
    names = tuple(f"r{n}" for n in range(5))
    async with (
        served(tmp_path, roles=names) as daemon,
        daemon.client() as operator,
        daemon.client(role="r1"),
        daemon.client(role="r1"),
    ):
        first = await operator.call("ledger/role/list", limit=3)
        assert [info["role"]["name"] for info in first["roles"]] == ["operator", "r0", "r1"]
        assert (first["roles"][2]["presence"], first["roles"][2]["connections"]) == ("online", 2)
        assert first["has_more"] is True
        await operator.call("ledger/role/upsert", name="a-new-one-before")
        rest = await operator.call("ledger/role/list", limit=3, cursor=first["next_cursor"])
        assert [info["role"]["name"] for info in rest["roles"]] == ["r2", "r3", "r4"]
        assert (rest["has_more"], "next_cursor" in rest) == (False, False)


async def test_sync_makes_the_roles_exactly_these_and_operator(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b", "c")) as daemon, daemon.client() as operator:
        await operator.call("ledger/role/upsert", name="a", max_sessions=5)
        before = await head(operator)
        wanted = [{"name": "a"}, {"name": "b"}, {"name": "d", "admin": True}]
        found = await operator.call("ledger/role/sync", roles=wanted)
        assert found == {"upserted": ["a", "d"], "removed": ["c"]}
        events = [(event["subject"], event["data"]["change"]) for event in await feed(operator, before)]
        assert events == [("a", "upserted"), ("d", "upserted"), ("c", "removed")]
        roles = [info["role"] for info in (await operator.call("ledger/role/list"))["roles"]]
        assert roles == [
            {"name": "a", **DEFAULTS},
            {"name": "b", **DEFAULTS},
            {"name": "d", **DEFAULTS, "admin": True},
            {"name": "operator", **DEFAULTS},
        ]
        assert await operator.call("ledger/role/sync", roles=wanted) == {"upserted": [], "removed": []}
        assert (await operator.refused("ledger/send", kind="note", to="c", body={"text": "x"})).code == "not_found"


async def test_a_role_in_use_is_not_removed_and_nothing_else_is_changed(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b", "c", "d", "e")) as daemon, daemon.client() as operator:
        for _ in range(2):
            await send(operator, "b")
        await pulled(operator, role="b", limit=1)
        settled = await send(operator, "d")
        await operator.call("ledger/ack", msg_id=settled)
        async with daemon.client(role="c"):
            before = await head(operator)
            refused = await operator.refused("ledger/role/sync", roles=[{"name": "new"}, {"name": "e", "admin": True}])
            assert (refused.number, refused.code) == (-32004, "in_use")
            assert refused.data["roles"] == [
                {"name": "b", "queued": 1, "in_flight": 1, "connections": 0},
                {"name": "c", "queued": 0, "in_flight": 0, "connections": 1},
            ]
            assert await head(operator) == before
            found = await operator.call("ledger/role/sync", roles=[{"name": name} for name in ("b", "c")])
            assert found == {"upserted": [], "removed": ["d", "e"]}
        assert (await operator.call("ledger/query", role="d"))["rows"][0]["msg_id"] == settled


@pytest.mark.parametrize(
    ("roles", "code", "path"),
    [
        ([{"name": "a"}, {"name": "a"}], "invalid_params", "/roles/1/name"),
        ([{"name": "daemon"}], "invalid_params", "/roles/0/name"),
        ([{"admin": True}], "invalid_params", "/roles/0/name"),
        ([{"name": "a", "max_sessions": 0}], "invalid_params", "/roles/0/max_sessions"),
        ([{"name": f"r{n}"} for n in range(1001)], "too_large", "/roles"),
    ],
)
async def test_sync_refuses_what_is_no_list_of_roles(
    tmp_path: Path, roles: list[dict[str, Any]], code: str, path: str
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as operator:
        before = await head(operator)
        refused = await operator.refused("ledger/role/sync", roles=roles)
        assert (refused.code, refused.data["path"]) == (code, path)
        assert await head(operator) == before


async def test_a_thousand_roles_are_made_at_once(tmp_path: Path) -> None:
    async with served(tmp_path, durability="normal") as daemon, daemon.client() as operator:
        found = await operator.call("ledger/role/sync", roles=[{"name": f"r{n:04}"} for n in range(1000)])
        assert len(found["upserted"]) == 1000
        depths = await operator.call("ledger/depth", limit=500)
        assert (len(depths["depths"]), depths["has_more"]) == (500, True)


async def test_an_unknown_role_is_answered_with_near_names(tmp_path: Path) -> None:
    names = ("reviewer", "reviewer2", "reviewers", "review", "previewer", "viewer", "unlike")
    async with served(tmp_path, roles=names) as daemon, daemon.client() as operator:
        refused = await operator.refused("ledger/send", kind="note", to="reviever", body={"text": "x"})
        assert (refused.number, refused.code) == (-32001, "not_found")
        assert (refused.data["kind"], refused.data["path"]) == ("role", "/to")
        assert refused.data["near"][0] == "reviewer"
        assert len(refused.data["near"]) == 5
        assert "unlike" not in refused.data["near"]
