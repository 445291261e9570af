"""`ledger/prune` and what the daemon removes by itself (contract ledger 2.8, 4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.daemon.settings import LedgerSettings
from tests.harness import Client, served
from tests.ledger.common import (
    age,
    complete,
    feed,
    head,
    pulled,
    row_of,
    send,
    until,
    until_event,
    until_past,
)

FUTURE = "2999-01-01T00:00:00Z"
DAY_MS = 86_400_000


async def test_bodies_of_what_was_acked_before_go_oldest_first_and_everything_else_stays(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        acked = [await send(operator, "b", "note") for _ in range(3)]
        others = [await send(operator, "b", "note") for _ in range(3)]
        for msg_id in acked:
            await operator.call("ledger/ack", msg_id=msg_id)
        await operator.call("ledger/reject", msg_id=others[0])
        await pulled(operator, role="b", limit=1)
        before = await head(operator)
        assert await operator.call("ledger/prune", before=FUTURE, limit=2) == {"pruned": 2, "has_more": True}
        assert await operator.call("ledger/prune", before=FUTURE, limit=2) == {"pruned": 1, "has_more": False}
        assert await operator.call("ledger/prune", before=FUTURE) == {"pruned": 0, "has_more": False}
        events = await feed(operator, before)
        assert [(event["type"], event["subject"], event["data"]["count"]) for event in events] == [
            ("ledger_pruned", "bodies", 2),
            ("ledger_pruned", "bodies", 1),
        ]
        assert events[0]["data"] == {"what": "bodies", "before": "2999-01-01T00:00:00.000Z", "count": 2}
        for msg_id in acked:
            found = await operator.call("ledger/get", msg_id=msg_id)
            assert (found["row"]["body_pruned"], found["row"]["head"]) == (True, "text")
            assert "body" not in found["envelope"]
        for msg_id in others:
            found = await operator.call("ledger/get", msg_id=msg_id)
            assert ("body_pruned" in found["row"], found["envelope"]["body"]) == (False, {"text": "text"})


@pytest.mark.parametrize("what", ["bodies", "events"])
async def test_what_happened_at_the_instant_itself_stays(tmp_path: Path, what: str) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        msg_id = await send(operator, "b", "note")
        last = (await row_of(operator, msg_id))["enqueued_at"]
        await until_past(operator, last)
        settled = (await operator.call("ledger/ack", msg_id=msg_id))["row"]["settled_at"]
        found = await operator.call("ledger/prune", what=what, before=settled)
        if what == "bodies":
            assert found == {"pruned": 0, "has_more": False}
            return
        assert found["has_more"] is False
        events = await feed(operator, found["pruned"])
        assert [event["data"].get("state") for event in events] == ["in_flight", "acked", None]


async def test_pruned_events_move_the_floor_and_the_seqs_go_on(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        await send(operator, "b", "note")
        last = await head(operator)
        found = await operator.call("ledger/prune", what="events", before=FUTURE, limit=2)
        assert found == {"pruned": 2, "has_more": True}
        assert await operator.call("ledger/events/head") == {"head": last + 1, "floor": 2}
        found = await operator.call("ledger/prune", what="events", before=FUTURE)
        assert found == {"pruned": last - 1, "has_more": False}
        # Never the event that it wrote itself: it is all that is left.
        assert await operator.call("ledger/events/head") == {"head": last + 2, "floor": last + 1}
        page = await operator.call("ledger/events/since")
        [event] = page["events"]
        assert (event["seq"], event["data"]["what"], event["data"]["count"]) == (last + 2, "events", last - 1)
        assert page["floor"] == last + 1
        status = await operator.call("daemon/status")
        assert (status["event_head"], status["event_floor"]) == (last + 2, last + 1)
    async with served(tmp_path) as daemon, daemon.client() as operator:
        assert (await operator.call("ledger/events/head"))["head"] == last + 3
        assert (await operator.call("ledger/events/since", after_seq=last + 2))["events"][0]["type"] == "leader"


async def test_a_subscriber_that_retention_overtook_is_told_where_it_stood(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",), durability="normal") as daemon, daemon.client() as operator:
        large = {"type": "handoff", "role": "b", "payload": "x" * 60_000}
        for _ in range(150):
            await operator.call("ledger/events/publish", **large)
        async with daemon.client() as slow:
            subscription = (await slow.call("ledger/events/subscribe", after_seq=0))["subscription"]
            slow.reader._transport.pause_reading()  # type: ignore[attr-defined]
            await operator.call("ledger/prune", what="events", before=FUTURE, limit=10_000)
            slow.reader._transport.resume_reading()  # type: ignore[attr-defined]
            seen = []
            while (message := await slow.notifications.get())["method"] == "events/event":
                seen.append(message["params"]["seq"])
            assert message["method"] == "events/lagged"
            assert message["params"] == {"subscription": subscription, "after_seq": seen[-1]}
            expired = await slow.refused("ledger/events/subscribe", after_seq=seen[-1])
            assert expired.code == "cursor_expired"
            await slow.call("ledger/events/subscribe", after_seq=expired.data["floor"])


@pytest.mark.parametrize(
    ("params", "code", "path"),
    [
        ({}, "invalid_params", "/before"),
        ({"before": "yesterday"}, "invalid_params", "/before"),
        ({"before": FUTURE, "what": "rows"}, "invalid_params", "/what"),
        ({"before": FUTURE, "limit": 0}, "limit_out_of_range", "/limit"),
        ({"before": FUTURE, "limit": 10_001}, "limit_out_of_range", "/limit"),
    ],
)
async def test_prune_refuses_params_outside_their_bounds(
    tmp_path: Path, params: dict[str, Any], code: str, path: str
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as operator:
        refused = await operator.refused("ledger/prune", **params)
        assert (refused.code, refused.data["path"]) == (code, path)


# -- by itself


async def make_history(operator: Client) -> dict[str, str]:
    """One message in each state, and faults."""
    made = {}
    for name in ("acked", "rejected", "queued", "in_flight"):
        made[name] = await send(operator, "b", causality={"task": f"T-{name}"}, op_id=f"op-{name}")
    await pulled(operator, role="b", limit=1)  # `acked` is the first
    await operator.call("ledger/ack", msg_id=made["acked"])
    await operator.call("ledger/reject", msg_id=made["rejected"])
    await complete(operator, "b", "T-acked", msg_id="answer")
    await operator.call("ledger/ack", msg_id="answer")
    [in_flight] = await pulled(operator, role="b", limit=1)
    made["in_flight"], made["queued"] = in_flight, next(iter({made["queued"], made["in_flight"]} - {in_flight}))
    for task in ("closed", "open"):
        await operator.call("ledger/fault/record", kind="k", reason="r", task_id=task, op_id=f"op-{task}")
    await operator.call("ledger/fault/move", task_id="closed", state="closed")
    return made


def grow_old(state_dir: Path, days: int) -> None:
    ms = days * DAY_MS
    age(state_dir, "messages", ms, columns=("settled_at", "enqueued_at", "offered_at"))
    age(state_dir, "events", ms, columns=("at_ms",))
    age(state_dir, "faults", ms, columns=("created_at", "updated_at"))
    age(state_dir, "ops", ms, columns=("at_ms",))


async def test_after_retention_days_events_bodies_of_acked_rows_and_closed_faults_go(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        made = await make_history(operator)
        await operator.call("ledger/events/publish", type="handoff", role="b", op_id="op-published")
        steps = [{"method": "ledger/send", "params": {"kind": "note", "to": "b", "body": {"text": "in a batch"}}}]
        await operator.call("daemon/batch", steps=steps, op_id="op-batch")
        last = await head(operator)
    grow_old(tmp_path / "state", 15)
    async with served(tmp_path) as daemon, daemon.client() as operator:
        await complete_a_sweep(operator)
        events = await feed(operator, last, types=["ledger_pruned"])
        assert [(event["subject"], event["data"]["count"]) for event in events] == [("events", last), ("bodies", 2)]
        assert (await operator.call("ledger/events/head"))["floor"] == last
        for name in ("acked", "rejected", "queued", "in_flight"):
            found = await operator.call("ledger/get", msg_id=made[name])
            assert ("body" in found["envelope"]) == (name != "acked")
        # An op id that created a row lives as long as the row; one that created nothing which is kept is free again.
        assert (await operator.call("ledger/query", op_id="op-acked"))["rows"][0]["msg_id"] == made["acked"]
        published = await operator.call("ledger/events/publish", type="handoff", role="b", op_id="op-published")
        assert "replayed" not in published
        # What a batch created is history: its op id stays as long as final rows do.
        assert (await operator.call("daemon/batch", steps=steps, op_id="op-batch"))["replayed"]
        faults = (await operator.call("ledger/fault/list"))["faults"]
        assert [fault["task_id"] for fault in faults] == ["open"]
        assert (await operator.call("ledger/task", task="T-acked"))["verdict"]["outcome"] == "done"


async def test_after_history_days_final_rows_go_with_their_op_ids_and_what_is_not_final_never_does(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        made = await make_history(operator)
        last = await head(operator)
    grow_old(tmp_path / "state", 91)
    async with served(tmp_path) as daemon, daemon.client() as operator:
        event = await until_event(operator, last, types=["ledger_pruned"], subjects=["rows"])
        assert (event["data"]["what"], event["data"]["count"]) == ("rows", 3)
        rows = (await operator.call("ledger/query"))["rows"]
        assert {row["msg_id"] for row in rows} == {made["queued"], made["in_flight"]}
        assert (await operator.refused("ledger/task", task="T-acked")).code == "not_found"
        again = await operator.call(
            "ledger/send", kind="note", to="b", body={"text": "new"}, op_id="op-acked", msg_id=made["acked"]
        )
        assert "replayed" not in again
        kept = await operator.refused("ledger/send", kind="note", to="b", body={"text": "new"}, op_id="op-queued")
        assert kept.code == "op_conflict"


async def test_what_is_young_is_kept_and_the_settings_decide_what_that_is(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        await make_history(operator)
        last = await head(operator)
    grow_old(tmp_path / "state", 91)
    settings = LedgerSettings(retention_days=100, history_days=100)
    async with served(tmp_path, ledger=settings) as daemon, daemon.client() as operator:
        await complete_a_sweep(operator)
        assert (await operator.call("ledger/events/head"))["floor"] == 0
        assert await feed(operator, last, types=["ledger_pruned"]) == []
        assert len((await operator.call("ledger/query", role="b"))["rows"]) == 5


async def complete_a_sweep(operator: Client) -> None:
    """Retention comes behind expiry in a pass, so a pass is over when the next one has expired something."""
    for _ in range(2):
        before = await head(operator)
        await until(operator, await send(operator, "operator", "note", ttl_ms=1), "expired", before)
