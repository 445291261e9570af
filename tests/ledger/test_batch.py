"""`daemon/batch`: up to 64 writes in one transaction, all or nothing (contract daemon 3)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.protocol.methods import METHODS
from tests.harness import served
from tests.ledger.common import body, feed, head, history, pulled, row_of, send


def step(method: str, **params: Any) -> dict[str, Any]:
    return {"method": method, "params": params}


def note(**more: Any) -> dict[str, Any]:
    return step("ledger/send", **{"kind": "note", "to": "b", "body": body(), **more})


def ref(pointer: object) -> dict[str, object]:
    return {"$ref": pointer}


async def test_steps_commit_together_with_one_clock_and_consecutive_events(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator, daemon.client() as other:
        before = await head(operator)
        noise = [other.start("ledger/send", kind="note", to="b", body=body()) for _ in range(50)]
        steps = [
            note(),
            step("ledger/role/upsert", name="new"),
            note(to="new"),
            step("ledger/ack", msg_id=ref("/0/msg_id")),
        ]
        results = (await operator.call("daemon/batch", steps=steps))["results"]
        for begun in noise:
            await begun
        assert [sorted(result)[0] for result in results] == ["enqueued_at", "changed", "enqueued_at", "changed"]
        mine = {results[0]["msg_id"], "new", results[2]["msg_id"]}
        events = [event for event in await feed(operator, before) if event["subject"] in mine]
        assert [event["seq"] for event in events] == list(range(events[0]["seq"], events[0]["seq"] + 5))
        assert {event["at"] for event in events} == {results[0]["enqueued_at"]}
        assert [event["data"].get("state") for event in events] == ["queued", None, "queued", "in_flight", "acked"]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("ledger/send", {"kind": "note", "to": "b", "body": body()}),
        ("ledger/role/upsert", {"name": "z"}),
        ("ledger/events/publish", {"type": "handoff", "role": "b"}),
        ("ledger/cursor/set", {"kind": "inbox", "name": "b", "seq": 1}),
        ("ledger/fault/record", {"kind": "k", "reason": "r", "task_id": "T"}),
    ],
)
async def test_a_steps_result_has_the_shape_that_its_method_has_alone(
    tmp_path: Path, method: str, params: dict[str, Any]
) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        [result] = (await operator.call("daemon/batch", steps=[{"method": method, "params": params}]))["results"]
        alone = await operator.call(method, **params)
        assert list(result) == list(alone)


# -- references


async def test_a_reference_stands_for_any_value_of_an_earlier_result_anywhere(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client() as operator:
        await operator.call("ledger/role/upsert", name="b", max_sessions=7, allowed_senders=["a", "b"], admin=True)
        fault = step(
            "ledger/fault/record", kind="k", reason="r", task_id="T", detail={"a/b": [1, {"m~n": None}], "": 2}
        )
        steps = [
            fault,
            step("ledger/role/upsert", name="b", note_queue=False),
            note(body={"text": ref("/0/fault/reason"), "details": ref("/0")}),
            note(body={"text": "x", "details": [ref("/0/fault/detail/a~1b/1/m~0n"), ref("/1/role/max_sessions")]}),
            note(body={"text": "x", "details": {"deep": [{"er": ref("/0/fault/detail/")}]}}),
            step(
                "ledger/role/upsert",
                name="c",
                max_sessions=ref("/1/role/max_sessions"),
                allowed_senders=ref("/1/role/allowed_senders"),
                admin=ref("/1/role/admin"),
            ),
            step("ledger/send", kind="task", to="c", body=ref("/6x"), **{}),
        ][:6]
        async with daemon.client(role="b"):
            results = (await operator.call("daemon/batch", steps=steps))["results"]
        bodies = [
            (await operator.call("ledger/get", msg_id=results[n]["msg_id"]))["envelope"]["body"] for n in (2, 3, 4)
        ]
        assert bodies[0] == {"text": "r", "details": results[0]}
        assert bodies[1]["details"] == [None, 7]
        assert bodies[2]["details"] == {"deep": [{"er": 2}]}
        assert results[5]["role"] == {
            "name": "c",
            "admin": True,
            "max_sessions": 7,
            "allowed_senders": ["a", "b"],
            "note_queue": True,
        }


async def test_all_params_of_a_step_may_be_one_reference(tmp_path: Path) -> None:
    params = {"kind": "note", "to": "b", "body": body("from a fault")}
    steps = [
        step("ledger/fault/record", kind="k", reason="r", task_id="T", detail=params),
        {"method": "ledger/send", "params": ref("/0/fault/detail")},
    ]
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        results = (await operator.call("daemon/batch", steps=steps))["results"]
        assert (await row_of(operator, results[1]["msg_id"]))["head"] == "from a fault"


async def test_an_object_with_more_than_a_reference_is_no_reference(tmp_path: Path) -> None:
    details = {"$ref": "/9/nothing", "other": 1}
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        [sent] = (await operator.call("daemon/batch", steps=[note(body={"text": "x", "details": details})]))["results"]
        assert (await operator.call("ledger/get", msg_id=sent["msg_id"]))["envelope"]["body"]["details"] == details


@pytest.mark.parametrize(
    "pointer",
    [7, None, ["/0"], "", "0/msg_id", "/1", "/2/msg_id", "/9", "/-1", "/0/nothing", "/0/msg_id/0", "/00", "/x", "/ 0"],
)
async def test_a_reference_to_nothing_is_refused_with_its_path_and_nothing_is_done(
    tmp_path: Path, pointer: object
) -> None:
    steps = [note(), note(body={"text": "x", "details": {"a/b": [0, ref(pointer)]}}), note()]
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        before = await head(operator)
        refused = await operator.refused("daemon/batch", steps=steps)
        assert (refused.number, refused.code) == (-32602, "invalid_params")
        assert refused.data["path"] == "/body/details/a~1b/1"
        assert (refused.data["step"], refused.data["method"]) == (1, "ledger/send")
        assert await head(operator) == before


# -- failing


async def test_a_failing_step_undoes_all_and_answers_with_its_own_error(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        await send(operator, "b", "note", msg_id="settled")
        await operator.call("ledger/reject", msg_id="settled")
        before = await head(operator)
        steps = [
            note(op_id="op-1", msg_id="m"),
            step("ledger/role/upsert", name="new"),
            step("ledger/ack", msg_id="settled"),
        ]
        refused = await operator.refused("daemon/batch", steps=steps, op_id="op-batch")
        alone = await operator.refused("ledger/ack", msg_id="settled")
        assert (refused.number, refused.message) == (alone.number, alone.message)
        assert refused.data == {**alone.data, "step": 2, "method": "ledger/ack"}
        assert await head(operator) == before
        assert (await operator.refused("ledger/get", msg_id="m")).code == "not_found"
        # No op id was used up, neither the batch's nor a step's.
        results = await operator.call("daemon/batch", steps=steps[:2], op_id="op-batch")
        assert results["results"][0]["msg_id"] == "m"
        assert "replayed" not in results


async def test_a_step_is_retryable_where_it_is_alone(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as operator:
        await operator.call("ledger/role/upsert", name="b", note_queue=False)
        refused = await operator.refused("daemon/batch", steps=[step("ledger/role/upsert", name="c"), note()])
        assert (refused.number, refused.code) == (-32006, "recipient_offline")
        assert (refused.data["retryable"], refused.data["step"]) == (True, 1)


@pytest.mark.parametrize(
    ("steps", "code", "path"),
    [
        ([], "invalid_params", "/steps"),
        ([note()] * 65, "too_large", "/steps"),
        ([note(), {"params": {}}], "invalid_params", "/steps/1/method"),
        ([note(), step("ledger/snd")], "invalid_params", "/steps/1/method"),
        ([note(), {"method": "ledger/ack", "parms": {}}], "invalid_params", "/steps/1/parms"),
        ([note(), {"method": "ledger/ack", "params": []}], "invalid_params", "/steps/1/params"),
    ],
)
async def test_a_fault_of_the_batch_itself_names_no_step_and_runs_none(
    tmp_path: Path, steps: list[Any], code: str, path: str
) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        before = await head(operator)
        refused = await operator.refused("daemon/batch", steps=steps)
        assert (refused.code, refused.data["path"], "step" in refused.data) == (code, path, False)
        assert await head(operator) == before


@pytest.mark.parametrize("method", sorted(method.name for method in METHODS if not method.batch))
async def test_what_is_no_batch_method_cannot_be_a_step(tmp_path: Path, method: str) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        refused = await operator.refused("daemon/batch", steps=[note(), {"method": method}])
        assert (refused.code, refused.data["path"]) == ("invalid_params", "/steps/1/method")
        assert (await operator.call("ledger/depth", role="b"))["depths"][0]["notes"] == 0


@pytest.mark.parametrize("method", sorted(method.name for method in METHODS if method.batch))
async def test_every_batch_method_can_be_a_step_and_fails_as_one(tmp_path: Path, method: str) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        refused = await operator.refused("daemon/batch", steps=[step(method, nonsense=1)])
        assert (refused.code, refused.data["step"], refused.data["method"]) == ("invalid_params", 0, method)


async def test_a_wrong_param_of_a_step_has_its_path_inside_the_step(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        refused = await operator.refused("daemon/batch", steps=[note(), note(body={"text": 7})])
        assert (refused.code, refused.data["path"], refused.data["step"]) == ("invalid_params", "/body/text", 1)


async def test_64_steps_run_and_see_what_earlier_ones_wrote(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        steps = [note(msg_id="m")]
        steps += [step("ledger/ack", msg_id="m") for _ in range(63)]
        results = (await operator.call("daemon/batch", steps=steps))["results"]
        assert [result["changed"] for result in results[1:]] == [True] + [False] * 62
        assert [state for state, _ in await history(operator, "m")] == ["queued", "in_flight", "acked"]


# -- who, and how often


async def test_each_step_is_checked_as_if_it_were_called_alone_on_this_connection(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client() as operator, daemon.client(role="a") as a:
        msg_id = await send(operator, "b", "note")
        refused = await a.refused("daemon/batch", steps=[note(), step("ledger/ack", msg_id=msg_id)])
        assert (refused.code, refused.data["step"]) == ("not_owner", 1)
        refused = await a.refused("daemon/batch", steps=[step("ledger/role/upsert", name="c")])
        assert (refused.code, refused.data["step"]) == ("not_admin", 0)
        [sent] = (await a.call("daemon/batch", steps=[note()]))["results"]
        assert (await row_of(a, sent["msg_id"]))["from"] == {"role": {"role": "a"}}


async def test_a_batch_with_an_op_id_happens_once_and_is_answered_byte_for_byte(tmp_path: Path) -> None:
    steps = [
        note(),
        step("ledger/ack", msg_id=ref("/0/msg_id")),
        step("ledger/events/publish", type="handoff", role="b"),
    ]
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        first = await operator.call("daemon/batch", steps=steps, op_id="op-1")
        before = await head(operator)
        again = await operator.call("daemon/batch", steps=steps, op_id="op-1")
        assert json.dumps(again) == json.dumps({**first, "replayed": True})
        assert await head(operator) == before
        refused = await operator.refused("daemon/batch", steps=steps[:2], op_id="op-1")
        assert (refused.number, refused.code, refused.data["method"]) == (-32002, "op_conflict", "daemon/batch")
        assert "step" not in refused.data


async def test_a_steps_own_op_id_works_as_it_does_alone(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        alone = await operator.call("ledger/send", **note()["params"], op_id="op-1")
        steps = [note(op_id="op-1"), note(op_id="op-2"), note(op_id="op-2")]
        results = (await operator.call("daemon/batch", steps=steps))["results"]
        assert results[0] == {**alone, "replayed": True}
        assert results[2] == {**results[1], "replayed": True}
        assert await pulled(operator, role="b") == [alone["msg_id"], results[1]["msg_id"]]
        refused = await operator.refused("daemon/batch", steps=[note(), note(op_id="op-1", body=body("other"))])
        assert (refused.code, refused.data["step"]) == ("op_conflict", 1)


async def test_a_failing_batch_fails_none_of_its_neighbours(tmp_path: Path) -> None:
    """Group commit puts them into one transaction; the failing ones are undone alone."""
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        starts = []
        for n in range(60):
            bad = step("ledger/ack", msg_id="nothing")
            steps = [note(body=body(str(n))), note(body=body(str(n))), *([bad] if n % 3 == 0 else [])]
            starts.append(operator.start("daemon/batch", steps=steps))
        answers = [await begun for begun in starts]
        assert [n for n, answer in enumerate(answers) if "error" in answer] == list(range(0, 60, 3))
        sent = [result["msg_id"] for answer in answers if "result" in answer for result in answer["result"]["results"]]
        assert await pulled(operator, role="b") == sent
