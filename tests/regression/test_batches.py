"""What references and op ids can do to a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from interlock.protocol.limits import DEPTH, MESSAGE_BYTES
from tests.harness import served


def note(**more: Any) -> dict[str, Any]:
    """A step that sends a note."""
    return {"method": "ledger/send", "params": {"kind": "note", "to": "worker", "body": {"text": "x"}, **more}}


def fault(kind: str, detail: object) -> dict[str, Any]:
    """A step that records a fault."""
    return {
        "method": "ledger/fault/record",
        "params": {"kind": kind, "reason": "r", "task_id": "task", "detail": detail},
    }


def nested(value: object, levels: int) -> object:
    """A value in so many lists."""
    for _ in range(levels):
        value = [value]
    return value


async def test_a_step_with_the_batchs_own_op_id_is_a_conflict_and_nothing_is_kept(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("worker",)) as daemon, daemon.client() as client:
        refused = await client.refused("daemon/batch", op_id="one", steps=[note(), note(op_id="one")])
        assert (refused.number, refused.code, refused.data["step"]) == (-32002, "op_conflict", 1)
        assert (await client.call("ledger/query"))["rows"] == []
        done = await client.call("daemon/batch", op_id="one", steps=[note()])
        assert "replayed" not in done


async def test_references_cannot_nest_a_step_deeper_than_a_message_may_be(tmp_path: Path) -> None:
    steps = [fault("first", nested(1, 100)), fault("second", nested({"$ref": "/0/fault/detail"}, 100))]
    async with served(tmp_path) as daemon, daemon.client() as client:
        refused = await client.refused("daemon/batch", steps=steps)
        assert (refused.code, refused.data["max"], refused.data["step"]) == ("too_deep", DEPTH, 1)
        assert (await client.call("ledger/fault/list"))["faults"] == []


async def test_references_cannot_multiply_a_result_beyond_a_message(tmp_path: Path) -> None:
    many = [{"$ref": "/0/fault/detail"}] * 200
    steps = [fault("first", "x" * 60_000), fault("second", many)]
    async with served(tmp_path) as daemon, daemon.client() as client:
        refused = await client.refused("daemon/batch", steps=steps)
        assert (refused.number, refused.code, refused.data["max"]) == (-32004, "too_large", MESSAGE_BYTES)
        assert refused.data["path"] == "/detail/139"
        assert refused.data["step"] == 1
