"""`ledger/events/since head publish` and `ledger/cursor/*` (contract ledger 1.6, 7, 8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Client, served
from tests.ledger.common import feed, head, pulled, row_of, send, until_past

TYPES = ("turn_end_without_complete", "delivery_blocked", "handoff")


async def publish(client: Client, count: int, **more: Any) -> list[int]:
    """Publish this many events; their seqs."""
    return [
        (await client.call("ledger/events/publish", **{"type": "handoff", "role": "operator", **more}))["seq"]
        for _ in range(count)
    ]


async def test_since_is_strictly_above_its_cursor_ascending_and_without_one_begins_at_the_oldest(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as operator:
        seqs = await publish(operator, 5)
        everything = await operator.call("ledger/events/since")
        assert [event["seq"] for event in everything["events"]] == list(range(1, seqs[-1] + 1))
        assert everything == await operator.call("ledger/events/since", after_seq=0)
        page = await operator.call("ledger/events/since", after_seq=seqs[1])
        assert [event["seq"] for event in page.pop("events")] == seqs[2:]
        assert page == {"scanned_seq": seqs[-1], "has_more": False, "as_of_seq": seqs[-1], "floor": 0}
        assert (await operator.call("ledger/events/since", after_seq=seqs[-1]))["events"] == []


async def test_a_page_goes_on_where_it_ended_and_its_filter_is_not_applied_behind_its_limit(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        start = await head(operator)
        mine: list[int] = []
        for _ in range(5):
            await publish(operator, 3)
            mine += await publish(operator, 1, role="b")
        found: list[int] = []
        after = start
        pages = 0
        while True:
            page = await operator.call("ledger/events/since", after_seq=after, roles=["b"], limit=2)
            found += [event["seq"] for event in page["events"]]
            after, pages = page["scanned_seq"], pages + 1
            if not page["has_more"]:
                break
        assert (found, pages, after) == (mine, 3, mine[-1])


async def test_a_filter_matches_any_value_of_a_field_and_all_fields(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client() as operator:
        start = await head(operator)
        for role in ("a", "b"):
            for type_ in TYPES:
                await publish(operator, 1, type=type_, role=role, task_id=f"{role}-{type_}")
        everything = await feed(operator, start)

        async def seen(**wanted: Any) -> list[int]:
            return [event["seq"] - start for event in await feed(operator, start, **wanted)]

        assert await seen(types=["handoff", "delivery_blocked"]) == [2, 3, 5, 6]
        assert await seen(roles=["b"]) == [4, 5, 6]
        assert await seen(subjects=["a-handoff", "b-handoff", "nothing"]) == [3, 6]
        assert await seen(families=["ledger"]) == [1, 2, 3, 4, 5, 6]
        assert await seen(families=["daemon"]) == []
        assert await seen(types=["handoff"], roles=["a"], subjects=["a-handoff"], families=["ledger", "daemon"]) == [3]
        assert await seen(types=["handoff"], subjects=["a-delivery_blocked"]) == []
        assert len(everything) == 6


@pytest.mark.parametrize("method", ["ledger/events/since", "ledger/events/subscribe"])
@pytest.mark.parametrize(
    ("params", "code", "path", "expected"),
    [
        ({"types": ["ledger_stat"]}, "invalid_params", "/types/0", "ledger_state"),
        ({"types": ["handoff", "handof"]}, "invalid_params", "/types/1", "handoff"),
        ({"families": ["leger"]}, "invalid_params", "/families/0", "ledger"),
        ({"types": []}, "invalid_params", "/types", None),
        ({"roles": ["r"] * 65}, "too_large", "/roles", None),
        ({"subjects": [7]}, "invalid_params", "/subjects/0", None),
        ({"after_seq": -1}, "invalid_params", "/after_seq", None),
    ],
)
async def test_a_filter_that_can_match_nothing_is_refused_with_the_nearest(
    tmp_path: Path, method: str, params: dict[str, Any], code: str, path: str, expected: str | None
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as operator:
        refused = await operator.refused(method, **params)
        assert (refused.code, refused.data["path"]) == (code, path)
        assert expected in (None, refused.data.get("expected"))


async def test_the_head_and_the_floor_begin_at_the_feeds_first_event(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as operator:
        [leader] = await feed(operator)
        assert (leader["type"], leader["family"]) == ("leader", "daemon")
        assert await operator.call("ledger/events/head") == {"head": 1, "floor": 0}


@pytest.mark.parametrize("method", ["ledger/events/since", "ledger/events/subscribe"])
async def test_a_cursor_above_the_head_or_below_the_floor_is_refused_with_what_there_is(
    tmp_path: Path, method: str
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as operator:
        await publish(operator, 5)
        last = (await feed(operator))[-1]
        await until_past(operator, last["at"])
        ahead = await operator.refused(method, after_seq=last["seq"] + 1)
        assert (ahead.number, ahead.code, ahead.data["head"]) == (-32008, "cursor_ahead", last["seq"])
        await operator.call("ledger/prune", what="events", before="2999-01-01T00:00:00Z", limit=3)
        expired = await operator.refused(method, after_seq=2)
        assert (expired.number, expired.code) == (-32008, "cursor_expired")
        assert (expired.data["floor"], expired.data["head"]) == (3, last["seq"] + 1)
        await operator.call(method, after_seq=3)
        if method == "ledger/events/since":
            page = await operator.call(method)
            assert (page["events"][0]["seq"], page["floor"]) == (4, 3)


async def test_large_pages_end_early_at_four_mib(tmp_path: Path) -> None:
    async with served(tmp_path, durability="normal") as daemon, daemon.client() as operator:
        start = await head(operator)
        seqs = await publish(operator, 80, payload="x" * 65000)
        page = await operator.call("ledger/events/since", after_seq=start, limit=500)
        assert 1 < len(page["events"]) < 80
        assert (page["has_more"], page["scanned_seq"]) == (True, page["events"][-1]["seq"])
        rest = await operator.call("ledger/events/since", after_seq=page["scanned_seq"], limit=500)
        assert [event["seq"] for event in page["events"] + rest["events"]] == seqs


async def test_seqs_of_concurrent_writers_have_no_gap_and_follow_the_order_of_commits(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        starts = [operator.start("ledger/send", kind="note", to="b", body={"text": str(n)}) for n in range(100)]
        sent = [(await start)["result"]["msg_id"] for start in starts]
        events = await feed(operator)
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        assert [event["at"] for event in events] == sorted(event["at"] for event in events)
        assert [event["subject"] for event in events if event["type"] == "ledger_state"] == sent


# -- publish


@pytest.mark.parametrize("type_", TYPES)
async def test_a_client_publishes_the_events_of_the_closed_set(tmp_path: Path, type_: str) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client(role="b") as b:
        about: dict[str, Any] = {"session_id": "s", "task_id": "T", "payload": {"why": [1, None]}}
        found = await b.call("ledger/events/publish", type=type_, **about)
        [event] = await feed(b, found["seq"] - 1)
        assert event.pop("at")
        assert event == {
            "seq": found["seq"],
            "family": "ledger",
            "type": type_,
            "subject": "s",
            "role": "b",
            "data": about,
        }


@pytest.mark.parametrize(
    ("about", "subject"),
    [({}, "b"), ({"task_id": "T"}, "T"), ({"task_id": "T", "session_id": "s"}, "s")],
)
async def test_the_subject_of_what_is_published_is_the_session_the_task_or_the_role(
    tmp_path: Path, about: dict[str, str], subject: str
) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client(role="b") as b:
        await b.call("ledger/events/publish", type="handoff", **about)
        event = (await feed(b))[-1]
        assert (event["subject"], event["data"]) == (subject, about)


@pytest.mark.parametrize(
    ("params", "code", "path"),
    [
        ({"type": "ledger_state", "role": "b"}, "invalid_params", "/type"),
        ({"type": "handof", "role": "b"}, "invalid_params", "/type"),
        ({"role": "b"}, "invalid_params", "/type"),
        ({"type": "handoff"}, "invalid_params", "/role"),
        ({"type": "handoff", "role": "b", "payload": "x" * 65535}, "too_large", "/payload"),
    ],
)
async def test_publish_refuses_other_types_and_says_what_is_missing(
    tmp_path: Path, params: dict[str, Any], code: str, path: str
) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        refused = await operator.refused("ledger/events/publish", **params)
        assert (refused.code, refused.data["path"]) == (code, path)


async def test_publishing_with_an_op_id_happens_once(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client(role="b") as b:
        first = await b.call("ledger/events/publish", type="handoff", op_id="op-1")
        again = await b.call("ledger/events/publish", type="handoff", op_id="op-1")
        assert json.dumps(again) == json.dumps({**first, "replayed": True})
        assert await head(b) == first["seq"]


# -- cursors


async def test_an_inbox_cursor_moves_either_way_and_delivery_never_depends_on_it(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        msg_id = await send(operator, "b")
        last = await head(b)
        forward = await b.call("ledger/cursor/set", kind="inbox", name="b", seq=last, msg_id=msg_id)
        assert forward["cursor"] == {"kind": "inbox", "name": "b", "seq": last, "msg_id": msg_id}
        assert forward == await b.call("ledger/cursor/get", kind="inbox", name="b")
        assert await head(b) == last
        assert await pulled(b) == [msg_id]
        back = await operator.call("ledger/cursor/set", kind="inbox", name="b", seq=0)
        assert back["cursor"] == {"kind": "inbox", "name": "b", "seq": 0}
        assert (await row_of(b, msg_id))["state"] == "in_flight"


async def test_a_cursor_of_a_role_that_was_removed_is_gone(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        await operator.call("ledger/cursor/set", kind="inbox", name="b", seq=1)
        await operator.call("ledger/role/sync", roles=[])
        await operator.call("ledger/role/upsert", name="b")
        assert (await operator.call("ledger/cursor/get", kind="inbox", name="b"))["cursor"]["seq"] == 0
