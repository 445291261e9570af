"""The store that scripts/bench makes is one that the daemon could have made, or its figures would mean nothing."""

from __future__ import annotations

import importlib
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import served

SCRIPTS: Final = Path(__file__).parent.parent / "scripts"


async def test_a_seeded_store_counts_what_it_holds_and_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(SCRIPTS)
    seeding: Any = importlib.import_module("bench_lib.seeding")
    recount, fold, known = (importlib.import_module(f"crash_lib.{name}") for name in ("recount", "fold", "facts"))
    async with served(tmp_path):
        pass
    path = tmp_path / "state" / "interlock.sqlite3"
    with seeding.opened(path) as store:
        seeding.history(store, 1000)
    facts = known.Facts()
    with closing(sqlite3.connect(path)) as conn:
        recount.recount(conn, facts)
        told = fold.Fold(facts)
        told.read(conn)
        told.compare(conn)
    assert facts.violations == []
    async with served(tmp_path) as daemon, daemon.client() as client:
        ready = (await client.call("workgraph/ready", limit=500))["items"]
        ended = await client.call("workgraph/attention/list", status="stopped", limit=500)
        assert (len(ready), len(told.items), ended["has_more"]) == (60, 1000, True)
        taken = await client.call("workgraph/claim_next", owner={"kind": "agent", "id": "a"})
        assert taken["item"]["id"] == ready[0]["id"]
