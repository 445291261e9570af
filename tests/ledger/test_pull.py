"""`ledger/pull`: what is offered, in which order, to whom, and within which capacity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.harness import served
from tests.ledger.common import complete, feed, head, history, pulled, row_of, send, until_waiting


async def test_rows_are_offered_in_the_order_in_which_they_arrived_one_at_a_time_by_default(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        sent = [await send(operator, "b", kind) for kind in ("note", "task", "note")]
        sent.append(await complete(operator, "b", "T"))
        sent.append(await send(operator, "b", "control", control={"op": "probe", "task_id": "T"}))
        found = [(await b.call("ledger/pull"))["deliveries"] for _ in range(6)]
        assert [[one["envelope"]["msg_id"] for one in page] for page in found] == [[msg_id] for msg_id in sent] + [[]]


async def test_an_offer_is_one_move_with_one_event_and_counts(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        msg_id = await send(operator, "b")
        before = await head(b)
        found = await b.call("ledger/pull", session="s1")
        row = await row_of(b, msg_id)
        assert (row["state"], row["deliveries"], row["requeued"], row["session"]) == ("in_flight", 1, 0, "s1")
        assert "reason" not in row
        [event] = await feed(b, before)
        assert event["at"] == row["offered_at"]
        assert (event["data"]["state"], event["data"]["session"], event["data"]["deliveries"]) == ("in_flight", "s1", 1)
        assert found["as_of_seq"] == event["seq"]
        [delivery] = found["deliveries"]
        assert delivery["envelope"] == (await b.call("ledger/get", msg_id=msg_id))["envelope"]
        assert (delivery["deliveries"], delivery["requeued"]) == (1, 0)
        assert "at_capacity" not in found


async def test_what_is_in_flight_is_not_offered_again(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        await send(operator, "b", "note")
        assert len(await pulled(b)) == 1
        async with daemon.client(role="b") as other:
            for _ in range(50):
                assert await pulled(b) == []
                assert await pulled(other) == []


async def test_a_redelivery_says_how_often_it_was_offered_put_back_and_that_it_was_surfaced(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        msg_id = await send(operator, "b")
        await pulled(b)
        surfaced_at = (await b.call("ledger/surfaced", msg_id=msg_id))["row"]["surfaced_at"]
        await b.call("ledger/requeue", msg_id=msg_id)
        [delivery] = (await b.call("ledger/pull"))["deliveries"]
        assert (delivery["deliveries"], delivery["requeued"], delivery["surfaced_at"]) == (2, 1, surfaced_at)


async def test_a_row_keeps_its_place_in_the_order_across_requeues(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        sent = [await send(operator, "b", "note") for _ in range(4)]
        assert await pulled(b, limit=3) == sent[:3]
        for msg_id in (sent[2], sent[0], sent[1]):
            await b.call("ledger/requeue", msg_id=msg_id)
        assert await pulled(b) == sent


# -- capacity


async def test_a_role_has_at_most_max_sessions_tasks_in_flight(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        await operator.call("ledger/role/upsert", name="b", max_sessions=2)
        sent = [await send(operator, "b") for _ in range(3)]
        found = await b.call("ledger/pull", limit=9)
        assert [one["envelope"]["msg_id"] for one in found["deliveries"]] == sent[:2]
        assert found["at_capacity"] is True
        async with daemon.client(role="b") as other:
            found = await other.call("ledger/pull", limit=9)
            assert (found["deliveries"], found["at_capacity"]) == ([], True)
            await b.call("ledger/ack", msg_id=sent[0])
            assert await pulled(other) == sent[2:]
            assert "at_capacity" not in await other.call("ledger/pull")


async def test_notes_completions_and_controls_get_through_to_a_full_consumer(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        await send(operator, "b")
        await pulled(b)
        await send(operator, "b")
        through = [await send(operator, "b", "control", control={"op": "cancel", "task_id": "T"})]
        through.append(await send(operator, "b", "note"))
        through.append(await complete(operator, "b", "T"))
        found = await b.call("ledger/pull", limit=3)
        assert [one["envelope"]["msg_id"] for one in found["deliveries"]] == through
        assert found["at_capacity"] is True


async def test_a_named_session_is_given_one_task_while_it_holds_none(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        await operator.call("ledger/role/upsert", name="b", max_sessions=3)
        sent = [await send(operator, "b") for _ in range(4)]
        found = await b.call("ledger/pull", session="s1", limit=9)
        assert [one["envelope"]["msg_id"] for one in found["deliveries"]] == sent[:1]
        assert found["at_capacity"] is True
        assert await pulled(b, session="s1") == []
        assert await pulled(b, session="s2") == sent[1:2]
        await b.call("ledger/ack", msg_id=sent[0])
        assert await pulled(b, session="s1") == sent[2:3]
        assert await pulled(b) == sent[3:]


async def test_at_capacity_is_not_said_where_only_the_limit_held_tasks_back(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        await operator.call("ledger/role/upsert", name="b", max_sessions=5)
        for _ in range(3):
            await send(operator, "b")
        assert "at_capacity" not in await b.call("ledger/pull", limit=2)


async def test_lowering_max_sessions_takes_nothing_away(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        await operator.call("ledger/role/upsert", name="b", max_sessions=3)
        sent = [await send(operator, "b") for _ in range(4)]
        assert await pulled(b, limit=3) == sent[:3]
        await operator.call("ledger/role/upsert", name="b", max_sessions=1)
        assert [(await row_of(b, msg_id))["state"] for msg_id in sent[:3]] == ["in_flight"] * 3
        await b.call("ledger/ack", msg_id=sent[0])
        await b.call("ledger/ack", msg_id=sent[1])
        assert await pulled(b) == []
        await b.call("ledger/ack", msg_id=sent[2])
        assert await pulled(b) == sent[3:]


# -- whose mail


async def test_mail_for_a_session_is_offered_to_it_and_to_pulls_that_name_none(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        first = await send(operator, "b#s1", "note")
        second = await send(operator, "b", "note")
        third = await send(operator, "b#s2", "note")
        assert await pulled(b, session="s2") == [second, third]
        assert await pulled(b) == [first]
        assert (await row_of(b, first))["to"] == {"role": {"role": "b", "session": "s1"}}


async def test_mail_of_other_sessions_never_hides_what_stands_behind_it(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        for _ in range(40):
            await send(operator, "b#other", "note")
        mine = await send(operator, "b", "note")
        assert await pulled(b, session="s1", limit=1) == [mine]


async def test_only_the_kinds_that_were_asked_for_are_offered(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        task = await send(operator, "b")
        note = await send(operator, "b", "note")
        answer = await complete(operator, "b", "T")
        assert await pulled(b, kinds=["completion", "note", "note"]) == [note, answer]
        assert await pulled(b) == [task]


async def test_a_connection_of_several_roles_says_which(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b", "c")) as daemon, daemon.client(role="b") as b:
        await b.call("ledger/attach", role="c")
        refused = await b.refused("ledger/pull")
        assert (refused.code, refused.data["path"], refused.data["expected"]) == ("invalid_params", "/role", "b or c")
        assert await pulled(b, role="c") == []


async def test_the_operator_must_name_the_role_and_what_it_takes_is_held_by_nobody(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as watcher:
        async with daemon.client() as operator:
            msg_id = await send(operator, "b", "note")
            assert (await operator.refused("ledger/pull")).data["path"] == "/role"
            assert await pulled(operator, role="b") == [msg_id]
        await until_waiting(watcher, 0)
        async with daemon.client(role="b"):
            pass
        assert await history(watcher, msg_id) == [("queued", None), ("in_flight", None)]
        assert (await watcher.call("ledger/requeue", msg_id=msg_id))["row"]["state"] == "queued"


# -- bounds


@pytest.mark.parametrize(
    ("params", "path", "code"),
    [
        ({"limit": 0}, "/limit", "limit_out_of_range"),
        ({"limit": 101}, "/limit", "limit_out_of_range"),
        ({"wait_ms": 60_001}, "/wait_ms", "limit_out_of_range"),
        ({"wait_ms": -1}, "/wait_ms", "limit_out_of_range"),
        ({"kinds": []}, "/kinds", "invalid_params"),
        ({"kinds": ["tusk"]}, "/kinds/0", "invalid_params"),
        ({"kinds": ["task"] * 5}, "/kinds", "too_large"),
        ({"session": "a b"}, "/session", "invalid_params"),
    ],
)
async def test_params_outside_their_bounds_are_refused(
    tmp_path: Path, params: dict[str, Any], path: str, code: str
) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client(role="b") as b:
        refused = await b.refused("ledger/pull", **params)
        assert (refused.code, refused.data["path"]) == (code, path)


async def test_a_pull_offers_up_to_a_hundred(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        sent = [await send(operator, "b", "note") for _ in range(101)]
        assert await pulled(b, limit=100) == sent[:100]
        assert await pulled(b, limit=100) == sent[100:]


async def test_a_pull_stops_before_four_mib_of_bodies_but_offers_at_least_one(tmp_path: Path) -> None:
    mib = {"text": "x" * ((1 << 20) - len('{"text":""}'))}
    large = {"text": "x" * (1 << 20), "image": {"mime": "image/png", "data": "A" * (2796200)}, "details": "d" * 60000}
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        sent = [await send(operator, "b", "note", body=mib) for _ in range(5)]
        assert await pulled(b) == sent[:4]
        assert await pulled(b) == sent[4:]
        sent = [await send(operator, "b", "note", body=large) for _ in range(2)]
        assert await pulled(b) == sent[:1]
        assert await pulled(b) == sent[1:]


async def test_the_inbox_cursor_remembers_the_last_offer(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        made = (await b.call("ledger/role/list"))["roles"][0]["updated_at"]
        assert await b.call("ledger/cursor/get", kind="inbox", name="b") == {
            "cursor": {"kind": "inbox", "name": "b", "seq": 0},
            "updated_at": made,
        }
        sent = [await send(operator, "b", "note") for _ in range(2)]
        found = await b.call("ledger/pull", limit=2)
        await pulled(b)
        cursor = (await b.call("ledger/cursor/get", kind="inbox", name="b"))["cursor"]
        assert cursor == {"kind": "inbox", "name": "b", "seq": found["as_of_seq"], "msg_id": sent[1]}


async def test_a_long_queue_is_counted_exactly_and_drained_in_order(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        starts = [operator.start("ledger/send", kind="note", to="b", body={"text": str(n)}) for n in range(900)]
        sent = [(await start)["result"]["msg_id"] for start in starts]
        depth = (await b.call("ledger/depth", role="b"))["depths"][0]
        assert (depth["notes"], depth["queued"]) == (900, 0)
        found: list[str] = []
        while page := await pulled(b):
            found += page
        assert found == sent
