"""`daemon/wait` for work: an item that is ready, a lease that ends (contract daemon 3). By event, and by time alone."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio

from interlock.lifecycle.times import parse_rfc3339
from tests.harness import PATIENCE_S, Client, result_of, served, spawned
from tests.ledger.common import head, now_of, other_process, send, until_waiting
from tests.ledger.test_wakeups import turns

from .common import claim, create, get, in_ms, owner, ready_ids, sql

READY: Final[dict[str, Any]] = {"item_ready": {}}
PATIENT_MS: Final = 60_000
HOUR_MS: Final = 3_600_000


def ready(**more: Any) -> dict[str, Any]:
    """The condition that an item is ready."""
    return {"item_ready": more}


def ending(within_ms: int, name: str | None = None, **more: Any) -> dict[str, Any]:
    """The condition that a lease (of that owner) ends soon."""
    of = {} if name is None else {"owner": owner(name)["key"]}
    return {"lease_ending": {"within_ms": within_ms, **of, **more}}


async def holds(client: Client, wanted: dict[str, Any]) -> list[str]:
    """Which of these conditions hold now."""
    matched: list[str] = (await client.call("daemon/wait", filter=wanted, timeout_ms=0))["matched"]
    return matched


async def test_a_condition_of_work_that_holds_is_answered_at_once(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        for timeout in (0, PATIENT_MS):
            found = await client.call("daemon/wait", filter=READY, timeout_ms=timeout)
            assert found == {"matched": ["item_ready"], "as_of_seq": await head(client)}
        await claim(client, item, "a", lease_seconds=60)
        for timeout in (0, PATIENT_MS):
            found = await client.call("daemon/wait", filter=ending(60_000), timeout_ms=timeout)
            assert found == {"matched": ["lease_ending"], "as_of_seq": await head(client)}
        assert await holds(client, READY) == []


async def test_all_that_holds_is_named_in_the_order_of_the_contract(tmp_path: Path) -> None:
    async with served(tmp_path, roles=("b",)) as daemon, daemon.client() as client:
        start = await head(client)
        item, _ = await create(client), await create(client)
        await claim(client, item, lease_seconds=60)
        wanted = {**ending(60_000), **READY, "events": {}, "mail": {"role": "b"}}
        for mail in ([], ["mail"]):
            found = await client.call("daemon/wait", filter=wanted, after_seq=start, timeout_ms=PATIENT_MS)
            assert found["matched"] == [*mail, "events", "item_ready", "lease_ending"]
            assert found["event"]["seq"] == start + 1
            await send(client, "b", "note")
        found = await client.call("daemon/wait", filter=wanted, timeout_ms=0)
        assert found == {"matched": ["mail", "item_ready", "lease_ending"], "as_of_seq": await head(client)}


async def test_an_item_counts_only_where_it_is_ready_carries_every_label_and_is_of_the_scope(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await create(client, labels=["x"], status="blocked")
        await create(client, labels=["x", "y"], not_before=await in_ms(client, HOUR_MS))
        assert await holds(client, READY) == []
        await create(client, labels=["x", "z"])
        await create(client, labels=["y", "z"], namespace="n")
        for labels in ([], ["x"], ["z", "x", "z"]):
            assert await holds(client, ready(labels=labels)) == ["item_ready"]
        for labels in (["y"], ["x", "y"], ["X"]):
            assert await holds(client, ready(labels=labels)) == []
        assert await holds(client, ready(labels=["z", "y"], namespace="n"))
        for elsewhere in ({"namespace": "n", "labels": ["x"]}, {"realm_id": "r"}, {"realm_id": "r", "namespace": "n"}):
            assert await holds(client, ready(**elsewhere)) == []


async def test_a_lease_counts_only_where_it_ends_in_time_is_of_the_owner_and_of_the_scope(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        assert await holds(client, ending(60_000)) == []
        await claim(client, await create(client), "for ever", lease_seconds=0)
        await claim(client, await create(client), "long", lease_seconds=3600)
        held = await claim(client, await create(client, realm_id="r"), "short", lease_seconds=60, realm_id="r")
        assert await holds(client, ending(60_000)) == []
        assert await holds(client, ending(HOUR_MS)) == ["lease_ending"]
        assert await holds(client, ending(HOUR_MS, "long")) == ["lease_ending"]
        assert await holds(client, ending(HOUR_MS, "for ever")) == []
        assert await holds(client, ending(HOUR_MS, "short")) == []
        assert await holds(client, ending(60_000, "short", realm_id="r")) == ["lease_ending"]
        assert await holds(client, ending(60_000, "short", realm_id="r", namespace="n")) == []
        await client.call("workgraph/release", id=held["item"]["id"], fence=held["fence"], realm_id="r")
        assert await holds(client, ending(60_000, realm_id="r")) == []


Step = Callable[[Client], Awaitable[Any]]


async def _with_blocker(client: Client, **edge: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """An item that waits for another, which is claimed for ever: both, and the edge."""
    blocker, item = await create(client), await create(client)
    link = {"kind": "blocks", "from_id": blocker["id"], "to_id": item["id"]}
    await client.call("workgraph/link", **link, **edge)
    await claim(client, blocker, lease_seconds=0)
    return await get(client, blocker["id"]), item, link


async def _end(client: Client, item: dict[str, Any], status: str) -> None:
    params = {"id": item["id"], "expected_revision": item["revision"], "status": status}
    await client.call("workgraph/close", **params, fence=item["claim"]["fence"])


async def created(client: Client) -> Step:
    return lambda other: create(other)


async def blocker_closed(client: Client) -> Step:
    blocker, _, _ = await _with_blocker(client)
    return lambda other: _end(other, blocker, "completed")


async def blocker_failed_and_released(client: Client) -> Step:
    blocker, _, _ = await _with_blocker(client, on_failure="release")
    return lambda other: _end(other, blocker, "failed")


async def unlinked(client: Client) -> Step:
    _, _, link = await _with_blocker(client)
    return lambda other: other.call("workgraph/unlink", **link)


async def waived(client: Client) -> Step:
    blocker, _, link = await _with_blocker(client)
    await _end(client, blocker, "cancelled")
    return lambda other: other.call("workgraph/link", **link, on_failure="release")


async def child_closed(client: Client) -> Step:
    child, parent = await create(client), await create(client)
    await client.call("workgraph/link", kind="parent", from_id=child["id"], to_id=parent["id"])
    await claim(client, child, lease_seconds=0)
    child = await get(client, child["id"])
    return lambda other: _end(other, child, "completed")


async def unblocked(client: Client) -> Step:
    item = await create(client, status="blocked")
    return lambda other: other.call("workgraph/unblock", id=item["id"], expected_revision=1)


async def released(client: Client) -> Step:
    held = await claim(client, await create(client), lease_seconds=0)
    return lambda other: other.call("workgraph/release", id=held["item"]["id"], fence=held["fence"])


async def gate_taken_away(client: Client) -> Step:
    item = await create(client, snoozed_until=await in_ms(client, HOUR_MS))
    return lambda other: other.call("workgraph/update", id=item["id"], expected_revision=1, snoozed_until=None)


async def join_policy_changed(client: Client) -> Step:
    child, parent = await create(client), await create(client)
    await client.call("workgraph/link", kind="parent", from_id=child["id"], to_id=parent["id"])
    await client.call("workgraph/close", id=child["id"], expected_revision=1, status="failed")
    patch = {"id": parent["id"], "expected_revision": 1, "failed_child_join_policy": "accept"}
    return lambda other: other.call("workgraph/update", **patch)


STEPS: Final = (
    *(created, blocker_closed, blocker_failed_and_released, unlinked, waived, child_closed, unblocked, released),
    *(gate_taken_away, join_policy_changed),
)


async def test_whatever_makes_an_item_ready_ends_the_wait_from_either_process(tmp_path: Path) -> None:
    async with (
        served(tmp_path) as daemon,
        other_process(tmp_path) as other,
        daemon.client() as waiter,
        daemon.client() as client,
    ):
        for n, prepare in enumerate((*STEPS, *STEPS)):
            scope = {"realm_id": f"r{n}"}
            step = await prepare(Scoped(client, scope))
            waiting = waiter.start("daemon/wait", filter=ready(**scope), timeout_ms=PATIENT_MS)
            await until_waiting(client, 1)
            await step(Scoped(other if n >= len(STEPS) else client, scope))
            with anyio.fail_after(PATIENCE_S):
                assert result_of(await waiting)["matched"] == ["item_ready"], prepare.__name__


class Scoped(Client):
    """A client that speaks of one scope."""

    def __init__(self, client: Client, scope: dict[str, Any]) -> None:
        self._client = client
        self._scope = scope

    async def call(self, method: str, /, **params: Any) -> Any:
        return await self._client.call(method, **params, **(self._scope if method.startswith("workgraph/") else {}))


async def test_a_label_that_a_ready_item_is_given_ends_the_wait_for_it(tmp_path: Path) -> None:
    """The item was ready before, so no event says that it is: only what it carries is new."""
    async with served(tmp_path) as daemon, daemon.client() as client, daemon.client() as waiter:
        item = await create(client, labels=["x"])
        waiting = waiter.start("daemon/wait", filter=ready(labels=["x", "y"]), timeout_ms=PATIENT_MS)
        await until_waiting(client, 1)
        await client.call("workgraph/update", id=item["id"], expected_revision=1, labels=["x", "y"])
        with anyio.fail_after(PATIENCE_S):
            assert result_of(await waiting)["matched"] == ["item_ready"]


async def test_what_brings_the_end_of_a_lease_near_ends_the_wait_from_either_process(tmp_path: Path) -> None:
    async with (
        served(tmp_path) as daemon,
        other_process(tmp_path) as other,
        daemon.client() as waiter,
        daemon.client() as client,
    ):
        for n, by in enumerate((client, other)):
            first, second = [await create(client, realm_id=f"r{n}") for _ in range(2)]
            scope = {"realm_id": f"r{n}"}
            wanted = ending(60_000, "a", **scope)
            held = await claim(client, first, "a", lease_seconds=3600, **scope)
            for method, params in (
                ("renew", {"id": first["id"], "fence": held["fence"]}),
                ("claim", {"id": second["id"], "expected_revision": 1, "owner": owner("a")}),
                ("claim_next", {"owner": owner("a")}),
            ):
                waiting = waiter.start("daemon/wait", filter=wanted, timeout_ms=PATIENT_MS)
                await until_waiting(client, 1)
                done = await by.call(f"workgraph/{method}", **params, **scope, lease_seconds=60)
                with anyio.fail_after(PATIENCE_S):
                    assert result_of(await waiting)["matched"] == ["lease_ending"], method
                release = {"id": done["item"]["id"], "fence": done["fence"]}
                await client.call("workgraph/release", **release, **scope)


@asynccontextmanager
async def a_follower_whose_leader_stands_still(tmp_path: Path, prepare: Step) -> AsyncIterator[Client]:
    """A process that serves, with one that leads, sweeps nothing and tells nothing, from when all is prepared."""
    async with AsyncExitStack() as stack:
        leader = await stack.enter_async_context(spawned(tmp_path, stdio=True, socket=None))
        await leader.stdio().call("daemon/ping")
        follower = (await stack.enter_async_context(spawned(tmp_path, stdio=True, socket=None))).stdio()
        assert not (await follower.call("daemon/status"))["leader"]
        await prepare(follower)
        os.kill(leader.process.pid, signal.SIGSTOP)
        yield follower


async def test_time_alone_makes_each_condition_hold_although_nobody_sweeps(tmp_path: Path) -> None:
    """An elapsed lease and an opened gate are judged when they are read, and a wait looks when they come."""
    claimed: dict[str, Any] = {}

    async def prepare(client: Client) -> None:
        item = await create(client)
        await claim(client, await create(client, realm_id="ending"), "a", lease_seconds=903, realm_id="ending")
        await create(client, realm_id="gated", not_before=await in_ms(client, 3000))
        claimed.update(await claim(client, item, "a", lease_seconds=3))

    async with a_follower_whose_leader_stands_still(tmp_path, prepare) as client:
        wanted = [READY, ready(realm_id="gated"), ending(900_000, "a", realm_id="ending")]
        begun = [client.start("daemon/wait", filter=one, timeout_ms=PATIENT_MS) for one in wanted]
        with anyio.fail_after(PATIENCE_S):
            found = [result_of(await answer)["matched"] for answer in begun]
        assert found == [["item_ready"], ["item_ready"], ["lease_ending"]]
        now = await now_of(client)
        assert now >= parse_rfc3339(claimed["item"]["claim"]["lease_expires_at"])
        assert await ready_ids(client) == [claimed["item"]["id"]]
        assert len(await ready_ids(client, realm_id="gated")) == 1
        as_before = await get(client, claimed["item"]["id"])
        assert (as_before["status"], as_before["revision"]) == ("in_progress", 2)
        assert await holds(client, ending(PATIENT_MS)) == []  # it is not live any more


async def test_a_gate_that_an_update_brings_nearer_ends_the_wait_when_it_opens(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client, daemon.client() as waiter:
        item = await create(client, not_before=await in_ms(client, HOUR_MS))
        waiting = waiter.start("daemon/wait", filter=READY, timeout_ms=PATIENT_MS)
        await until_waiting(client, 1)
        near = await in_ms(client, 500)
        await client.call("workgraph/update", id=item["id"], expected_revision=1, not_before=near)
        with anyio.fail_after(PATIENCE_S):
            assert result_of(await waiting)["matched"] == ["item_ready"]
        assert await now_of(client) >= parse_rfc3339(near)


async def test_a_lease_that_is_given_back_or_prolonged_before_it_comes_near_ends_no_wait(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client, daemon.client() as waiter:
        first = await claim(client, await create(client), "a", lease_seconds=902)
        second = await claim(client, await create(client), "a", lease_seconds=902)
        waiting = waiter.start("daemon/wait", filter=ending(900_000), timeout_ms=2800)
        await until_waiting(client, 1)
        await client.call("workgraph/release", id=first["item"]["id"], fence=first["fence"])
        await client.call("workgraph/renew", id=second["item"]["id"], fence=second["fence"], lease_seconds=0)
        assert result_of(await waiting) == {"matched": [], "as_of_seq": await head(client)}


async def test_hundreds_of_items_between_a_look_and_its_wait_are_all_noticed(tmp_path: Path) -> None:
    async with (
        served(tmp_path, durability="normal") as daemon,
        daemon.client() as client,
        daemon.client() as waiter,
    ):
        with anyio.fail_after(2 * PATIENCE_S):
            for n in range(300):
                waiting = waiter.start("daemon/wait", filter=ready(labels=["x"]), timeout_ms=PATIENT_MS)
                await turns(n % 24)
                item = await create(client, labels=["x"])
                assert result_of(await waiting)["matched"] == ["item_ready"]
                waiting = waiter.start("daemon/wait", filter=ending(60_000, "a"), timeout_ms=PATIENT_MS)
                await turns(n % 24)
                held = await client.call("workgraph/claim_next", owner=owner("a"), lease_seconds=60)
                assert held["item"]["id"] == item["id"]
                assert result_of(await waiting)["matched"] == ["lease_ending"]
                ended = {"id": item["id"], "expected_revision": 2, "fence": held["fence"]}
                await client.call("workgraph/close", **ended)


async def test_a_wait_for_work_reserves_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client, AsyncExitStack() as stack:
        waiters = [await stack.enter_async_context(daemon.client()) for _ in range(3)]
        begun = [waiter.start("daemon/wait", filter=READY, timeout_ms=PATIENT_MS) for waiter in waiters]
        await until_waiting(client, 3)
        item = await create(client)
        with anyio.fail_after(PATIENCE_S):
            assert [result_of(await answer)["matched"] for answer in begun] == [["item_ready"]] * 3
        taken = [await one.call("workgraph/claim_next", owner=owner("a")) for one in waiters]
        assert [one.get("item", {}).get("id") for one in taken] == [item["id"], None, None]


async def test_what_became_ready_while_the_daemon_was_down_holds_at_once(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await create(client, not_before=await in_ms(client, HOUR_MS))
        await claim(client, await create(client, realm_id="r"), lease_seconds=3600, realm_id="r")
    sql(tmp_path / "state", f"UPDATE items SET not_before = not_before - {HOUR_MS}, gate_at = gate_at - {HOUR_MS}")
    sql(tmp_path / "state", f"UPDATE items SET lease_expires_at = lease_expires_at - {HOUR_MS}")
    async with served(tmp_path) as daemon, daemon.client() as client:
        assert await holds(client, READY) == ["item_ready"]
        assert await holds(client, ready(realm_id="r")) == ["item_ready"]
        assert await holds(client, ending(HOUR_MS, realm_id="r")) == []


UNCLEAR: Final[list[tuple[dict[str, Any], str, str]]] = [
    (ready(label=["x"]), "invalid_params", "/item_ready/label"),
    (ready(labels="x"), "invalid_params", "/item_ready/labels"),
    (ready(labels=[""]), "invalid_params", "/item_ready/labels/0"),
    (ready(labels=[str(n) for n in range(17)]), "too_large", "/item_ready/labels"),
    (ready(realm_id=""), "invalid_params", "/item_ready/realm_id"),
    (ready(namespace=1), "invalid_params", "/item_ready/namespace"),
    ({"item_ready": []}, "invalid_params", "/item_ready"),
    ({"lease_ending": {}}, "invalid_params", "/lease_ending/within_ms"),
    (ending(-1), "limit_out_of_range", "/lease_ending/within_ms"),
    ({"lease_ending": {"within_ms": "1"}}, "invalid_params", "/lease_ending/within_ms"),
    (ending(1, owner={"kind": "robot", "id": "a"}), "invalid_params", "/lease_ending/owner/kind"),
    (ending(1, owner={"kind": "agent"}), "invalid_params", "/lease_ending/owner/id"),
    (ending(1, owner="agent:a"), "invalid_params", "/lease_ending/owner"),
    (ending(1, item="x"), "invalid_params", "/lease_ending/item"),
]


async def test_a_condition_that_says_nothing_clear_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for wanted, code, path in UNCLEAR:
            refused = await client.refused("daemon/wait", filter=wanted)
            assert (refused.code, refused.data["path"]) == (code, f"/filter{path}"), wanted
