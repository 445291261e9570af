"""Claims and the processes that made them: they outlive a kill, end with their lease, and fences order who comes late.

Field C67, C69, C73, C74; contract workgraph 2 and 3.1.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Final

from interlock.daemon.instances import listed
from tests.harness import Client, spawned
from tests.ledger.common import feed, head, until_event
from tests.workgraph.common import claim, create, get, owner, ready_ids

from .support import on, until


def late_calls(item: dict[str, Any], fence: int) -> list[tuple[str, dict[str, Any]]]:
    """All that a holder may do with its fence, at the revision it knows and at the present one."""
    of = {"id": item["id"], "fence": fence}
    evidence = {"kind": "log", "id": "e"}
    return [
        ("renew", of),
        ("release", of),
        ("evidence/add", {**of, "evidence": evidence}),
        *(
            call
            for revision in (item["revision"], item["revision"] + 1, item["revision"] + 2)
            for at in ({**of, "expected_revision": revision},)
            for call in (
                ("close", at),
                ("close", {**at, "status": "failed"}),
                ("block", at),
                ("update", {**at, "title": "late"}),
                ("release", at),
                ("evidence/add", {**at, "evidence": evidence}),
            )
        ),
    ]


async def changes_nothing(client: Client, item: dict[str, Any], fence: int, current: int | None) -> None:
    """A late holder is told so by every method, and neither the item nor the feed changes."""
    before, start = await get(client, item["id"]), await head(client)
    for verb, params in late_calls(item, fence):
        refused = await client.refused(f"workgraph/{verb}", **params)
        assert (refused.number, refused.code) == (-32002, "stale_lease"), verb
        assert refused.data["retryable"] is False
        assert (refused.data["fence"], refused.data.get("current_fence")) == (fence, current)
        assert refused.data["current_revision"] == before["revision"]
        assert refused.data.get("holder") == before.get("owner")
    assert await get(client, item["id"]) == before
    assert await head(client) == start


async def test_a_claim_outlives_the_process_that_made_it_until_its_lease_ends(tmp_path: Path) -> None:
    async with spawned(tmp_path) as daemon, on(daemon) as client, AsyncExitStack() as stack:
        other = await stack.enter_async_context(spawned(tmp_path, stdio=True, socket=None))
        worker = other.stdio()
        await worker.call("daemon/ping")
        long = await claim(worker, await create(client), "worker", lease_seconds=900)
        never = await claim(worker, await create(client), "worker", lease_seconds=0)
        short = await claim(worker, await create(client), "worker", lease_seconds=3)
        await other.kill()

        assert await get(client, short["item"]["id"]) == short["item"]
        await until(lambda: asyncio.sleep(0, len(listed(tmp_path / "state")) == 1))  # the dead one was buried
        assert (await get(client, never["item"]["id"]))["status"] == "in_progress"
        ended = await until_event(client, subjects=[short["item"]["id"]], types=["item_released"])
        assert ended["data"]["cause"] == "lease_expired"
        assert ended["at"] >= short["item"]["claim"]["lease_expires_at"]
        assert ended["data"]["owner"] == owner("worker")
        await changes_nothing(client, short["item"], 1, None)
        for one in (long, never):
            assert await get(client, one["item"]["id"]) == one["item"]
        assert await ready_ids(client) == [short["item"]["id"]]

        again = await client.call("workgraph/claim_next", owner=owner("other"))
        assert (again["item"]["id"], again["fence"], again["item"]["revision"]) == (short["item"]["id"], 2, 4)
        await changes_nothing(client, short["item"], 1, 2)
        closed = {"id": again["item"]["id"], "expected_revision": 4, "fence": 2}
        assert (await client.call("workgraph/close", **closed))["item"]["status"] == "completed"


async def test_who_has_the_fence_goes_on_from_another_process_and_after_everyone_was_killed(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(spawned(tmp_path))
        client = await first.client()
        stack.push_async_callback(client.close)
        second = await stack.enter_async_context(spawned(tmp_path, stdio=True, socket=None))
        other = second.stdio()
        held = await claim(client, await create(client), "worker", lease_seconds=600)
        of = {"id": held["item"]["id"], "fence": held["fence"]}
        await first.kill()
        renewed = await other.call("workgraph/renew", **of, lease_seconds=900)
        assert renewed["item"]["claim"]["lease_expires_at"] > held["item"]["claim"]["lease_expires_at"]
        assert (renewed["fence"], renewed["item"]["revision"]) == (1, 2)
        await second.kill()
        third = (await stack.enter_async_context(spawned(tmp_path, stdio=True, socket=None))).stdio()
        assert await get(third, of["id"]) == renewed["item"]
        closed = await third.call("workgraph/close", **of, expected_revision=2)
        assert closed["item"]["status"] == "completed"


async def test_a_worker_of_the_same_name_does_not_inherit_what_a_killed_one_held(tmp_path: Path) -> None:
    async with spawned(tmp_path) as daemon, on(daemon) as client:
        item = await create(client)
        async with spawned(tmp_path, stdio=True, socket=None) as former:
            held = await claim(former.stdio(), item, "worker", lease_seconds=2)
        async with spawned(tmp_path, stdio=True, socket=None) as again:
            worker = again.stdio()
            at = {"id": item["id"], "expected_revision": 2}
            about = {"holder": owner("worker"), "lease_expires_at": held["item"]["claim"]["lease_expires_at"]}
            for verb, params, code in (
                ("claim", {**at, "owner": owner("worker")}, "already_claimed"),
                ("close", at, "fence_required"),
                ("release", {"id": item["id"]}, "fence_required"),
                ("update", {**at, "title": "mine"}, "fence_required"),
                ("evidence/add", {"id": item["id"], "evidence": {"kind": "log", "id": "e"}}, "fence_required"),
            ):
                refused = await worker.refused(f"workgraph/{verb}", **params)
                assert (refused.code, refused.data["current_revision"]) == (code, 2), verb
                assert {name: refused.data[name] for name in about} == about
            guessed = await worker.refused("workgraph/close", **at, fence=2)
            assert (guessed.code, guessed.data["current_fence"]) == ("stale_lease", 1)
            assert "item" not in await worker.call("workgraph/claim_next", owner=owner("worker"))
            assert await get(client, item["id"]) == held["item"]
            found = await worker.call("daemon/wait", filter={"item_ready": {}}, timeout_ms=20_000)
            assert found["matched"] == ["item_ready"]
            assert (await worker.call("workgraph/claim_next", owner=owner("worker")))["fence"] == 2


ITEMS: Final = 300


class Worker:
    """Claims and closes, each call with its op id, and remembers what it was told until its process is gone."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.acknowledged: dict[str, dict[str, Any]] = {}

    async def call(self, verb: str, **params: Any) -> dict[str, Any]:
        op_id = f"{self.name}-{len(self.asked)}"
        self.asked.append((f"workgraph/{verb}", {**params, "op_id": op_id}))
        answer: dict[str, Any] = await self.client.call(self.asked[-1][0], **self.asked[-1][1])
        self.acknowledged[op_id] = answer
        return answer

    async def run(self) -> None:
        with suppress(ConnectionError):
            while "item" in (taken := await self.call("claim_next", owner=owner(self.name))):
                of = {"id": taken["item"]["id"], "expected_revision": taken["item"]["revision"]}
                await self.call("close", **of, fence=taken["fence"])


async def test_what_a_killed_process_was_asked_is_said_again_to_another_and_happens_once(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(spawned(tmp_path))
        clients = [await first.client() for _ in range(4)]
        for client in clients:
            stack.push_async_callback(client.close)
        survivor = (await stack.enter_async_context(spawned(tmp_path, stdio=True, socket=None))).stdio()
        step = {"method": "workgraph/create", "params": {"title": "t"}}
        for _ in range(0, ITEMS, 50):
            await clients[0].call("daemon/batch", steps=[step] * 50)
        workers = [Worker(client, f"w{n}") for n, client in enumerate((*clients, survivor))]
        async with asyncio.TaskGroup() as group:
            for worker in workers:
                group.create_task(worker.run())
            await until(lambda: asyncio.sleep(0, sum(len(worker.asked) for worker in workers) > ITEMS))
            first.process.kill()
        for worker in workers[:-1]:
            for method, params in worker.asked:
                again = await survivor.call(method, **params)
                told_before = worker.acknowledged.get(params["op_id"])
                if told_before is not None:
                    assert again == {**told_before, "replayed": True}
                elif method.endswith("claim_next") and "item" in again:
                    of = {"id": again["item"]["id"], "expected_revision": again["item"]["revision"]}
                    await survivor.call("workgraph/close", **of, fence=again["fence"])
        events = await feed(survivor)
        for type_ in ("item_claimed", "item_closed"):
            counted = Counter(event["subject"] for event in events if event["type"] == type_)
            assert (len(counted), set(counted.values())) == (ITEMS, {1}), type_
        assert {event["data"]["fence"] for event in events if event["type"] in ("item_claimed", "item_closed")} == {1}
        ended = [event for event in events if event["type"] == "namespace_terminal"]
        assert len(ended) == 1
