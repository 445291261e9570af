"""Each refusal of each method is provoked through the wire and says what the caller needs (contract; DESIGN 3.3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.protocol.errors import CODES
from interlock.protocol.methods import METHODS
from interlock.protocol.shapes import objects_in, shape_of
from tests.harness import Client, Served, served
from tests.ledger.common import until_waiting
from tests.ledger.refusals import CASES, NOT_YET, ROLES, Case
from tests.workgraph.common import hindered

FAMILIES = ("daemon", "ledger")
DECLARED = {(method.name, code) for method in METHODS if method.family in FAMILIES for code in method.errors}


def test_every_declared_refusal_is_provoked_and_nothing_else_is() -> None:
    provoked = {(case.method, case.code) for case in CASES}
    assert provoked | set(NOT_YET) == DECLARED
    assert not provoked & set(NOT_YET)


def test_a_method_says_that_a_limit_may_be_out_of_range_exactly_where_it_has_one() -> None:
    for method in METHODS:
        shapes = [
            field.shape for struct in objects_in(shape_of(method.params)).values() for field in struct.fields.values()
        ]
        rules = [option.rule for shape in shapes for option in shape.options]
        limited = any(rule is not None and rule.kind == "limit" for rule in rules)
        assert limited is ("limit_out_of_range" in method.errors), method.name


async def prepared(daemon: Served, operator: Client, client: Client, case: Case) -> dict[str, Any]:
    """Do what comes before; the params with what is only known then."""
    params = dict(case.params)
    for method, about in case.before:
        if method == "<wait>":
            client.start("daemon/wait", filter={"mail": {"role": "b"}}, timeout_ms=60_000)
        elif method == "<spoil>":
            spoiled = daemon.state_dir / "workspaces" / "registry.sqlite3"
            spoiled.parent.mkdir()
            spoiled.write_bytes(b"SQLite format 3\0" + b"no database" * 500)
        elif method == "ledger/events/subscribe":
            await client.call(method, **about)
        else:
            result = await operator.call(method, **about)
            if method == "ledger/fault/record":
                params = {name: result["fault"]["fault_id"] if v == "<fault>" else v for name, v in params.items()}
    if params.get("path") == "<free>":
        params["path"] = str(daemon.state_dir.parent / "backup")
    return params


@pytest.mark.parametrize("case", CASES, ids=[f"{case.method}-{case.code}" for case in CASES])
async def test_the_refusal_has_its_number_its_code_and_its_data_and_changes_nothing(tmp_path: Path, case: Case) -> None:
    async with served(tmp_path, roles=ROLES) as daemon, daemon.client() as operator, daemon.client() as client:
        params = await prepared(daemon, operator, client, case)
        for role in case.attached:
            await client.call("ledger/attach", role=role)
        if case.before and case.before[0][0] == "<wait>":
            await until_waiting(operator, len(case.before))
        before = await operator.call("ledger/events/head")
        with hindered(daemon, case.code, "default"):
            refused = await client.refused(case.method, **params)
        assert refused.data["code"] == case.code
        assert refused.number == CODES[case.code].number
        assert refused.data["retryable"] is case.retryable
        assert {name: refused.data.get(name) for name in case.data} == case.data
        assert len(refused.message) > 10
        assert await operator.call("ledger/events/head") == before


@pytest.mark.parametrize("method", sorted(method.name for method in METHODS if method.name != "initialize"))
async def test_every_method_refuses_a_field_that_it_does_not_know(tmp_path: Path, method: str) -> None:
    async with served(tmp_path, roles=ROLES) as daemon, daemon.client() as operator:
        refused = await operator.refused(method, nonsense=1)
        assert (refused.number, refused.code) == (-32602, "invalid_params")
        assert refused.data["path"].startswith("/")
