"""`ledger/send`: shapes, the order of checks, who sends, op ids, and where a message stands in its run."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import served
from tests.ledger.common import body, complete, feed, head, row_of, send

NOTE: dict[str, Any] = {"kind": "note", "to": "b", "body": body()}
TASK: dict[str, Any] = {"kind": "task", "to": "b", "body": body()}
DONE: dict[str, Any] = {"kind": "completion", "to": "b", "body": body(), "outcome": "done", "causality": {"task": "T"}}
CONTROL: dict[str, Any] = {"kind": "control", "to": "b", "control": {"op": "cancel", "task_id": "T"}}
PAST, FUTURE = "2001-01-01T00:00:00Z", "2999-01-01T00:00:00.000Z"


def without(message: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name not in names}


def image(size: int, mime: str = "image/png") -> dict[str, Any]:
    return {"image": {"mime": mime, "data": base64.b64encode(b"\0" * size).decode()}}


async def test_the_receipt_says_what_was_stored_and_whether_anybody_is_there(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client() as operator, daemon.client(role="a") as a:
        offline = await a.call("ledger/send", **TASK, op_id="op-1", causality={"task": "T"})
        row = await row_of(operator, offline["msg_id"])
        assert offline == {
            "msg_id": offline["msg_id"],
            "op_id": "op-1",
            "kind": "task",
            "task": "T",
            "state": "queued",
            "enqueued_at": row["enqueued_at"],
            "presence": "offline",
        }
        async with daemon.client(role="b"):
            online = await a.call("ledger/send", **TASK)
        assert online["presence"] == "online"
        assert online["task"].startswith("task_")
        assert online["msg_id"].startswith("msg_")


async def test_the_row_and_the_envelope_have_the_derived_values_and_the_senders_clock(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client(role="a") as a:
        said = {"ts": "2020-02-02T02:02:02+02:00", "to": "b#s1", "from": "a#elsewhere", "causality": {"task": "T"}}
        receipt = await a.call("ledger/send", **(TASK | said | {"body": {"text": "long", "details": {"k": [1, None]}}}))
        found = await a.call("ledger/get", msg_id=receipt["msg_id"])
        assert found["row"] == {
            "msg_id": receipt["msg_id"],
            "kind": "task",
            "from": {"role": {"role": "a"}},
            "to": {"role": {"role": "b", "session": "s1"}},
            "causality": {"task": "T", "family": "T", "hop": 0, "attempt": 0},
            "head": "long",
            "state": "queued",
            "enqueued_at": receipt["enqueued_at"],
            "deliveries": 0,
            "requeued": 0,
        }
        assert found["envelope"] == {
            "msg_id": receipt["msg_id"],
            "kind": "task",
            "from": {"role": {"role": "a"}},
            "to": {"role": {"role": "b", "session": "s1"}},
            "causality": {"task": "T", "family": "T", "hop": 0, "attempt": 0},
            "body": {"text": "long", "details": {"k": [1, None]}},
            "ts": "2020-02-02T00:02:02.000Z",
        }


async def test_storing_a_message_is_one_event_that_says_its_state(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client(role="a") as a:
        before = await head(a)
        receipt = await a.call("ledger/send", **DONE, op_id="op-1")
        [event] = await feed(a, before)
        assert event["type"] == "ledger_state"
        assert event["family"] == "ledger"
        assert event["subject"] == receipt["msg_id"]
        assert event["role"] == "b"
        assert event["at"] == receipt["enqueued_at"]
        assert event["data"] == {
            "msg_id": receipt["msg_id"],
            "op_id": "op-1",
            "kind": "completion",
            "from": {"role": {"role": "a"}},
            "to": {"role": {"role": "b"}},
            "task": "T",
            "state": "queued",
            "outcome": "done",
            "deliveries": 0,
            "requeued": 0,
        }


@pytest.mark.parametrize(
    ("message", "path"),
    [
        (without(DONE, "outcome"), "/outcome"),
        (without(DONE, "causality"), "/causality"),
        (DONE | {"causality": {}}, "/causality/task"),
        (NOTE | {"outcome": "done"}, "/outcome"),
        (without(CONTROL, "control"), "/control"),
        (TASK | {"control": {"op": "cancel", "task_id": "T"}}, "/control"),
        (CONTROL | {"control": {"op": "cancle", "task_id": "T"}}, "/control/op"),
        (TASK | {"ttl_ms": 1}, "/ttl_ms"),
        (without(TASK, "body"), "/body"),
        (NOTE | {"body": {}}, "/body"),
        (NOTE | {"body": {"head": "only"}}, "/body"),
        (NOTE | {"body": {"image": {"mime": "image/png", "data": "no base64"}}}, "/body/image/data"),
        (NOTE | {"body": {"image": {"mime": "image/bmp", "data": ""}}}, "/body/image/mime"),
        (NOTE | {"kind": "nota"}, "/kind"),
        (without(NOTE, "to"), "/to"),
        (without(NOTE, "kind"), "/kind"),
        (NOTE | {"to": "b c"}, "/to"),
        (NOTE | {"to": {"role": {"role": "b", "sesion": "s"}}}, "/to/role/sesion"),
        (NOTE | {"msg_id": " m"}, "/msg_id"),
        (NOTE | {"ts": "yesterday"}, "/ts"),
        (TASK | {"causality": {"hop": -1}}, "/causality/hop"),
        (TASK | {"causality": {"labels": {"": "empty key"}}}, "/causality/labels/"),
        (NOTE | {"bodi": {}}, "/bodi"),
    ],
)
async def test_a_wrong_shape_is_refused_with_the_path_of_what_is_wrong(
    tmp_path: Path, message: dict[str, Any], path: str
) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        before = await head(operator)
        refused = await operator.refused("ledger/send", **message)
        assert (refused.number, refused.code, refused.data["path"]) == (-32602, "invalid_params", path)
        assert refused.data["expected"]
        assert await head(operator) == before


@pytest.mark.parametrize(
    ("message", "path", "most"),
    [
        (NOTE | {"body": {"text": "x" * ((1 << 20) + 1)}}, "/body/text", 1 << 20),
        (NOTE | {"body": {"text": "\u20ac" * ((1 << 20) // 3 + 1)}}, "/body/text", 1 << 20),
        (NOTE | {"body": {"text": "x", "head": "h" * 1025}}, "/body/head", 1024),
        (NOTE | {"body": image((2 << 20) + 1)}, "/body/image/data", 2 << 20),
        (NOTE | {"body": {"text": "x", "details": "d" * 65536}}, "/body/details", 65536),
        (TASK | {"causality": {"labels": {str(n): "" for n in range(9)}}}, "/causality/labels", 8),
        (TASK | {"causality": {"labels": {"k": "v" * 257}}}, "/causality/labels/k", 256),
        (TASK | {"causality": {"labels": {"k" * 33: "v"}}}, "/causality/labels/" + "k" * 33, 32),
        (TASK | {"op_id": "o" * 129}, "/op_id", 128),
        (TASK | {"msg_id": "m" * 257}, "/msg_id", 256),
        (CONTROL | {"control": {"op": "probe", "task_id": "T", "reason": "r" * 1025}}, "/control/reason", 1024),
    ],
)
async def test_what_is_too_large_is_refused_with_its_bound(
    tmp_path: Path, message: dict[str, Any], path: str, most: int
) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        refused = await operator.refused("ledger/send", **message)
        assert (refused.number, refused.code) == (-32004, "too_large")
        assert (refused.data["path"], refused.data["max"]) == (path, most)


async def test_what_is_exactly_as_large_as_its_bound_is_stored_whole(tmp_path: Path) -> None:
    largest = {"text": "x" * (1 << 20), "head": "h" * 1024, "details": "d" * 65534, **image(2 << 20)}
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        msg_id = await send(operator, "b", "note", body=largest)
        assert (await operator.call("ledger/get", msg_id=msg_id))["envelope"]["body"] == largest


async def test_a_ttl_below_one_is_out_of_range_and_one_beyond_the_calendar_ends_with_it(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        refused = await operator.refused("ledger/send", **NOTE, ttl_ms=0)
        assert (refused.code, refused.data["path"], refused.data["min"]) == ("limit_out_of_range", "/ttl_ms", 1)
        row = await row_of(operator, await send(operator, "b", "note", ttl_ms=2**63 - 1))
        assert row["expires_at"] == "9999-12-31T23:59:59.999Z"


async def test_the_checks_come_in_the_order_of_the_contract(tmp_path: Path) -> None:
    """Each message has every fault from one check on; mending the first shows the next."""
    async with served(tmp_path, roles=("a", "boss", "b", "c")) as daemon, daemon.client() as operator:
        await operator.call("ledger/role/upsert", name="b", allowed_senders=["boss"], note_queue=False)
        await send(operator, "c", "note", msg_id="taken", op_id="used")
        async with daemon.client(role="a") as a:
            wrong: dict[str, Any] = {
                "kind": "task",
                "from": "boss",
                "op_id": "used",
                "msg_id": "taken",
                "to": "nobody",
                "causality": {"hop": 2, "hop_budget": 1, "deadline": PAST},
            }
            codes = []
            mends: tuple[dict[str, Any], ...] = (
                {"body": body()},
                {"from": "a"},
                {"op_id": "new"},
                {"msg_id": "new"},
                {"to": "b"},
                {"to": "c"},
                {"causality": {"deadline": PAST}},
                {"kind": "note", "causality": {}, "to": "deaf"},
                {},
            )
            for mend in mends:
                codes.append((await a.refused("ledger/send", **wrong)).code)
                wrong |= mend
                if mend.get("to") == "deaf":
                    await operator.call("ledger/role/upsert", name="deaf", note_queue=False)
            assert codes == [
                "invalid_params",
                "not_owner",
                "op_conflict",
                "duplicate",
                "not_found",
                "sender_not_allowed",
                "hop_budget_exhausted",
                "deadline_passed",
                "recipient_offline",
            ]
            # The op id and the message id that all these named are still free.
            assert (await a.call("ledger/send", **wrong | {"to": "c"}))["msg_id"] == "new"


async def test_a_connection_sends_as_its_only_role_and_must_say_which_of_several(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b", "c")) as daemon, daemon.client(role="a") as a:
        assert (await row_of(a, await send(a, "b")))["from"] == {"role": {"role": "a"}}
        await a.call("ledger/attach", role="c")
        refused = await a.refused("ledger/send", **TASK)
        assert (refused.code, refused.data["path"], refused.data["expected"]) == ("invalid_params", "/from", "a or c")
        row = await row_of(a, await send(a, "b", **{"from": "c"}))
        assert (row["from"], "admin" in row) == ({"role": {"role": "c"}}, False)


async def test_the_operator_sends_for_every_role_and_is_marked(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client() as operator:
        own = await row_of(operator, await send(operator, "b"))
        assert (own["from"], own["admin"]) == ({"role": {"role": "operator"}}, True)
        named: dict[str, Any] = {"from": {"role": {"role": "a", "session": "s"}}}
        other = await row_of(operator, await send(operator, "b", **named))
        assert (other["from"], other["admin"]) == ({"role": {"role": "a"}}, True)


async def test_allowed_senders_let_pass_whom_they_name_the_operator_itself_and_answers(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b", "c")) as daemon, daemon.client() as operator:
        await operator.call("ledger/role/upsert", name="b", allowed_senders=["c"])
        async with daemon.client(role="a") as a, daemon.client(role="b") as b, daemon.client(role="c") as c:
            assert (await a.refused("ledger/send", **NOTE)).code == "sender_not_allowed"
            await send(c, "b", "note")
            await send(operator, "b", "note")
            await send(operator, "b", "note", **{"from": "a"})
            await send(b, "b", "note")
            assert (await a.refused("ledger/send", **DONE)).code == "sender_not_allowed"
            await send(b, "a", causality={"task": "T"})
            await complete(a, "b", "T")
            assert (await a.refused("ledger/send", **NOTE, causality={"task": "T"})).code == "sender_not_allowed"


async def test_controls_are_for_the_sender_of_the_task_admin_roles_and_the_operator(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b", "c")) as daemon, daemon.client(role="a") as a:
        assert (await a.refused("ledger/send", **CONTROL)).code == "not_owner"  # there is no such task
        await send(a, "b", causality={"task": "T"})
        await a.call("ledger/send", **CONTROL)
        async with daemon.client() as operator, daemon.client(role="c") as c:
            assert (await c.refused("ledger/send", **CONTROL)).code == "not_owner"
            await operator.call("ledger/role/upsert", name="c", admin=True)
            await c.call("ledger/send", **CONTROL)
            await operator.call("ledger/send", **CONTROL)


async def test_a_control_survives_the_store_whole_and_is_about_its_task(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client(role="a") as a, daemon.client(role="b") as b:
        await send(a, "b", causality={"task": "T", "family": "F", "hop": 2})
        control = {"op": "snapshot", "task_id": "T", "reason": "why"}
        msg_id = await send(a, "b", "control", control=control)
        deliveries = (await b.call("ledger/pull", kinds=["control"]))["deliveries"]
        envelope = deliveries[0]["envelope"]
        assert envelope["msg_id"] == msg_id
        assert envelope["control"] == control
        assert envelope["causality"] == {"task": "T", "family": "F", "hop": 2, "attempt": 0}
        assert "body" not in envelope


async def test_a_delivered_envelope_is_a_message_that_can_be_sent(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client() as operator, daemon.client(role="a") as a:
        await a.call("ledger/send", **TASK, causality={"task": "T", "deadline": FUTURE, "labels": {"k": "v"}})
        await a.call("ledger/send", **DONE)
        await a.call("ledger/send", **NOTE, ttl_ms=10**9)
        await a.call("ledger/send", **CONTROL)
        found = await operator.call("ledger/pull", role="b", limit=9)
        assert [one["envelope"]["kind"] for one in found["deliveries"]] == ["task", "completion", "note", "control"]
        for delivery in found["deliveries"]:
            envelope = delivery["envelope"]
            assert (await operator.refused("ledger/send", **envelope)).code == "duplicate"
            fresh = without(envelope, "msg_id", "op_id")
            again = await operator.call("ledger/send", **fresh)
            stored = (await operator.call("ledger/get", msg_id=again["msg_id"]))["envelope"]
            assert without(stored, "msg_id") == fresh


# -- causality


async def test_a_family_carries_its_bounds_down_and_the_stricter_holds(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client(role="a") as a:
        root = {"task": "root", "hop_budget": 2, "deadline": FUTURE, "origin": "a", "labels": {"team": "red"}}
        await a.call("ledger/send", **TASK, causality=root)
        child = {"task": "child", "parent_task": "root", "hop_budget": 9, "labels": {}}
        row = await row_of(a, (await a.call("ledger/send", **TASK, causality=child))["msg_id"])
        assert row["causality"] == {
            "task": "child",
            "parent_task": "root",
            "family": "root",
            "hop": 1,
            "attempt": 0,
            "hop_budget": 2,
            "deadline": FUTURE,
            "origin": "a",
            "labels": {},
        }
        grandchild = {"task": "grandchild", "parent_task": "child"}
        await a.call("ledger/send", **TASK, causality=grandchild)
        refused = await a.refused("ledger/send", **TASK, causality={"parent_task": "grandchild"})
        assert (refused.number, refused.code) == (-32000, "hop_budget_exhausted")
        assert {name: refused.data[name] for name in ("hop", "hop_budget", "family")} == {
            "hop": 3,
            "hop_budget": 2,
            "family": "root",
        }


async def test_the_farthest_hop_still_has_children(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client(role="a") as a:
        await a.call("ledger/send", **TASK, causality={"task": "far", "hop": 2**63 - 1})
        row = await row_of(a, (await a.call("ledger/send", **TASK, causality={"parent_task": "far"}))["msg_id"])
        assert row["causality"]["hop"] == 2**63 - 1


async def test_an_answer_stands_where_its_task_stands_and_is_bound_by_nothing(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client(role="a") as a:
        await a.call("ledger/send", **TASK, causality={"task": "T", "family": "F", "hop": 3, "hop_budget": 3})
        about = {"task": "T", "hop_budget": 0, "deadline": PAST, "parent_task": "T"}
        row = await row_of(a, (await a.call("ledger/send", **DONE | {"causality": about}))["msg_id"])
        assert (row["causality"]["family"], row["causality"]["hop"]) == ("F", 3)


async def test_a_note_about_nothing_has_no_causality(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client(role="a") as a:
        assert "causality" not in await row_of(a, await send(a, "b", "note"))


# -- op ids


async def test_the_same_send_again_is_answered_byte_for_byte_and_changes_nothing(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client(role="a") as a, daemon.client(role="b"):
        message = TASK | {"op_id": "op-1", "causality": {"task": "T", "labels": {"x": "1", "y": "2"}}}
        first = await a.call("ledger/send", **message, ts=PAST)
        before = await head(a)
        again = {
            **message,
            "msg_id": "another",
            "ts": FUTURE,
            "causality": {"labels": {"y": "2", "x": "1"}, "attempt": 7, "task": "T"},
            "_meta": {"trace": 1},
        }
        second = await a.call("ledger/send", **again)
        assert json.dumps(second) == json.dumps({**first, "replayed": True})
        assert await head(a) == before


async def test_a_replay_comes_before_every_rule_that_would_refuse_now(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client() as operator, daemon.client(role="a") as a:
        first = await a.call("ledger/send", **NOTE, op_id="op-1", msg_id="m")
        await operator.call("ledger/role/upsert", name="b", allowed_senders=[], note_queue=False)
        await operator.call("ledger/reject", msg_id="m")
        assert await a.call("ledger/send", **NOTE, op_id="op-1", msg_id="m") == {**first, "replayed": True}


@pytest.mark.parametrize(
    "change",
    [
        {"to": "c"},
        {"kind": "task"},
        {"body": body("other")},
        {"body": {**body(), "details": 1}},
        {"ttl_ms": 10**9},
        {"ttl_ms": None},
        {"causality": {"task": "T"}},
    ],
)
async def test_an_op_id_used_for_something_else_conflicts_and_says_only_the_method(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    async with served(tmp_path, roles=("a", "b", "c")) as daemon, daemon.client(role="a") as a:
        await a.call("ledger/send", **NOTE, op_id="op-1")
        refused = await a.refused("ledger/send", **NOTE | change, op_id="op-1")
        assert (refused.number, refused.code) == (-32002, "op_conflict")
        assert refused.data == {"code": "op_conflict", "retryable": False, "method": "ledger/send"}


async def test_the_operator_repeating_a_roles_send_conflicts(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client() as operator, daemon.client(role="a") as a:
        await a.call("ledger/send", **NOTE, op_id="op-1")
        assert (await operator.refused("ledger/send", **NOTE, **{"from": "a"}, op_id="op-1")).code == "op_conflict"
        assert (await operator.refused("ledger/send", **NOTE, op_id="op-1")).code == "op_conflict"


async def test_saying_the_only_role_or_leaving_it_out_is_the_same_send(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client(role="a") as a:
        first = await a.call("ledger/send", **NOTE, op_id="op-1")
        assert await a.call("ledger/send", **NOTE, **{"from": "a"}, op_id="op-1") == {**first, "replayed": True}


async def test_a_refused_send_does_not_use_its_op_id_up(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client(role="a") as a:
        assert (await a.refused("ledger/send", **NOTE | {"to": "nobody"}, op_id="op-1")).code == "not_found"
        assert "replayed" not in await a.call("ledger/send", **NOTE, op_id="op-1")


async def test_a_message_id_is_used_once_and_says_what_became_of_it(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client(role="a") as a, daemon.client(role="b") as b:
        await send(a, "b", "note", msg_id="m")
        await b.call("ledger/ack", msg_id="m")
        refused = await a.refused("ledger/send", **NOTE, msg_id="m")
        assert (refused.number, refused.code) == (-32002, "duplicate")
        assert (refused.data["msg_id"], refused.data["state"]) == ("m", "acked")


async def test_op_ids_are_one_namespace_over_the_methods_and_name_the_first(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client(role="a") as a:
        await a.call("ledger/events/publish", type="handoff", op_id="op-1")
        refused = await a.refused("ledger/send", **NOTE, op_id="op-1")
        assert (refused.code, refused.data["method"]) == ("op_conflict", "ledger/events/publish")


# -- verdicts


@pytest.mark.parametrize(("who", "counts"), [("b", True), ("c", False), (None, True)])
async def test_the_verdict_is_the_first_completion_of_an_addressee_or_the_operator(
    tmp_path: Path, who: str | None, counts: bool
) -> None:
    async with served(tmp_path, roles=("a", "b", "c")) as daemon, daemon.client(role="a") as a:
        await send(a, "b", causality={"task": "T"})
        async with daemon.client(role=who) as sender:
            await complete(sender, "a", "T", "blocked")
        found = await a.call("ledger/task", task="T")
        if not counts:
            assert "verdict" not in found
            return
        assert found["verdict"] == {
            "outcome": "blocked",
            "by": "completion",
            "at": found["rows"][-1]["enqueued_at"],
        }


async def test_a_later_completion_is_stored_and_changes_no_verdict(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b", "c")) as daemon, daemon.client(role="a") as a:
        await send(a, "b", causality={"task": "T"})
        await send(a, "c", causality={"task": "T"})
        async with daemon.client(role="b") as b, daemon.client(role="c") as c:
            await complete(c, "a", "T", "failed")
            await complete(b, "a", "T", "done")
        found = await a.call("ledger/task", task="T")
        assert found["verdict"]["outcome"] == "failed"
        assert [row.get("outcome") for row in found["rows"]] == [None, None, "failed", "done"]


async def test_a_completion_without_a_task_row_is_kept_without_a_verdict_unless_the_operator_sends_it(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client() as operator, daemon.client(role="b") as b:
        await complete(b, "a", "T")
        assert "verdict" not in await b.call("ledger/task", task="T")
        await complete(operator, "a", "T", "cancelled")
        assert (await b.call("ledger/task", task="T"))["verdict"]["outcome"] == "cancelled"
