"""Each change of an item is one revision and one event (contract workgraph 1, 6, 10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from interlock.lifecycle.times import parse_rfc3339
from tests.harness import Client, served
from tests.ledger.common import head

from .common import at, claim, close, create, elapse, get, link, owner, since, sql, stop_sweeper, told
from .test_creating import GIVEN, STORED

PATCHES: Final[list[tuple[str, Any, Any]]] = [
    ("title", "  other ", "other"),
    ("description", "other", "other"),
    ("description", "", ""),
    ("priority", "low", "low"),
    ("labels", ["y", "b", "y"], ["b", "y"]),
    ("failed_child_join_policy", "propagate", "propagate"),
    ("cancelled_child_join_policy", "accept", "accept"),
    ("due_at", "2998-01-01T00:00:00Z", "2998-01-01T00:00:00.000Z"),
    ("not_before", "2002-01-01T00:00:00+01:00", "2001-12-31T23:00:00.000Z"),
    ("snoozed_until", "2003-01-01T00:00:00Z", "2003-01-01T00:00:00.000Z"),
    ("external_refs", [{"kind": "k", "id": "1"}], [{"kind": "k", "id": "1"}]),
]


async def test_a_patch_changes_what_it_names_and_keeps_the_rest(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for name, value, stored in PATCHES:
            item = await create(client, **{**GIVEN, "not_before": "2001-06-01T00:00:00Z"})
            before = await head(client)
            after = (await client.call("workgraph/update", **at(item), **{name: value}))["item"]
            content = 2 if name in ("title", "description", "external_refs") else 1
            moved = {"revision": 2, "content_revision": content, "updated_at": after["updated_at"]}
            assert after == {**item, **moved, name: stored}
            assert after == await get(client, item["id"])
            told = {"bytes": len(stored)} if name == "description" else stored
            event = ("item_updated", item["id"], {"revision": 2, "changed": {name: told}})
            assert await since(client, before) == [event]


async def test_null_clears(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for name in ("description", "labels", "due_at", "not_before", "snoozed_until", "external_refs"):
            item = await create(client, **GIVEN)
            before = await head(client)
            after = (await client.call("workgraph/update", **at(item), **{name: None}))["item"]
            content = 2 if name in ("description", "external_refs") else 1
            moved = {"revision": 2, "content_revision": content, "updated_at": after["updated_at"]}
            assert after == {**{key: value for key, value in item.items() if key != name}, **moved}
            data = {"revision": 2, "changed": {}, "cleared": [name]}
            assert await since(client, before) == [("item_updated", item["id"], data)]
            empty: Any = [] if name in ("labels", "external_refs") else None
            assert (await client.call("workgraph/update", **at(after), **{name: empty}))["item"] == after


async def test_everything_at_once_is_one_revision_and_one_event(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client, description="é", labels=["a"])
        before = await head(client)
        patch = {"title": "u", "description": "éé", "priority": "low", "labels": None, "due_at": GIVEN["due_at"]}
        after = (await client.call("workgraph/update", **at(item), **patch))["item"]
        changed = {"title": "u", "description": {"bytes": 4}, "priority": "low", "due_at": STORED["due_at"]}
        data = {"revision": 2, "changed": changed, "cleared": ["labels"]}
        assert await since(client, before) == [("item_updated", item["id"], data)]
        assert (after["revision"], after["content_revision"]) == (2, 2)


async def test_a_patch_that_changes_nothing_answers_the_item_as_it_is(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client, **GIVEN)
        before = await head(client)
        same = {name: value for name, value in GIVEN.items() if name != "evidence_refs"}
        for patch in ({}, {"title": " t "}, {"labels": ["a", "z", "B"]}, same):
            assert (await client.call("workgraph/update", **at(item), **patch))["item"] == item
        stale = await client.refused("workgraph/update", id=item["id"], expected_revision=2)
        assert stale.code == "stale_revision"
        assert await head(client) == before
        assert await get(client, item["id"]) == item


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        *(({name: None}, f"/{name}") for name in ("title", "priority", "completion_policy")),
        *(({f"{kind}_child_join_policy": None}, f"/{kind}_child_join_policy") for kind in ("failed", "cancelled")),
        ({"title": " "}, "/title"),
        ({"completion_policy": {"kind": "host_confirmed"}}, "/completion_policy"),
        ({"status": "completed"}, "/status"),
        ({"evidence_refs": []}, "/evidence_refs"),
    ],
)
async def test_what_a_patch_may_not_say_is_refused(tmp_path: Path, patch: dict[str, Any], path: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        refused = await client.refused("workgraph/update", **at(item), **{"description": "new", **patch})
        assert (refused.code, refused.data["path"]) == ("invalid_params", path)
        assert await get(client, item["id"]) == item


async def test_the_policy_of_a_goal_must_be_named_in_full(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        policy = {"kind": "reviewer_quorum", "threshold": 2}
        target = {"kind": "owner", "owner_key": {"kind": "agent", "id": "a"}}
        made = await client.call("workgraph/goal/create", title="t", target=target, completion_policy=policy)
        item = made["item"]
        for other in (
            {"kind": "self_attest"},
            {**policy, "threshold": 3},
            {"kind": "supervisor", "owner_key": target["owner_key"]},
        ):
            refused = await client.refused("workgraph/update", **at(item), title="u", completion_policy=other)
            assert (refused.code, refused.data["path"]) == ("invalid_params", "/completion_policy")
        after = (await client.call("workgraph/update", **at(item), title="u", completion_policy=policy))["item"]
        assert (after["title"], after["revision"], after["completion_policy"]) == ("u", 2, policy)


async def test_only_new_content_has_a_new_content_revision(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        seen = []
        patches: list[dict[str, Any]] = [
            *({"priority": "low"}, {"title": "u"}, {"labels": ["a"]}, {"description": "d"}, {"due_at": None}),
            {"external_refs": [{"kind": "k", "id": "1"}]},
            {"title": "u", "not_before": GIVEN["not_before"]},
        ]
        for patch in patches:
            item = (await client.call("workgraph/update", **at(item), **patch))["item"]
            seen.append((item["revision"], item["content_revision"]))
        assert seen == [(2, 1), (3, 3), (4, 3), (5, 5), (5, 5), (6, 6), (7, 6)]
        item = (await client.call("workgraph/evidence/add", **at(item), evidence={"kind": "k", "id": "1"}))["item"]
        assert (item["revision"], item["content_revision"]) == (8, 6)


async def test_a_deadline_orders_and_never_gates_and_is_judged_at_read(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        item = await create(client, due_at="2001-01-01T00:00:00Z")
        assert item["overdue"] is True
        assert (await claim(client, item))["item"]["overdue"] is True
        closed = await close(client, item)
        assert "overdue" not in closed
        later = await create(client, due_at="2999-01-01T00:00:00Z")
        assert "overdue" not in later
        sql(daemon.state_dir, "UPDATE items SET due_at = 1 WHERE id = ?", later["id"])
        assert (await get(client, later["id"]))["overdue"] is True


async def test_blocking_replaces_the_note_and_unblocking_clears_it(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        before = await head(client)
        blocked = (await client.call("workgraph/block", **at(item), note="no key"))["item"]
        assert blocked == {**item, "status": "blocked", "block_note": "no key", "revision": 2,
                           "updated_at": blocked["updated_at"]}  # fmt: skip
        again = (await client.call("workgraph/block", **at(blocked), note="no lock"))["item"]
        assert (again["block_note"], again["revision"]) == ("no lock", 3)
        bare = (await client.call("workgraph/block", **at(again)))["item"]
        assert "block_note" not in bare
        noted = (await client.call("workgraph/block", **at(bare), note="n" * 1024))["item"]
        after = (await client.call("workgraph/unblock", **at(noted)))["item"]
        assert after == {**item, "revision": 6, "updated_at": after["updated_at"]}
        assert await since(client, before) == [
            ("item_blocked", item["id"], {"revision": 2, "note": "no key"}),
            ("item_blocked", item["id"], {"revision": 3, "note": "no lock"}),
            ("item_blocked", item["id"], {"revision": 4}),
            ("item_blocked", item["id"], {"revision": 5, "note": "n" * 1024}),
            ("item_unblocked", item["id"], {"revision": 6, "note": "n" * 1024}),
            ("item_ready", item["id"], {"revision": 6, "cause": "unblocked"}),
        ]
        too_long = await client.refused("workgraph/block", **at(after), note="n" * 1025)
        assert too_long.code == "too_large"


@pytest.mark.parametrize("status", ["completed", "cancelled", "failed"])
async def test_a_close_ends_the_item_and_what_it_held(tmp_path: Path, status: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client, **GIVEN)
        claimed = await claim(client, item)
        before = await head(client)
        result = await client.call("workgraph/close", **at(claimed["item"]), status=status, fence=claimed["fence"])
        end = result["item"]
        at_end = {"status": status, "revision": 3, "updated_at": end["updated_at"], "terminal_at": end["updated_at"]}
        assert end == {**item, **at_end}
        assert result == {"item": end}
        data = {"revision": 3, "status": status, "cause": "closed", "fence": 1}
        assert await since(client, before) == [
            ("item_closed", item["id"], data),
            ("namespace_terminal", item["id"], {"observed_at": end["terminal_at"]}),
        ]


async def test_a_close_clears_the_note_and_is_completed_by_default(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        blocked = (await client.call("workgraph/block", **at(item), note="no key"))["item"]
        end = (await client.call("workgraph/close", **at(blocked)))["item"]
        assert end["status"] == "completed"
        assert not {"owner", "claim"} & end.keys()
        for status in ("open", "in_progress", "blocked", "done", None):
            refused = await client.refused("workgraph/close", id=item["id"], expected_revision=3, status=status)
            assert (refused.code, refused.data["path"]) == ("invalid_params", "/status")


async def test_a_close_tells_dependents_and_parents_and_the_end_of_the_namespace_in_order(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item, dependent, parent, both = [await create(client, title) for title in ("i", "d", "p", "b")]
        await link(client, "blocks", item, dependent)
        await link(client, "parent", item, parent)
        await link(client, "parent", item, both)
        await link(client, "blocks", item, both)
        before = await head(client)
        await close(client, item)
        events = await since(client, before)
        assert (events[0][0], events[0][1]) == ("item_closed", item["id"])
        ready = {(subject, data["cause"]) for kind, subject, data in events[1:] if kind == "item_ready"}
        assert {subject for subject, _ in ready} == {dependent["id"], parent["id"], both["id"]}
        assert len(events) == 4, "once per item, though one was held back twice"
        assert {(dependent["id"], "blocker_closed"), (parent["id"], "child_closed")} <= ready
        assert all(data["by"] == item["id"] and data["revision"] == 1 for _, _, data in events[1:])
        for other in (dependent, parent):
            await close(client, other)
        assert not [event for event in await since(client, before) if event[0] == "namespace_terminal"]
        last = await close(client, both)
        assert (await since(client, before))[-1] == (
            "namespace_terminal", both["id"], {"observed_at": last["terminal_at"]})  # fmt: skip


@pytest.mark.parametrize("state", ["open", "in_progress", "blocked"])
async def test_the_namespace_ends_with_its_last_item_whatever_others_do(tmp_path: Path, state: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await create(client, realm_id="other")
        first, second = await create(client), await create(client)
        if state == "in_progress":
            await claim(client, second)
        elif state == "blocked":
            await client.call("workgraph/block", **at(second))
        await close(client, first)
        assert await told(client, first["id"], "namespace_terminal") == []
        await close(client, second, "failed")
        assert len(await told(client, second["id"], "namespace_terminal")) == 1
        third = await create(client)
        await close(client, third)
        assert len(await told(client, third["id"], "namespace_terminal")) == 1, "each time it comes to that"


async def test_completing_needs_everything_done_and_giving_up_does_not(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item, child, blocker = [await create(client) for _ in range(3)]
        await link(client, "parent", child, item)
        await link(client, "blocks", blocker, item)
        refused = await client.refused("workgraph/close", **at(item))
        assert (refused.code, refused.data) == (
            "invalid_transition",
            {"code": "invalid_transition", "retryable": False, "reason": "incomplete", "id": item["id"],
             "status": "open", "current_revision": 1, "open_children": 1, "unresolved_blockers": 1},
        )  # fmt: skip
        before = await head(client)
        end = (await client.call("workgraph/close", **at(item), even_if_incomplete=True))["item"]
        data = {"revision": 2, "status": "completed", "cause": "closed", "even_if_incomplete": True}
        assert (await since(client, before))[0] == ("item_closed", item["id"], data)
        assert (end["children"]["active"], end["unresolved_blockers"]) == (1, 1)
        assert [(await get(client, one["id"]))["status"] for one in (child, blocker)] == ["open", "open"]
        for status in ("cancelled", "failed"):
            other = await create(client)
            await link(client, "blocks", blocker, other)
            assert (await close(client, other, status))["status"] == status


async def test_a_failed_child_does_not_keep_its_parent_from_being_completed(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item, child = await create(client), await create(client)
        await link(client, "parent", child, item)
        await close(client, child, "failed")
        assert (await get(client, item["id"]))["join_state"] == "waiting"
        assert (await client.call("workgraph/close", **at(item)))["item"]["status"] == "completed"


async def test_evidence_is_appended_and_told_without_its_summary(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client, daemon.client(role="w") as worker:
        item = await create(client)
        before = await head(client)
        given = {"kind": "log", "id": "1", "label": "l", "summary": "long"}
        after = (await worker.call("workgraph/evidence/add", id=item["id"], evidence=given))["item"]
        stored = {**given, "at": after["updated_at"], "by": "w"}
        moved = {"revision": 2, "updated_at": after["updated_at"], "evidence_refs": [stored]}
        assert after == {**item, **moved}
        told = {name: value for name, value in stored.items() if name != "summary"}
        data = {"revision": 2, "evidence": told}
        assert await since(client, before) == [("evidence_added", item["id"], data)]
        stale = await client.refused("workgraph/evidence/add", **at(item), evidence=given)
        assert stale.code == "stale_revision"
        end = await close(client, item)
        ended = (await client.call("workgraph/evidence/add", **at(end), evidence=given))["item"]
        assert (ended["status"], ended["revision"], len(ended["evidence_refs"])) == ("completed", 4, 2)
        assert ended["terminal_at"] == end["terminal_at"]


@pytest.mark.parametrize(
    "kind", ["host_confirmation", "principal_confirmation", "supervisor_confirmation", "reviewer_confirmation", " "]
)
async def test_a_reserved_or_blank_kind_is_no_evidence(tmp_path: Path, kind: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        refused = await client.refused("workgraph/evidence/add", **at(item), evidence={"kind": kind, "id": "1"})
        assert (refused.code, refused.data["path"]) == ("invalid_params", "/evidence/kind")
        assert await get(client, item["id"]) == item


async def test_the_257th_piece_of_evidence_is_too_much_however_they_came(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client, evidence_refs=[{"kind": "k", "id": str(n)} for n in range(255)])
        item = (await client.call("workgraph/evidence/add", **at(item), evidence={"kind": "k", "id": "255"}))["item"]
        refused = await client.refused("workgraph/evidence/add", **at(item), evidence={"kind": "k", "id": "256"})
        assert (refused.code, refused.data["max"]) == ("too_large", 256)
        assert await get(client, item["id"]) == item
        assert [one["id"] for one in item["evidence_refs"]] == [str(n) for n in range(256)]


async def test_a_terminal_item_is_what_it_is_for_ever(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        item = await create(client, due_at="2001-01-01T00:00:00Z", description="d")
        end = await close(client, item, "cancelled")
        blocker = await create(client)
        await link(client, "blocks", blocker, end)
        await link(client, "parent", blocker, end)
        now = await get(client, end["id"])
        counted = {"unresolved_blockers": 1, "children": {"active": 1, "completed": 0, "failed": 0, "cancelled": 0}}
        assert now == {**end, **counted, "join_state": "waiting"}
        await close(client, blocker)
        assert (await get(client, end["id"]))["status"] == "cancelled"


async def test_what_a_transition_of_an_elapsed_claim_tells(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        for method, params, event, ready in (
            ("update", {"title": "u"}, ("item_updated", {"changed": {"title": "u"}}), True),
            ("block", {}, ("item_blocked", {}), False),
            ("close", {"status": "failed"}, ("item_closed", {"status": "failed", "cause": "closed"}), False),
            ("evidence/add", {"evidence": {"kind": "k", "id": "1"}}, ("evidence_added", {}), True),
        ):
            await create(client, realm_id="r", title="another, so that the namespace goes on")
            claimed = (await claim(client, await create(client, "t")))["item"]
            elapse(daemon.state_dir, claimed["id"])
            until = (await get(client, claimed["id"]))["claim"]["lease_expires_at"]
            before = await head(client)
            after = (await client.call(f"workgraph/{method}", **at(claimed), **params))["item"]
            assert after["revision"] == claimed["revision"] + 2
            assert not {"owner", "claim"} & after.keys()
            found = await since(client, before)
            lapse = {"revision": 3, "owner": owner("a"), "fence": 1, "cause": "lease_expired"}
            assert found[0] == ("item_released", claimed["id"], {**lapse, "lease_expires_at": until})
            assert found[1][0] == event[0]
            assert {**found[1][2], **event[1], "revision": 4} == found[1][2]
            told = [(kind, data) for kind, _, data in found[2:] if kind == "item_ready"]
            assert told == ([("item_ready", {"revision": 4, "cause": "lease_expired"})] if ready else [])
            if ready:
                await close(client, claimed)


async def test_an_item_never_says_it_was_changed_before_it_was(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        seen = [item]
        for n in range(5):
            seen.append((await client.call("workgraph/update", **at(seen[-1]), title=f"t{n}"))["item"])
        instants = [parse_rfc3339(one["updated_at"]) for one in seen]
        assert instants == sorted(instants)
        assert {one["created_at"] for one in seen} == {item["created_at"]}


async def repeated(client: Client, method: str, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answers to a request and to its repetition."""
    first = await client.call(method, **params)
    return first, await client.call(method, **params)


async def test_a_repetition_with_its_op_id_is_the_first_answer_whatever_came_between(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        first, again = await repeated(client, "workgraph/create", {"title": "t", "op_id": "create"})
        assert again == {**first, "replayed": True}
        item, other = first["item"], await create(client, "other")
        edge = {"kind": "blocks", "from_id": other["id"], "to_id": item["id"]}
        calls: list[tuple[str, dict[str, Any]]] = [
            ("update", {"title": "u"}),
            ("block", {"note": "n"}),
            ("unblock", {}),
            ("evidence/add", {"evidence": {"kind": "k", "id": "1"}}),
            ("close", {"status": "failed"}),
        ]
        for n, (method, params) in enumerate(calls, 1):
            call = {"id": item["id"], "expected_revision": n, "op_id": method, **params}
            done, again = await repeated(client, f"workgraph/{method}", call)
            assert again == {**done, "replayed": True}
            assert done["item"]["revision"] == n + 1
            gone = await client.refused(f"workgraph/{method}", **{**call, "expected_revision": n + 1})
            assert (gone.code, gone.data["method"]) == ("op_conflict", f"workgraph/{method}")
        for method in ("link", "unlink"):
            done, again = await repeated(client, f"workgraph/{method}", {**edge, "op_id": method})
            assert again == {**done, "replayed": True}
        assert (await client.call("workgraph/create", title="t", op_id="create"))["item"]["revision"] == 1


async def test_a_refusal_is_not_remembered(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        call = {"id": item["id"], "expected_revision": 2, "title": "u", "op_id": "op"}
        assert (await client.refused("workgraph/update", **call)).code == "stale_revision"
        await client.call("workgraph/update", **at(item), priority="low")
        assert (await client.call("workgraph/update", **call))["item"]["title"] == "u"
