"""Each refusal of each method of the work graph, through the wire: number, code, data (contract 2 to 9)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from interlock.protocol.errors import CODES
from interlock.protocol.methods import METHODS
from tests.harness import Client, Refused, Served, served
from tests.ledger.common import feed, head, other_process

from . import refusals, refusals_of_goals
from .common import hindered
from .refusals import ROLE, Case

CASES = [*refusals.CASES, *refusals_of_goals.CASES]
DECLARED = {(method.name, code) for method in METHODS if method.family == "workgraph" for code in method.errors}
REFUSING = sorted({case.method for case in CASES})


def test_every_declared_refusal_is_provoked_and_nothing_else_is() -> None:
    assert {(case.method, case.code) for case in CASES} == DECLARED


def filled(value: Any, known: dict[str, Any]) -> Any:
    """With what the steps have answered in the place of what stands for it."""
    if isinstance(value, str) and value.startswith("$"):
        name, *path = value[1:].split("/")
        found = known[name]
        for part in path:
            found = found[part]
        return found
    if isinstance(value, dict):
        return {key: filled(inner, known) for key, inner in value.items()}
    return [filled(inner, known) for inner in value] if isinstance(value, list) else value


def placed(method: str, params: dict[str, Any], realm: str) -> dict[str, Any]:
    """The params in this realm, and with an op id of its own."""
    params = dict(params)
    if method.startswith("workgraph/"):
        params["realm_id"] = realm
    if "op_id" in params:
        params["op_id"] += f"-{realm}"
    if "steps" in params:
        params["steps"] = [
            {**step, "params": placed(step["method"], step["params"], realm)} for step in params["steps"]
        ]
    return params


@asynccontextmanager
async def caller(daemon: Served, case: Case) -> AsyncIterator[Client]:
    """Who makes the call that is refused."""
    if case.over == "stdio":
        async with other_process(daemon.state_dir.parent) as client:
            yield client
    else:
        async with daemon.client(role=ROLE if case.attached else None) as client:
            yield client


async def provoked(daemon: Served, operator: Client, case: Case, realm: str) -> tuple[Refused, dict[str, Any]]:
    """The refusal, and the data that it should have. Nothing is written by it."""
    known: dict[str, Any] = {"realm": realm}
    for name, method, params in case.before:
        known[name] = await operator.call(method, **placed(method, filled(params, known), realm))
    if "member" in known.get("m", ()):
        key = known["m"]["member"]["owner_key"]
        known["key"] = f"owner:{key['kind']}:{key['id']}"
    async with caller(daemon, case) as client:
        before = await head(operator)
        with hindered(daemon, case.code, realm):
            refused = await client.refused(case.method, **placed(case.method, filled(case.params, known), realm))
        assert {event["type"] for event in await feed(operator, before)} <= {"role_presence"}
    return refused, filled(case.data, known)


@pytest.mark.parametrize("method", REFUSING)
async def test_each_refusal_has_its_number_its_code_and_its_data_and_changes_nothing(
    tmp_path: Path, method: str
) -> None:
    async with served(tmp_path, roles=(ROLE,)) as daemon, daemon.client() as operator:
        for n, case in enumerate(case for case in CASES if case.method == method):
            refused, data = await provoked(daemon, operator, case, f"r{n}")
            assert refused.data == {"code": case.code, "retryable": CODES[case.code].retryable, **data}, case
            assert refused.number == CODES[case.code].number
            assert len(refused.message) > 10
