"""Pages of items, of what is ready, of the graph and its events; no scope sees another (contract workgraph 2, 6)."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final

import pytest

from interlock.stores.workgraph.rows import Item
from tests.harness import Client, served
from tests.ledger.common import head

from .common import at, claim, close, create, elapse, get, link, owner, ready_ids, sql, stop_sweeper, target

FAR: Final = "2999-01-01T00:00:00Z"
LISTS: Final = ("list", "ready", "snapshot")


async def ids(client: Client, method: str = "list", **params: Any) -> list[str]:
    """The ids on one page."""
    return [item["id"] for item in (await client.call(f"workgraph/{method}", **params))["items"]]


async def pages(client: Client, method: str, **params: Any) -> list[dict[str, Any]]:
    """Every page of a query."""
    found: list[dict[str, Any]] = []
    more: dict[str, Any] = {}
    while True:
        page = await client.call(f"workgraph/{method}", **params, **more)
        found.append(page)
        assert page["has_more"] == ("next_cursor" in page)
        if not page["has_more"]:
            return found
        more = {"cursor": page["next_cursor"]}


async def in_every_state(client: Client) -> dict[str, str]:
    """The id of one item in each status, changed one after the other."""
    made = {"open": await create(client)}
    made["in_progress"] = (await claim(client, await create(client)))["item"]
    made["blocked"] = (await client.call("workgraph/block", **at(await create(client))))["item"]
    for status in ("completed", "cancelled", "failed"):
        made[status] = await close(client, await create(client), status)
    return {status: item["id"] for status, item in made.items()}


async def test_a_list_has_what_its_statuses_say(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await in_every_state(client)
        alive = [made[status] for status in ("open", "in_progress", "blocked")]
        cases: list[tuple[dict[str, Any], list[str]]] = [
            ({}, alive),
            ({"include_terminal": True}, list(made.values())),
            ({"statuses": [], "include_terminal": False}, alive),
            *(({"statuses": [status]}, [item_id]) for status, item_id in made.items()),
            ({"statuses": ["failed", "open", "failed"]}, [made["open"], made["failed"]]),
            ({"statuses": ["blocked"], "include_terminal": True}, [made["blocked"]]),
        ]
        for params, expected in cases:
            assert sorted(await ids(client, **params)) == sorted(expected), params
            assert sorted(await ids(client, "snapshot", **params)) == sorted(expected), params
        refused = await client.refused("workgraph/list", statuses=["open", "done"])
        assert (refused.code, refused.data["path"]) == ("invalid_params", "/statuses/1")


async def test_a_list_is_in_the_order_of_change_either_way(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = [await create(client) for _ in range(4)]
        touched = (await client.call("workgraph/update", **at(made[1]), title="u"))["item"]
        sql(daemon.state_dir, "UPDATE items SET updated_at = 7 WHERE id IN (?, ?)", made[0]["id"], made[2]["id"])
        expected = [made[0]["id"], made[2]["id"], made[3]["id"], touched["id"]]
        assert await ids(client) == await ids(client, order="updated_asc") == expected
        assert await ids(client, order="updated_desc") == expected[::-1]
        for order in ("updated_asc", "updated_desc"):
            found = await pages(client, "list", order=order, limit=1)
            assert [page["items"][0]["id"] for page in found] == await ids(client, order=order)
        assert await ids(client, "snapshot") == expected
        assert (await client.refused("workgraph/list", order="created_asc")).code == "invalid_params"


async def test_labels_must_all_be_there(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        a, ab, abc = [(await create(client, labels=list(labels)))["id"] for labels in ("a", "ab", "abc")]
        await create(client)
        ended = await close(client, await create(client, labels=["a", "b"]))
        for labels, expected in (
            ([], 4),
            (["a"], [a, ab, abc]),
            (["b", "a"], [ab, abc]),
            (["c", "c", "a", "b"], [abc]),
            (["a", "d"], []),
            (["A"], []),
        ):
            for method in LISTS:
                found = await ids(client, method, labels=labels)
                assert len(found) == expected if isinstance(expected, int) else found == expected, (method, labels)
        assert await ids(client, labels=["a", "b"], statuses=["completed"]) == [ended["id"]]
        for order, expected in (("updated_asc", [ab, abc]), ("updated_desc", [abc, ab])):
            paged = await pages(client, "list", labels=["a", "b"], order=order, limit=1)
            assert [page["items"][0]["id"] for page in paged] == expected
        for method in LISTS:
            refused = await client.refused(f"workgraph/{method}", labels=[str(n) for n in range(17)])
            assert (refused.code, refused.data["path"]) == ("too_large", "/labels")


async def test_a_label_that_an_item_lost_finds_it_no_more(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client, labels=["a", "b"])
        item = (await client.call("workgraph/update", **at(item), labels=["b", "c"]))["item"]
        for label, count in (("a", 0), ("b", 1), ("c", 1)):
            for method in LISTS:
                assert len(await ids(client, method, labels=[label])) == count
        taken = (await claim(client, item))["item"]
        assert await ids(client, "ready", labels=["b"]) == []
        assert await ids(client, statuses=["in_progress"], labels=["b", "c"]) == [item["id"]]
        await client.call("workgraph/update", **at(taken), labels=None, fence=1)
        assert await ids(client, labels=["b"]) == []


async def test_an_owner_finds_what_it_holds(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        mine = (await claim(client, await create(client, labels=["x"])))["item"]
        lapsed = (await claim(client, await create(client)))["item"]
        await claim(client, await create(client), "b")
        await create(client)
        key = {"kind": "agent", "id": "a"}
        elapse(daemon.state_dir, lapsed["id"])
        assert sorted(await ids(client, owner_key=key)) == sorted([mine["id"], lapsed["id"]])
        assert await ids(client, owner_key=key, labels=["x"]) == [mine["id"]]
        assert await ids(client, owner_key=key, statuses=["in_progress"], labels=["x"]) == [mine["id"]]
        assert await ids(client, owner_key=key, statuses=["open", "completed"]) == []
        assert await ids(client, owner_key={"kind": "session", "id": "a"}) == []
        await client.call("workgraph/release", id=mine["id"], fence=1)
        await claim(client, lapsed, "b")
        assert await ids(client, owner_key=key) == []
        for wrong in ("agent:a", {"kind": "agent"}, {"kind": "team", "id": "a"}):
            assert (await client.refused("workgraph/list", owner_key=wrong)).code == "invalid_params"


async def test_a_page_has_as_much_as_is_asked_for(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for _ in range(2):
            await client.call("daemon/batch", steps=[{"method": "workgraph/create", "params": {"title": "t"}}] * 51)
        for method in LISTS:
            assert [len(page["items"]) for page in await pages(client, method)] == [100, 2]
            assert [len(page["items"]) for page in await pages(client, method, limit=0)] == [100, 2]
            assert [len(page["items"]) for page in await pages(client, method, limit=51)] == [51, 51]
            assert [len(page["items"]) for page in await pages(client, method, limit=102)] == [102]
            for limit in (501, -1):
                assert (await client.refused(f"workgraph/{method}", limit=limit)).code == "limit_out_of_range"
            empty = await client.call(f"workgraph/{method}", realm_id="other")
            assert (empty["items"], empty["has_more"], empty["as_of_seq"]) == ([], False, await head(client))


async def test_pages_go_on_where_they_were_whatever_changes_meanwhile(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = [await create(client) for _ in range(6)]
        first = await client.call("workgraph/list", limit=3)
        seen = [item["id"] for item in first["items"]]
        await client.call("workgraph/update", **at(made[0]), title="comes again at the end")
        await close(client, made[4])
        late = await create(client)
        rest: list[str] = []
        cursor = first["next_cursor"]
        while cursor is not None:
            page = await client.call("workgraph/list", limit=2, cursor=cursor)
            rest += [item["id"] for item in page["items"]]
            cursor = page.get("next_cursor")
        assert seen == [item["id"] for item in made[:3]]
        assert rest == [made[3]["id"], made[5]["id"], made[0]["id"], late["id"]]


def copies(state_dir: Path, item: dict[str, Any], count: int, first: int) -> None:
    """So many more items like this one, changed one ms after the other from `first` on, with its only label."""
    numbers = f"WITH RECURSIVE c(x) AS (SELECT {first} UNION ALL SELECT x + 1 FROM c WHERE x < {first + count - 1})"
    own = {"n": "NULL", "id": "'work_' || c.x", "updated_at": "c.x"}
    values = ", ".join(own.get(name, f"i.{name}") for name in Item._fields)
    sql(
        state_dir,
        f"INSERT INTO items({', '.join(Item._fields)}) {numbers} SELECT {values} FROM items AS i, c WHERE i.id = ?",
        item["id"],
    )
    labels = "item, label, realm_id, namespace, status, stage, priority, due_order, created_at, updated_at, id"
    values = f"n, '{item['labels'][0]}', {labels[13:]}"
    sql(
        state_dir,
        f"INSERT INTO item_labels({labels}) SELECT {values} FROM items WHERE updated_at BETWEEN ? AND ?",
        first,
        first + count - 1,
    )


async def test_a_page_that_looked_at_10000_rows_may_be_short_with_more_behind_it(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        copies(daemon.state_dir, await create(client, labels=["a"]), 10_100, 1)
        copies(daemon.state_dir, await create(client, labels=["b"]), 10_100, 20_001)
        both = [(await create(client, labels=["a", "b"]))["id"] for _ in range(2)]
        for method in ("list", "snapshot"):
            found = await pages(client, method, labels=["a", "b"], limit=1)
            assert [item["id"] for page in found for item in page["items"]] == both
            assert found[0]["items"] == []
        assert await ids(client, "ready", labels=["b", "a"]) == both
        taken = await client.call("workgraph/claim_next", owner=owner("x"), labels=["a", "b"])
        assert taken["item"]["id"] == both[0]


async def test_every_page_of_what_is_ready_is_judged_at_its_own_instant(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        made = [await create(client, priority=priority) for priority in ("high", "medium", "medium", "low")]
        gated = await create(client, not_before=FAR)
        page = await client.call("workgraph/ready", limit=2)
        assert [item["id"] for item in page["items"]] == [made[0]["id"], made[1]["id"]]
        await claim(client, made[2])
        await create(client, priority="high", title="before the cursor")
        sql(daemon.state_dir, "UPDATE items SET not_before = 1, gate_at = 1 WHERE id = ?", gated["id"])
        page = await client.call("workgraph/ready", limit=1, cursor=page["next_cursor"])
        assert [item["id"] for item in page["items"]] == [gated["id"]]
        page = await client.call("workgraph/ready", cursor=page["next_cursor"])
        assert [item["id"] for item in page["items"]] == [made[3]["id"]]
        assert page["has_more"] is False


async def test_pages_go_on_behind_a_deadline_of_any_year(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        years = ("0001", "1900", "1969", "1970", "9999")
        made = [(await create(client, due_at=f"{year}-01-01T00:00:00Z"))["id"] for year in years]
        found = await pages(client, "ready", limit=1)
        assert [page["items"][0]["id"] for page in found] == made


def forged(key: Any, mark: bytes = b"") -> str:
    """A cursor that somebody has made up."""
    return base64.urlsafe_b64encode(mark + json.dumps(key).encode()).decode().rstrip("=")


async def test_a_cursor_is_good_for_its_query_only(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for _ in range(3):
            await create(client, labels=["a", "b"])
            await create(client, labels=["a", "b"], realm_id="r")
        others: list[tuple[str, dict[str, Any]]] = [
            *(
                ("list", {name: value})
                for name, value in (("labels", ["a"]), ("order", "updated_desc"), ("realm_id", "r"))
            ),
            *(("list", {name: value}) for name, value in (("namespace", "n"), ("statuses", ["open"]))),
            ("list", {"include_terminal": True}),
            ("list", {"owner_key": {"kind": "agent", "id": "a"}}),
            *((method, {}) for method in LISTS),
            ("attention/list", {}),
            ("member/list", {}),
        ]
        for method in LISTS:
            cursor = (await client.call(f"workgraph/{method}", limit=1))["next_cursor"]
            assert len(await ids(client, method, cursor=cursor, limit=500)) == 2, "the limit is no part of the query"
            for other, params in others:
                if (other, params) != (method, {}):
                    refused = await client.refused(f"workgraph/{other}", cursor=cursor, **params)
                    assert (refused.code, refused.data["path"]) == ("invalid_params", "/cursor")


@pytest.mark.parametrize("method", LISTS)
async def test_a_made_up_cursor_is_refused_or_harmless(tmp_path: Path, method: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for _ in range(3):
            await create(client)
        real = (await client.call(f"workgraph/{method}", limit=1))["next_cursor"]
        mark = base64.urlsafe_b64decode(real + "=" * (-len(real) % 4))[:8]
        strange: list[Any] = [
            *(None, 1, "x", [], {}, [1], [[1, 2], "x"], [1.5, "x"], ["1", "x"], [2**63, "x"]),
            *([1, 1], [1, None], [1, 1, 1, 1], [2**63, 1, 1, "x"], [1, 1, 2**64, "x"], [None, 1, 1, "x"], [True, "x"]),
        ]
        cursors = [forged(key, mark) for key in strange] + [
            forged([1, "x"]),
            real[:-3],
            real + "AAAA",
            "",
            " ",
            "é",
            "%%",
        ]
        cursors += [base64.urlsafe_b64encode(mark + junk).decode() for junk in (b"\xff", b'[1,"\\ud800"]', b"[1,", b"")]
        for cursor in cursors:
            refused = await client.refused(f"workgraph/{method}", cursor=cursor)
            assert (refused.code, refused.data["path"]) == ("invalid_params", "/cursor"), cursor
        far = forged([2**63 - 1, 2**63 - 1, 2**63 - 1, "x"] if method == "ready" else [2**63 - 1, "x"], mark)
        assert await ids(client, method, cursor=far) == []
        near = forged([-1, -1, -1, "\0"] if method == "ready" else [-1, "\U0010ffff"], mark)
        assert len(await ids(client, method, cursor=near)) == 3


async def test_a_page_ends_at_4_mib_and_never_before_one_item(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        large = "d" * (1 << 20)
        made = [(await create(client, description=large))["id"] for _ in range(5)]
        big = [{"kind": "k" * 256, "id": "i", "summary": "s" * 8192, "label": "l" * 1024}] * 256
        item = await create(client, evidence_refs=big, description='"' * (1 << 20), priority="low")
        more = await create(client, priority="low")
        for method in LISTS:
            found = [[one["id"] for one in page["items"]] for page in await pages(client, method)]
            assert found == [made[:3], [*made[3:]], [item["id"]], [more["id"]]], method


async def test_a_snapshot_is_the_scope_with_every_edge_once(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        made = [await create(client) for _ in range(7)]
        joined = [("blocks", 0, 6), ("blocks", 6, 1), ("parent", 2, 1), ("related", 5, 0), ("related", 0, 5)]
        edges = [await link(client, kind, made[n], made[m]) for kind, n, m in [*joined, ("derived_from", 1, 0)]]
        goal = await client.call(
            "workgraph/goal/create", item_id=made[3]["id"], expected_revision=1, target=target("a")
        )
        binding = goal["attention"]
        stopped = {"binding_id": binding["binding_id"], "expected_revision": 1}
        binding = (await client.call("workgraph/attention/stop", **stopped))["attention"]
        other = await create(client, realm_id="other")
        head_seq = await head(client)
        whole = await client.call("workgraph/snapshot")
        assert {name: whole[name] for name in whole if name not in ("items", "edges", "captured_at")} == {
            "realm_id": "default", "namespace": "default", "all_namespaces": False, "event_high_water_mark": head_seq,
            "as_of_seq": head_seq, "has_more": False, "attention": [binding],
            "ready_item_ids": [made[n]["id"] for n in (0, 2, 3, 4, 5)],
        }  # fmt: skip
        assert [item["id"] for item in whole["items"]] == [item["id"] for item in made]
        assert other["id"] not in {item["id"] for item in whole["items"]}
        assert whole["captured_at"] >= made[-1]["created_at"]
        for limit in (1, 2, 3):
            found = await pages(client, "snapshot", limit=limit)
            for name in ("edges", "attention", "items"):
                rows = [json.dumps(row) for page in found for row in page[name]]
                assert sorted(rows) == sorted(json.dumps(row) for row in whole[name]), (name, limit)
            assert [one for page in found for one in page["ready_item_ids"]] == whole["ready_item_ids"]
        assert sorted(json.dumps(edge) for edge in edges) == sorted(json.dumps(edge) for edge in whole["edges"])


async def test_a_filtered_snapshot_has_only_edges_between_what_passes(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        a, b = await create(client, labels=["x"]), await create(client, labels=["x", "y"])
        outside, ended = await create(client), await create(client, labels=["x"])
        await link(client, "blocks", a, b)
        await link(client, "blocks", outside, a)
        await link(client, "related", a, outside)
        await link(client, "related", b, ended)
        await close(client, ended)
        found = await client.call("workgraph/snapshot", labels=["x"])
        assert [(edge["from_id"], edge["to_id"]) for edge in found["edges"]] == [(a["id"], b["id"])]
        assert found["ready_item_ids"] == [], "judged on the full graph"
        everything = await client.call("workgraph/snapshot", labels=["x"], include_terminal=True)
        assert {(edge["from_id"], edge["to_id"]) for edge in everything["edges"]} == {
            (a["id"], b["id"]), (b["id"], ended["id"])}  # fmt: skip
        assert (await client.call("workgraph/snapshot", statuses=["completed"]))["edges"] == []


async def test_events_are_those_of_the_scope_in_pages(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("w",)) as daemon, daemon.client() as client:
        start = await head(client)
        item = await create(client)
        await create(client, realm_id="other")
        await create(client, namespace="other")
        await client.call("ledger/events/publish", type="handoff", role="w")
        item = (await client.call("workgraph/update", **at(item), title="u"))["item"]
        whole = await client.call("workgraph/events")
        types = [event["type"] for event in whole["events"]]
        assert types == ["item_created", "item_ready", "item_updated"]
        assert {(event["subject"], event["family"]) for event in whole["events"]} == {(item["id"], "workgraph")}
        end = await head(client)
        assert (whole["scanned_seq"], whole["as_of_seq"], whole["has_more"], whole["floor"]) == (end, end, False, 0)
        seqs = [event["seq"] for event in whole["events"]]
        assert seqs == sorted(seqs)
        after, found = start, []
        for _ in range(20):
            page = await client.call("workgraph/events", after_seq=after, limit=1)
            found += page["events"]
            after = page["scanned_seq"]
            if not page["has_more"]:
                break
        assert found == whole["events"]
        for params, expected in (
            ({"types": ["item_updated", "item_closed"]}, ["item_updated"]),
            ({"subjects": [item["id"]]}, types),
            ({"subjects": ["none"]}, []),
            ({"after_seq": seqs[0]}, types[1:]),
            ({"after_seq": end}, []),
        ):
            page = await client.call("workgraph/events", **params)
            assert [event["type"] for event in page["events"]] == expected, params
        assert (await client.refused("workgraph/events", after_seq=end + 1)).code == "cursor_ahead"
        for types in (["item_create"], [], ["ledger_state"]):
            assert (await client.refused("workgraph/events", types=types)).code == "invalid_params"
        assert (await client.refused("workgraph/events", subjects=[])).code == "invalid_params"
        assert (await client.refused("workgraph/events", limit=501)).code == "limit_out_of_range"


async def test_events_below_the_floor_are_gone(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for _ in range(3):
            await create(client)
        await client.call("ledger/prune", what="events", before=FAR, limit=4)
        page = await client.call("workgraph/events")
        assert page["floor"] > 0
        assert (await client.refused("workgraph/events", after_seq=page["floor"] - 1)).code == "cursor_expired"
        assert (await client.call("workgraph/events", after_seq=page["floor"]))["events"] == page["events"]


def of_item(item: dict[str, Any], binding: str) -> list[tuple[str, dict[str, Any]]]:
    """A request of every method that names an item or a binding."""
    named, bound = at(item), {"binding_id": binding, "expected_revision": 1}
    evidence = {"kind": "k", "id": "1"}
    ends = {"kind": "related", "from_id": item["id"], "to_id": item["id"]}
    return [
        ("get", {"id": item["id"]}),
        ("explain", {"id": item["id"]}),
        ("claim", {**named, "owner": owner("a")}),
        ("renew", {"id": item["id"], "fence": 1}),
        ("release", {"id": item["id"]}),
        *((method, named) for method in ("update", "block", "unblock", "close")),
        ("evidence/add", {**named, "evidence": evidence}),
        ("link", ends),
        ("unlink", ends),
        ("goal/create", {"item_id": item["id"], "expected_revision": 1, "target": target("b")}),
        ("policy/escalate", {**named, **bound, "completion_policy": {"kind": "host_confirmed"}}),
        *((f"goal/{method}", bound) for method in ("confirm", "request_close")),
        ("goal/status", {"binding_id": binding}),
        *((f"attention/{method}", {"binding_id": binding}) for method in ("get", "projection")),
        *((f"attention/{method}", bound) for method in ("pause", "resume", "stop")),
        ("attention/reassign", {**bound, "target": target("b")}),
        ("attention/break_glass_reassign", {**bound, "target": target("b"), "reason": "r"}),
        ("create", {"title": "t", "binding_id": binding}),
    ]


async def test_what_is_of_another_scope_is_not_there(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        home = {"realm_id": "r", "namespace": "n"}
        goal = await client.call("workgraph/goal/create", title="t", target=target("a"), mode="coordinate", **home)
        item, binding = goal["item"], goal["attention"]["binding_id"]
        before = await head(client)
        for scope in ({}, {"realm_id": "r"}, {"namespace": "n"}, {"realm_id": "R", "namespace": "n"}):
            for method, params in of_item(item, binding):
                refused = await client.refused(f"workgraph/{method}", **params, **scope)
                assert (refused.number, refused.code) == (-32001, "not_found"), method
                assert item["id"] in refused.message or binding in refused.message, method
            for name in ("list", "ready", "snapshot"):
                assert await ids(client, name, **scope) == []
            assert (await client.call("workgraph/attention/list", **scope))["attention"] == []
            assert (await client.call("workgraph/attention/current", owner_key=target("a")["owner_key"], **scope)).get(
                "attention"
            ) is None
            assert (await client.call("workgraph/events", **scope))["events"] == []
            taken = await client.call("workgraph/claim_next", owner=owner("a"), **scope)
            assert "item" not in taken
        assert await head(client) == before
        assert await get(client, item["id"], **home) == item


async def test_edges_never_leave_their_scope(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        here, there = await create(client), await create(client, namespace="n")
        for scope in ({}, {"namespace": "n"}):
            for source, to in ((here, there), (there, here)):
                ends = {"kind": "blocks", "from_id": source["id"], "to_id": to["id"]}
                for method in ("link", "unlink"):
                    assert (await client.refused(f"workgraph/{method}", **ends, **scope)).code == "not_found"


async def test_scopes_end_and_go_on_by_themselves(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        scopes = [{"realm_id": realm, "namespace": name} for realm in ("a", "b") for name in ("a", "b")]
        made = [await create(client, **scope) for scope in scopes]
        for item, scope in zip(made, scopes, strict=True):
            assert await ready_ids(client, **scope) == [item["id"]]
            taken = await client.call("workgraph/claim_next", owner=owner("x"), **scope)
            assert taken["item"]["id"] == item["id"]
            assert {name: taken["item"][name] for name in scope} == scope
        await client.call("workgraph/close", id=made[0]["id"], expected_revision=2, fence=1, **scopes[0])
        ended = [await client.call("workgraph/events", types=["namespace_terminal"], **scope) for scope in scopes]
        assert [len(page["events"]) for page in ended] == [1, 0, 0, 0]
