"""`ledger/get query task depth`: filters, pages that stay stable, counts that are exact (contract ledger 4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness import Client, served
from tests.ledger.common import complete, pulled, row_of, send


async def found(client: Client, **wanted: Any) -> list[str]:
    """Every row of a query by small pages, latest first."""
    rows: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = await client.call("ledger/query", limit=2, **wanted, **cursor)
        rows += [row["msg_id"] for row in page["rows"]]
        if not page["has_more"]:
            assert "next_cursor" not in page
            return rows
        cursor = {"cursor": page["next_cursor"]}


async def test_every_filter_is_exact_and_they_combine(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b", "c")) as daemon, daemon.client(role="a") as a:
        first = await send(a, "b", causality={"task": "T"}, op_id="op-1")
        second = await send(a, "c", causality={"task": "T"})
        third = await send(a, "b#s1", "note", causality={"task": "T"})
        async with daemon.client(role="b") as b:
            fourth = await complete(b, "a", "T")
            await b.call("ledger/ack", msg_id=first)
        every = [fourth, third, second, first]
        assert await found(a) == every
        assert await found(a, role="b") == [fourth, third, first]
        assert await found(a, role="a") == every
        assert await found(a, role="nobody") == []
        assert await found(a, task="T") == every
        assert await found(a, task="U") == []
        assert await found(a, task="T", kind="task") == [second, first]
        assert await found(a, kind="note") == [third]
        assert await found(a, state="acked") == [first]
        assert await found(a, state="queued", role="b", task="T") == [fourth, third]
        assert await found(a, op_id="op-1") == [first]
        assert await found(a, op_id="op-1", kind="note") == []
        assert await found(a, op_id="op-2") == []
        assert await found(a, msg_id=second) == [second]
        assert await found(a, msg_id=second, task="U") == []
        assert await found(a, msg_id=second, op_id="op-1") == []


async def test_pages_are_stable_while_others_write(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        sent = [await send(operator, "b", "note") for _ in range(7)]
        pages: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = await operator.call("ledger/query", limit=3, role="b", **cursor)
            pages += [row["msg_id"] for row in page["rows"]]
            await send(operator, "b", "note")
            if not page["has_more"]:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert pages == sent[::-1]


@pytest.mark.parametrize("method", ["ledger/query", "ledger/task", "ledger/depth"])
async def test_a_cursor_of_another_query_or_none_at_all_is_refused(tmp_path: Path, method: str) -> None:
    about: dict[str, Any] = {"ledger/query": {"task": "T"}, "ledger/task": {"task": "T"}, "ledger/depth": {}}[method]
    other: dict[str, Any] = {
        "ledger/query": {"task": "U"},
        "ledger/task": {"task": "U"},
        "ledger/depth": {"role": "b"},
    }[method]
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client() as operator:
        for task in ("T", "T", "U"):
            await send(operator, "b", causality={"task": task})
        page = await operator.call(method, limit=1, **about)
        assert page["has_more"] is True
        # The limit is no part of the query.
        await operator.call(method, limit=2, cursor=page["next_cursor"], **about)
        elsewhere = (await operator.call("ledger/role/list", limit=1))["next_cursor"]
        for cursor, params in ((page["next_cursor"], other), (elsewhere, about), ("nonsense!", about), ("", about)):
            refused = await operator.refused(method, cursor=cursor, **params)
            assert (refused.code, refused.data["path"]) == ("invalid_params", "/cursor")


async def test_a_tasks_rows_come_earliest_first_in_pages_with_its_verdict(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        sent = [await send(operator, "b", causality={"task": "T"}) for _ in range(3)]
        await send(operator, "b", causality={"task": "other"})
        sent.append(await complete(operator, "b", "T", "failed"))
        first = await operator.call("ledger/task", task="T", limit=3)
        assert [row["msg_id"] for row in first["rows"]] == sent[:3]
        assert first["verdict"]["outcome"] == "failed"
        rest = await operator.call("ledger/task", task="T", limit=3, cursor=first["next_cursor"])
        assert ([row["msg_id"] for row in rest["rows"]], rest["has_more"]) == (sent[3:], False)


async def test_depth_counts_exactly_and_leaves_notes_out_of_queued(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client() as operator:
        oldest = await send(operator, "b", "note")
        for kind in ("task", "task", "note"):
            await send(operator, "b", kind)
        await complete(operator, "b", "T")
        await pulled(operator, role="b", kinds=["task"])
        found_now = await operator.call("ledger/depth")
        assert found_now["depths"] == [
            {"role": "a", "queued": 0, "notes": 0, "in_flight": 0},
            {
                "role": "b",
                "queued": 2,
                "notes": 2,
                "in_flight": 1,
                "oldest_queued_at": (await row_of(operator, oldest))["enqueued_at"],
            },
            {"role": "operator", "queued": 0, "notes": 0, "in_flight": 0},
        ]
        assert (await operator.call("ledger/depth", role="b"))["depths"] == found_now["depths"][1:2]
        status = await operator.call("daemon/status")
        assert status["messages"] == {"queued": 4, "in_flight": 1}


async def test_a_page_ends_early_at_four_mib_and_goes_on_behind_it(tmp_path: Path) -> None:
    """A head is at most 200 clusters, but a cluster may be large: these are 64 KiB each."""
    head = "Z" + "\u0316" * 32767
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        sent = [await send(operator, "b", "note", body={"text": head}) for _ in range(70)]
        page = await operator.call("ledger/query", limit=500)
        assert page["has_more"] is True
        rest = await operator.call("ledger/query", limit=500, cursor=page["next_cursor"])
        assert rest["has_more"] is False
        assert [row["msg_id"] for row in page["rows"] + rest["rows"]] == sent[::-1]


async def test_a_page_says_up_to_which_event_it_is_true(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        await send(operator, "b")
        head = (await operator.call("ledger/events/head"))["head"]
        for method in ("ledger/query", "ledger/depth", "ledger/role/list", "ledger/fault/list"):
            assert (await operator.call(method))["as_of_seq"] == head


@pytest.mark.parametrize(
    "params", [{"state": "qeued"}, {"kind": "tasks"}, {"role": "a b"}, {"limit": -1}, {"rol": "b"}]
)
async def test_a_filter_that_is_none_is_refused(tmp_path: Path, params: dict[str, Any]) -> None:
    async with served(tmp_path) as daemon, daemon.client() as operator:
        refused = await operator.refused("ledger/query", **params)
        assert refused.code in ("invalid_params", "limit_out_of_range")
        assert refused.data["path"] == "/" + next(iter(params))
