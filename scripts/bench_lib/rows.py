"""The message that is measured, and the rows it becomes: the same for the daemon and for its floor."""

from __future__ import annotations

import hashlib
import time
from typing import Any, Final, NamedTuple

import msgspec

from interlock.stores.ids import Ids

ROLES: Final = 16
TEXT: Final = (
    "The migration of the billing tables is finished; please review the three queries that still scan, "
    "then hand the item back with your measurements so that the release can be cut before Thursday noon."
)
_ids: Final = Ids()


def now_ms() -> int:
    """The instant, as the store has it."""
    return time.time_ns() // 1_000_000


def op_id() -> str:
    """An op id as our clients mint them: ascending."""
    return _ids.new("op", now_ms())


def message(n: int, *, to: str | None = None, op: bool = False, kind: str = "note") -> dict[str, Any]:
    """The n-th message: about 420 bytes, with a task, a parent, labels, a body and a ttl (a task: fresh, no ttl)."""
    about: dict[str, Any] = {"attempt": n % 3, "labels": {"team": "billing", "run": f"r{n % 31}"}}
    if kind == "note":
        about |= {"task": f"task-{n % 997}", "parent_task": f"task-{n % 97}"}
    return {
        **({"op_id": op_id()} if op else {}),
        "to": f"role-{n % ROLES}" if to is None else to,
        "kind": kind,
        **({"ttl_ms": 3_600_000} if kind == "note" else {}),
        "causality": about,
        "body": {"head": f"Review round {n}", "text": TEXT},
    }


class Rows(NamedTuple):
    """The parameters of the three statements that store one message."""

    msg_id: str
    mail: dict[str, Any]
    body: str
    event: tuple[Any, ...]
    op: tuple[Any, ...]


def rows(n: int, at: int) -> Rows:
    """What the daemon stores for the n-th message with an op id."""
    msg_id, op = _ids.new("msg", at), op_id()
    sent = message(n)
    about = sent["causality"]
    state = {
        "msg_id": msg_id,
        "op_id": op,
        "kind": "note",
        "from": {"role": {"role": "operator"}},
        "to": {"role": {"role": sent["to"]}},
        "task": about["task"],
        "state": "queued",
        "deliveries": 0,
        "requeued": 0,
    }
    receipt = {"msg_id": msg_id, "op_id": op, "kind": "note", "task": about["task"], "state": "queued"}
    receipt |= {"enqueued_at": "2026-12-01T12:00:00.000Z", "presence": "offline"}
    mail = {
        **{"msg_id": msg_id, "op_id": op, "kind": "note", "from_role": "operator", "to_role": sent["to"]},
        **{"task": about["task"], "parent_task": about["parent_task"], "hop": 0, "attempt": about["attempt"]},
        **{"labels": msgspec.json.encode(about["labels"]).decode(), "admin": 1, "head": sent["body"]["head"]},
        **{"has_body": 1, "ts": at, "ttl_ms": sent["ttl_ms"], "state": "queued", "enqueued_at": at},
        **{"due_at": at + sent["ttl_ms"], "deliveries": 0, "requeued": 0},
    }
    body = msgspec.json.encode(sent["body"]).decode()
    event = ("ledger", "ledger_state", None, None, msg_id, sent["to"], at, msgspec.json.encode(state).decode())
    kept = (op, "ledger/send", hashlib.sha256(body.encode()).digest(), msgspec.json.encode(receipt), msg_id, at)
    return Rows(msg_id, mail, body, event, kept)
