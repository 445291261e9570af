"""A page of a snapshot is small enough whatever hangs on its items."""

from __future__ import annotations

from pathlib import Path

import msgspec

from interlock.protocol.limits import PAGE_BYTES
from tests.harness import served

from .common import create, sql

LONG = {"realm_id": "r" * 256, "namespace": "n" * 256}
EDGES = """INSERT INTO edges(from_item, kind, to_item, created_at) SELECT a.n, k.value, b.n, 1
FROM items AS a, items AS b, json_each('["related", "supersedes", "derived_from"]') AS k WHERE a.n <> b.n"""
BINDINGS = """INSERT INTO attention(binding_id, realm_id, namespace, item, target_key, mode, delegated_authority,
max_text_chars, include_parent_context, status, revision, created_at, updated_at)
SELECT 'binding ' || a.n || ' ' || b.n, a.realm_id, a.namespace, a.n, 'owner:label:x', 'pursue', 'add_evidence',
1, 1, 'stopped', 2, 1, 1 FROM items AS a, items AS b"""


async def test_edges_and_bindings_count_for_the_size_of_a_page(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = [(await create(client, **LONG))["id"] for _ in range(64)]
        edges, bindings = sql(daemon.state_dir, EDGES), sql(daemon.state_dir, BINDINGS)
        page = await client.call("workgraph/snapshot", **LONG, limit=500)
        pages = [page]
        while page["has_more"]:
            page = await client.call("workgraph/snapshot", **LONG, limit=500, cursor=page["next_cursor"])
            pages.append(page)
        assert len(pages) > 1
        rest = 4096  # what is said once on a page
        assert max(len(msgspec.json.encode(page)) for page in pages) < PAGE_BYTES + rest
        assert [item["id"] for page in pages for item in page["items"]] == made
        ends = {(edge["kind"], edge["from_id"], edge["to_id"]) for page in pages for edge in page["edges"]}
        assert (len(ends), sum(len(page["edges"]) for page in pages)) == (edges, edges)
        assert len({binding["binding_id"] for page in pages for binding in page["attention"]}) == bindings
        for page in pages:
            ids = {item["id"] for item in page["items"]}
            assert {edge["from_id"] for edge in page["edges"]} == ids
            assert {binding["work_ref"]["item_id"] for binding in page["attention"]} == ids


async def test_an_item_is_shown_though_its_edges_alone_are_more_than_a_page(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        hub, leaf = await create(client, **LONG), await create(client, **LONG)
        steps = [{"method": "workgraph/create", "params": {"title": "t", **LONG}}] * 64
        for _ in range(100):
            await client.call("daemon/batch", steps=steps)
        star = (
            "INSERT INTO edges(from_item, kind, to_item, created_at) SELECT 1, 'related', n, 1 FROM items WHERE n > 1"
        )
        edges = sql(daemon.state_dir, star)
        first = await client.call("workgraph/snapshot", **LONG)
        assert [item["id"] for item in first["items"]] == [hub["id"]]
        assert (len(first["edges"]), first["has_more"]) == (edges, True)
        second = await client.call("workgraph/snapshot", **LONG, limit=1, cursor=first["next_cursor"])
        assert ([item["id"] for item in second["items"]], second["edges"]) == ([leaf["id"]], [])
