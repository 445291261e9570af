"""`ledger/fault/*`: what went wrong and waits for an operator (contract ledger 1.5, 6)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness import served
from tests.ledger.common import feed, head

ODD: dict[str, Any] = {"kind": "odd", "reason": "it looked odd"}


async def test_a_fault_is_stored_as_said_and_announced(tmp_path: Path) -> None:
    about: dict[str, Any] = {
        "task_id": "T",
        "msg_id": "m",
        "session_id": "s",
        "role": "b",
        "generation": 2,
        "seq": 9,
        "detail": {"k": [1, 2.5, None]},
    }
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        before = await head(operator)
        found = await operator.call("ledger/fault/record", **ODD, **about)
        fault = found["fault"]
        assert found["changed"] is True
        assert fault["fault_id"].startswith("fault_")
        assert fault["created_at"] == fault["updated_at"]
        assert {**fault, "created_at": 0, "updated_at": 0, "fault_id": 0} == {
            **ODD,
            **about,
            "state": "open",
            "subject": "T",
            "fault_id": 0,
            "created_at": 0,
            "updated_at": 0,
        }
        [event] = await feed(operator, before)
        assert (event["type"], event["subject"], event["role"], event["data"]) == (
            "fault",
            fault["fault_id"],
            "b",
            fault,
        )


@pytest.mark.parametrize(
    ("about", "subject"),
    [
        ({"role": "b"}, "b"),
        ({"role": "b", "session_id": "s"}, "s"),
        ({"role": "b", "session_id": "s", "msg_id": "m"}, "m"),
        ({"role": "b", "session_id": "s", "msg_id": "m", "task_id": "T"}, "T"),
    ],
)
async def test_the_subject_is_the_first_of_task_message_session_and_role(
    tmp_path: Path, about: dict[str, str], subject: str
) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as operator:
        assert (await operator.call("ledger/fault/record", **ODD, **about))["fault"]["subject"] == subject


async def test_a_subject_has_at_most_one_open_fault_of_a_kind(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as operator:
        first = (await operator.call("ledger/fault/record", **ODD, task_id="T"))["fault"]
        before = await head(operator)
        again = await operator.call("ledger/fault/record", kind="odd", reason="again", task_id="T", seq=3)
        assert again == {"fault": first, "changed": False}
        assert await head(operator) == before
        other = await operator.call("ledger/fault/record", kind="even", reason="other kind", task_id="T")
        assert other["changed"] is True
        await operator.call("ledger/fault/ack", fault_id=first["fault_id"])
        anew = await operator.call("ledger/fault/record", **ODD, task_id="T")
        assert anew["changed"] is True
        assert anew["fault"]["fault_id"] != first["fault_id"]


async def test_a_connections_fault_is_of_its_only_role(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b", "c")) as daemon, daemon.client(role="b") as b:
        assert (await b.call("ledger/fault/record", **ODD, task_id="T"))["fault"]["role"] == "b"
        await b.call("ledger/attach", role="c")
        assert "role" not in (await b.call("ledger/fault/record", **ODD, task_id="U"))["fault"]
        assert (await b.call("ledger/fault/record", **ODD, task_id="V", role="c"))["fault"]["role"] == "c"


@pytest.mark.parametrize(
    ("params", "code", "path"),
    [
        (ODD, "invalid_params", ""),
        ({"kind": "odd", "task_id": "T"}, "invalid_params", "/reason"),
        ({"reason": "why", "task_id": "T"}, "invalid_params", "/kind"),
        ({**ODD, "task_id": "T", "kind": "k" * 65}, "too_large", "/kind"),
        ({**ODD, "task_id": "T", "reason": "r" * 1025}, "too_large", "/reason"),
        ({**ODD, "task_id": "T", "detail": "d" * 65535}, "too_large", "/detail"),
        ({**ODD, "task_id": "T", "generation": -1}, "invalid_params", "/generation"),
        ({**ODD, "task_id": ""}, "invalid_params", "/task_id"),
    ],
)
async def test_a_fault_of_a_wrong_shape_is_refused(
    tmp_path: Path, params: dict[str, Any], code: str, path: str
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as operator:
        refused = await operator.refused("ledger/fault/record", **params)
        assert (refused.code, refused.data["path"]) == (code, path)


async def test_a_record_with_an_op_id_happens_once(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as operator:
        first = await operator.call("ledger/fault/record", **ODD, task_id="T", op_id="op-1")
        await operator.call("ledger/fault/ack", fault_id=first["fault"]["fault_id"])
        before = await head(operator)
        again = await operator.call("ledger/fault/record", **ODD, task_id="T", op_id="op-1")
        assert json.dumps(again) == json.dumps({**first, "replayed": True})
        assert await head(operator) == before


async def test_acking_a_fault_moves_it_once_and_keeps_its_reason_unless_one_is_given(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as operator:
        faults = [
            (await operator.call("ledger/fault/record", **ODD, task_id=task, role="operator"))["fault"]
            for task in ("T", "U")
        ]
        before = await head(operator)
        kept = await operator.call("ledger/fault/ack", fault_id=faults[0]["fault_id"])
        assert (kept["fault"]["state"], kept["fault"]["reason"], kept["changed"]) == ("acked", ODD["reason"], True)
        said = await operator.call("ledger/fault/ack", fault_id=faults[1]["fault_id"], reason="known")
        assert said["fault"]["reason"] == "known"
        events = await feed(operator, before)
        assert [event["data"] for event in events] == [kept["fault"], said["fault"]]
        assert {event["role"] for event in events} == {"operator"}
        again = await operator.call("ledger/fault/ack", fault_id=faults[1]["fault_id"], reason="other")
        assert again == {"fault": said["fault"], "changed": False}
        assert await head(operator) == before + 2


@pytest.mark.parametrize("state", ["acked", "adopted", "rebound", "retried", "failed", "closed"])
async def test_all_open_faults_of_a_task_move_together_with_an_event_each(tmp_path: Path, state: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as operator:
        kinds = ("one", "two", "three")
        for kind in kinds:
            await operator.call("ledger/fault/record", kind=kind, reason="why", task_id="T")
        await operator.call("ledger/fault/record", kind="one", reason="why", task_id="other")
        before = await head(operator)
        assert await operator.call("ledger/fault/move", task_id="T", state=state, reason="so") == {"moved": 3}
        events = await feed(operator, before)
        assert [(event["data"]["kind"], event["data"]["state"], event["data"]["reason"]) for event in events] == [
            (kind, state, "so") for kind in kinds
        ]
        assert await operator.call("ledger/fault/move", task_id="T", state="closed") == {"moved": 0}
        assert [fault["task_id"] for fault in (await operator.call("ledger/fault/list", state="open"))["faults"]] == [
            "other"
        ]


async def test_a_fault_moves_to_anything_but_open(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as operator:
        for state in ("open", "opened"):
            refused = await operator.refused("ledger/fault/move", task_id="T", state=state)
            assert (refused.code, refused.data["path"]) == ("invalid_params", "/state")


async def test_faults_are_listed_oldest_first_by_every_filter_and_in_pages(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("a", "b")) as daemon, daemon.client() as operator:
        for n in range(6):
            about = {"task_id": f"T{n}", "role": "ab"[n % 2], "session_id": f"s{n % 3}"}
            await operator.call("ledger/fault/record", kind=f"k{n // 3}", reason="why", **about)
        await operator.call("ledger/fault/move", task_id="T4", state="closed")

        async def tasks(**wanted: Any) -> list[str]:
            found: list[str] = []
            cursor: dict[str, str] = {}
            while True:
                page = await operator.call("ledger/fault/list", limit=2, **wanted, **cursor)
                found += [fault["task_id"] for fault in page["faults"]]
                if not page["has_more"]:
                    assert "next_cursor" not in page
                    return found
                cursor = {"cursor": page["next_cursor"]}

        assert await tasks() == ["T0", "T1", "T2", "T3", "T4", "T5"]
        assert await tasks(role="b") == ["T1", "T3", "T5"]
        assert await tasks(kind="k1") == ["T3", "T4", "T5"]
        assert await tasks(session_id="s1") == ["T1", "T4"]
        assert await tasks(task_id="T2") == ["T2"]
        assert await tasks(state="closed") == ["T4"]
        assert await tasks(state="open", role="a", kind="k0") == ["T0", "T2"]
        page = await operator.call("ledger/fault/list", limit=1)
        refused = await operator.refused("ledger/fault/list", limit=1, role="a", cursor=page["next_cursor"])
        assert (refused.code, refused.data["path"]) == ("invalid_params", "/cursor")


async def test_more_than_five_hundred_open_faults_still_count_as_one_each(tmp_path: Path) -> None:
    async with served(tmp_path, durability="normal") as daemon, daemon.client() as operator:
        starts = [operator.start("ledger/fault/record", **ODD, task_id=f"T{n}") for n in range(520)]
        assert all([(await start)["result"]["changed"] for start in starts])
        assert (await operator.call("ledger/fault/record", **ODD, task_id="T519"))["changed"] is False
        assert (await operator.call("daemon/status"))["open_faults"] == 520
