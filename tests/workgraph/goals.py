"""What the tests of goals have in common: how one is made and named, and every completion policy."""

from __future__ import annotations

import os
import pwd
from typing import Any, Final

from tests.harness import Client

from .common import target

CONFIRM: Final = "workgraph/goal/confirm"
ASK: Final = "workgraph/goal/request_close"
LOGIN: Final = pwd.getpwuid(os.getuid()).pw_name
ME: Final = {"kind": "principal", "id": LOGIN}
"""Whom the daemon says that these tests are."""
R1, R2 = {"kind": "agent", "id": "r1"}, {"kind": "agent", "id": "r2"}

POLICIES: Final[dict[str, dict[str, Any]]] = {
    "self": {"kind": "self_attest"},
    "host": {"kind": "host_confirmed"},
    "principal": {"kind": "principal_confirmed"},
    "me": {"kind": "supervisor", "owner_key": ME},
    "r1": {"kind": "supervisor", "owner_key": R1},
    "quorum": {"kind": "reviewer_quorum", "threshold": 2},
}

OTHER: Final = {"kind": "supervisor", "owner_key": {"kind": "label", "id": "boss"}}
LATTICE: Final[dict[str, dict[str, Any]]] = {
    "self": POLICIES["self"],
    "host": POLICIES["host"],
    "principal": POLICIES["principal"],
    "me": POLICIES["me"],
    "other": OTHER,
    **{f"quorum {n}": {"kind": "reviewer_quorum", "threshold": n} for n in (1, 2, 64)},
}


async def goal(client: Client, name: str = "a", **more: Any) -> dict[str, Any]:
    """Give the target of this name something to attend to."""
    params = {"target": target(name), **({} if "item_id" in more else {"title": "t"}), **more}
    made: dict[str, Any] = await client.call("workgraph/goal/create", **params)
    return made


def bound(item: dict[str, Any]) -> dict[str, Any]:
    """What names an existing item."""
    return {"item_id": item["id"], "expected_revision": item["revision"]}


def of(made: dict[str, Any], **more: Any) -> dict[str, Any]:
    """What names a goal, at its item's revision."""
    params = {"binding_id": made["attention"]["binding_id"], "expected_revision": made["item"]["revision"]}
    return {**params, **more}
