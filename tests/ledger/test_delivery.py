"""What is done with one message: ack, reject, surfaced, requeue, expire, fail (contract ledger 2.2, 2.3, 4)."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from interlock.daemon.settings import LedgerSettings
from tests.harness import Client, served
from tests.ledger.common import complete, feed, head, history, pulled, row_of, send, until_past

STATES = ("queued", "in_flight", "acked", "rejected", "expired")
TARGETS = {"ack": "acked", "reject": "rejected", "expire": "expired", "fail": "rejected", "requeue": "queued"}
MOVES = {
    ("queued", "rejected"),
    ("queued", "expired"),
    ("in_flight", "queued"),
    ("in_flight", "acked"),
    ("in_flight", "rejected"),
    ("in_flight", "expired"),
}


async def bring(operator: Client, state: str) -> str:
    """A message of role b in this state, in flight by nobody's hand."""
    msg_id = await send(operator, "b", "note")
    if state == "in_flight":
        await pulled(operator, role="b")
    elif state != "queued":
        verb = {"acked": "ack", "rejected": "reject", "expired": "expire"}[state]
        await operator.call(f"ledger/{verb}", msg_id=msg_id)
    return msg_id


@pytest.mark.parametrize(("verb", "state"), list(product(TARGETS, STATES)))
async def test_every_verb_in_every_state_moves_holds_or_is_refused(tmp_path: Path, verb: str, state: str) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        msg_id = await bring(operator, state)
        before, row = await head(operator), await row_of(operator, msg_id)
        params = {"msg_id": msg_id, **({"reason": "why"} if verb == "fail" else {})}
        to = TARGETS[verb]
        if state == to:
            assert await operator.call(f"ledger/{verb}", **params) == {"row": row, "changed": False}
            assert await head(operator) == before
        elif (state, to) in MOVES or (state, to) == ("queued", "acked"):
            found = await operator.call(f"ledger/{verb}", **params)
            assert found["changed"] is True
            assert found["row"] == await row_of(operator, msg_id)
            assert found["row"]["state"] == to
            expected = ["in_flight", "acked"] if (state, to) == ("queued", "acked") else [to]
            events = await feed(operator, before)
            assert [event["data"]["state"] for event in events] == expected
        else:
            refused = await operator.refused(f"ledger/{verb}", **params)
            assert (refused.number, refused.code) == (-32000, "invalid_transition")
            assert {name: refused.data[name] for name in ("msg_id", "from", "to")} == {
                "msg_id": msg_id,
                "from": state,
                "to": to,
            }
            assert (await row_of(operator, msg_id), await head(operator)) == (row, before)


@pytest.mark.parametrize("state", STATES)
async def test_surfaced_is_said_once_and_only_of_what_was_offered(tmp_path: Path, state: str) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        msg_id = await bring(operator, state)
        before = await head(operator)
        if state != "in_flight":
            refused = await operator.refused("ledger/surfaced", msg_id=msg_id)
            assert (refused.code, refused.data["to"], refused.data["from"]) == ("invalid_transition", "surfaced", state)
            assert await head(operator) == before
            return
        found = await operator.call("ledger/surfaced", msg_id=msg_id)
        [event] = await feed(operator, before)
        assert (event["type"], event["subject"], event["role"]) == ("ledger_surfaced", msg_id, "b")
        assert event["data"] == {"msg_id": msg_id, "surfaced_at": found["row"]["surfaced_at"]}
        assert (found["changed"], found["row"]["state"]) == (True, "in_flight")
        for verb in (None, "requeue", "ack"):
            if verb:
                await operator.call(f"ledger/{verb}", msg_id=msg_id)
            again = await operator.call("ledger/surfaced", msg_id=msg_id)
            assert again == {"row": await row_of(operator, msg_id), "changed": False}
            assert again["row"]["surfaced_at"] == found["row"]["surfaced_at"]


async def test_surfaced_names_the_task_and_the_session(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        msg_id = await send(operator, "b", causality={"task": "T"})
        await pulled(b, session="s1")
        row = (await b.call("ledger/surfaced", msg_id=msg_id))["row"]
        [event] = await feed(b, types=["ledger_surfaced"])
        assert event["data"] == {
            "msg_id": msg_id,
            "task": "T",
            "session": "s1",
            "surfaced_at": row["surfaced_at"],
        }


async def test_acking_a_queued_row_passes_through_in_flight_in_one_transaction(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        msg_id = await send(operator, "b")
        before = await head(operator)
        row = (await b.call("ledger/ack", msg_id=msg_id, reason="seen elsewhere"))["row"]
        first, second = await feed(operator, before)
        assert (first["seq"] + 1, first["at"]) == (second["seq"], second["at"])
        assert [one["data"]["state"] for one in (first, second)] == ["in_flight", "acked"]
        assert row["deliveries"] == 0
        assert row["offered_at"] == row["settled_at"] == second["at"]
        assert (row["settled_by"], row["reason"]) == ("b", "seen elsewhere")


async def test_any_connection_of_the_addressee_may_settle_what_another_holds(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        msg_id = await send(operator, "b")
        await pulled(b)
        async with daemon.client(role="b") as other:
            row = (await other.call("ledger/ack", msg_id=msg_id))["row"]
        assert (row["state"], row["settled_by"]) == ("acked", "b")


@pytest.mark.parametrize(
    ("verb", "reason", "by"),
    [("ack", None, "b"), ("reject", "rejected", "b"), ("expire", "expired", "b"), ("requeue", "requeued", None)],
)
async def test_without_a_reason_each_verb_gives_its_own(
    tmp_path: Path, verb: str, reason: str | None, by: str | None
) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        msg_id = await send(operator, "b")
        await pulled(b)
        row = (await b.call(f"ledger/{verb}", msg_id=msg_id))["row"]
        assert (row.get("reason"), row.get("settled_by")) == (reason, by)
        assert ("settled_at" in row) == (by is not None)
        event = (await feed(b, types=["ledger_state"]))[-1]
        assert (event["data"].get("reason"), event["data"].get("by")) == (reason, by)


async def test_what_the_operator_settles_is_settled_by_the_operator(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        msg_id = await send(operator, "b")
        row = (await operator.call("ledger/fail", msg_id=msg_id, reason="no such place"))["row"]
        assert (row["state"], row["settled_by"], row["reason"]) == ("rejected", "operator", "no such place")


async def test_a_settled_row_frees_its_holder_for_good(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        async with daemon.client(role="b") as b:
            msg_id = await send(operator, "b")
            await pulled(b)
            await b.call("ledger/ack", msg_id=msg_id)
            assert await b.call("ledger/detach") == {"role": "b", "requeued": 0}
        assert await history(operator, msg_id) == [("queued", None), ("in_flight", None), ("acked", None)]


async def test_a_duplicate_completion_leaves_the_capacity_free(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client(role="a") as a, daemon.client(role="b") as b:
        first = await send(a, "b", causality={"task": "T"})
        second = await send(a, "b", causality={"task": "U"})
        assert await pulled(b) == [first]
        for _ in range(2):
            await complete(b, "a", "T")
        await b.call("ledger/ack", msg_id=first)
        assert await pulled(b) == [second]


# -- requeue


async def test_a_requeue_of_the_addressee_passes_the_gate_and_the_operators_does_not(tmp_path: Path) -> None:
    settings = LedgerSettings(requeue_max_attempts=1)
    async with (
        served(tmp_path, roles=("b",), ledger=settings) as daemon,
        daemon.client() as operator,
        daemon.client(role="b") as b,
    ):
        msg_id = await send(operator, "b", "note")
        for n in range(3):
            await pulled(b)
            row = (await operator.call("ledger/requeue", msg_id=msg_id, reason="again"))["row"]
            assert (row["state"], row["reason"], row["requeued"]) == ("queued", "again", n + 1)
        await pulled(b)
        row = (await b.call("ledger/requeue", msg_id=msg_id))["row"]
        assert (row["state"], row["reason"], row["requeued"]) == ("rejected", "requeue_exhausted", 3)
        [fault] = (await operator.call("ledger/fault/list"))["faults"]
        assert (fault["kind"], fault["msg_id"]) == ("requeue_exhausted", msg_id)


async def test_who_is_attached_to_the_role_operator_does_not_skip_the_gate(tmp_path: Path) -> None:
    settings = LedgerSettings(requeue_max_attempts=1)
    async with served(tmp_path, ledger=settings) as daemon, daemon.client(role="operator") as attached:
        msg_id = await send(attached, "operator", "note")
        for expected in ("queued", "rejected"):
            await pulled(attached)
            assert (await attached.call("ledger/requeue", msg_id=msg_id))["row"]["state"] == expected


async def test_a_requeue_of_a_settled_task_is_rejected_by_the_gate(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client(role="a") as a, daemon.client(role="b") as b:
        msg_id = await send(a, "b", causality={"task": "T"})
        await pulled(b)
        await complete(b, "a", "T")
        row = (await b.call("ledger/requeue", msg_id=msg_id))["row"]
        assert (row["state"], row["reason"], row["settled_by"]) == ("rejected", "task_settled", "daemon")


async def test_a_requeue_with_an_op_id_happens_once(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        msg_id = await send(operator, "b", "note")
        await pulled(b)
        first = await b.call("ledger/requeue", msg_id=msg_id, op_id="op-1")
        await pulled(b)
        before = await head(b)
        again = await b.call("ledger/requeue", msg_id=msg_id, op_id="op-1")
        assert json.dumps(again) == json.dumps({**first, "replayed": True})
        assert await head(b) == before
        refused = await b.refused("ledger/requeue", msg_id=msg_id, op_id="op-1", reason="other")
        assert (refused.code, refused.data["method"]) == ("op_conflict", "ledger/requeue")


# -- the second form of expire


async def test_a_backlog_is_expired_from_before_an_instant_oldest_first(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b", "c")) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        old = [await send(operator, "b", kind) for kind in ("task", "note", "task", "note")]
        await pulled(b, limit=1)
        last = (await row_of(operator, old[-1]))["enqueued_at"]
        await until_past(operator, last)
        edge = await send(operator, "b")
        other = await send(operator, "c")
        before = (await row_of(operator, edge))["enqueued_at"]
        expire: dict[str, Any] = {"role": "b", "before": before, "reason": "too old"}
        assert await operator.call("ledger/expire", **expire, limit=2) == {"expired": 2, "has_more": True}
        assert [(await row_of(operator, one))["state"] for one in old] == ["in_flight", "expired", "expired", "queued"]
        assert await b.call("ledger/expire", before=before) == {"expired": 1, "has_more": False}
        assert await operator.call("ledger/expire", **expire) == {"expired": 0, "has_more": False}
        assert [(await row_of(operator, one))["state"] for one in (edge, other)] == ["queued", "queued"]
        assert [(await row_of(operator, one)).get("reason") for one in old[1:]] == ["too old", "too old", "expired"]


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({}, "/before"),
        ({"role": "b"}, "/before"),
        ({"before": "2026-01-01T00:00:00Z"}, "/role"),
        ({"before": "soon", "role": "b"}, "/before"),
        ({"msg_id": "m", "role": "b"}, "/msg_id"),
        ({"msg_id": "m", "before": "2026-01-01T00:00:00Z"}, "/msg_id"),
    ],
)
async def test_expire_takes_one_of_its_two_forms(tmp_path: Path, params: dict[str, Any], path: str) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        refused = await operator.refused("ledger/expire", **params)
        assert (refused.code, refused.data["path"]) == ("invalid_params", path)


@pytest.mark.parametrize("limit", [0, 501])
async def test_the_limit_of_expire_has_bounds(tmp_path: Path, limit: int) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        refused = await operator.refused("ledger/expire", role="b", before="2026-01-01T00:00:00Z", limit=limit)
        assert (refused.code, refused.data["path"], refused.data["max"]) == ("limit_out_of_range", "/limit", 500)


# -- who may


async def test_existence_is_looked_at_before_ownership_and_ownership_before_the_state(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b", "c")) as daemon, daemon.client() as operator, daemon.client(role="c") as c:
        msg_id = await send(operator, "b")
        await operator.call("ledger/reject", msg_id=msg_id)
        for verb in ("ack", "surfaced", "requeue", "expire"):
            refused = await c.refused(f"ledger/{verb}", msg_id="nothing")
            assert (refused.code, refused.data["kind"]) == ("not_found", "message")
            refused = await c.refused(f"ledger/{verb}", msg_id=msg_id)
            assert (refused.number, refused.code) == (-32003, "not_owner")


async def test_the_sender_of_a_message_does_not_own_it(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client(role="a") as a:
        msg_id = await send(a, "b")
        assert (await a.refused("ledger/ack", msg_id=msg_id)).code == "not_owner"
