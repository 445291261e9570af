"""What time does to work: leases, gates, deadlines and pauses become events, each once (contract workgraph 2, 3, 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from interlock.daemon import chores
from interlock.lifecycle.times import parse_rfc3339
from tests.e2e.support import until
from tests.harness import Client, Spawned, served, spawned
from tests.ledger.common import feed, head, now_of, until_event, until_past

from .common import claim, create, get, in_ms, owner, ready_ids, sql, target, told
from .due import HOUR_MS, TIMED, Due, age, paused, swept, timed, until_told


async def test_a_lease_a_gate_a_deadline_and_a_pause_are_told_when_they_come(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        lease = await claim(client, await create(client), lease_seconds=1)
        at = await in_ms(client, 1500)
        gate, due = await create(client, snoozed_until=at), await create(client, due_at=at)
        binding = await paused(client, "a", at)
        ends_at = lease["item"]["claim"]["lease_expires_at"]

        released = await until_event(client, subjects=[lease["item"]["id"]], types=["item_released"])
        holder = {"owner": owner("a"), "fence": 1, "lease_expires_at": ends_at}
        assert released["data"] == {"revision": 3, "cause": "lease_expired", **holder}
        assert released["at"] >= ends_at
        assert "role" not in released
        assert released["data"]["revision"] == (await get(client, released["subject"]))["revision"]

        ready = await until_event(client, subjects=[gate["id"]], types=["item_ready"])
        assert (ready["data"], ready["at"] >= at) == ({"revision": 1, "cause": "gate_opened"}, True)
        overdue = await until_event(client, subjects=[due["id"]], types=["item_overdue"])
        assert (overdue["data"], overdue["at"] >= at) == ({"revision": 1, "due_at": at}, True)
        resumed = await until_event(client, subjects=[binding["binding_id"]], types=["attention_resumed"])
        assert (resumed["data"], resumed["at"] >= at) == ({"revision": 3, "cause": "pause_elapsed"}, True)

        item = await get(client, released["subject"])
        assert (item["status"], "claim" in item, "owner" in item) == ("open", False, False)
        assert item["updated_at"] == released["at"]
        assert [(await get(client, one["id"]))["revision"] for one in (gate, due)] == [1, 1]
        again = (await client.call("workgraph/attention/get", binding_id=binding["binding_id"]))["attention"]
        assert (again["status"], again["revision"], again["updated_at"]) == ({"state": "active"}, 3, resumed["at"])


async def test_what_became_due_while_nobody_ran_is_told_at_the_next_start_and_only_then(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        scopes = [{}, {"namespace": "n"}, {"realm_id": "r"}]
        things = [await Due.make(client, HOUR_MS, **scope) for scope in scopes]
        later = await Due.make(client, 3 * HOUR_MS, "b")
    age(tmp_path / "state")
    for _ in range(2):
        async with served(tmp_path) as daemon, daemon.client() as client:
            await until_told(client, *things)
    age(tmp_path / "state", 2 * HOUR_MS)
    async with served(tmp_path) as daemon, daemon.client() as client:
        await until_told(client, *things, later)


@asynccontextmanager
async def process(tmp_path: Path) -> AsyncIterator[tuple[Spawned, Client]]:
    """A stdio process on the state directory, ready."""
    async with spawned(tmp_path, stdio=True, socket=None) as daemon:
        client = daemon.stdio()
        await client.call("daemon/status")
        yield daemon, client


async def leader_of(processes: list[tuple[Spawned, Client]]) -> int:
    """Which of these processes leads, once one does."""

    async def look() -> list[int]:
        return [n for n, (_, client) in enumerate(processes) if (await client.call("daemon/status"))["leader"]]

    found: list[int] = await until(look)
    return found[0]


async def test_each_is_told_once_whoever_leads_when_it_comes(tmp_path: Path) -> None:
    """Leaders are killed while things come due, which each of the processes has made."""
    async with AsyncExitStack() as stack:
        processes = [await stack.enter_async_context(process(tmp_path)) for _ in range(3)]
        things: list[Due] = []
        while True:
            leader = await leader_of(processes)
            for ms in (500, 900):
                for _, client in processes:
                    things.append(await Due.make(client, ms, realm_id=f"r{len(things)}"))
            if len(processes) == 1:
                await until_told(processes[0][1], *things)
                return
            first = next(
                subject for type_, subject, _ in things[-len(processes) * 2].expected if type_ == "item_released"
            )
            await until_event(processes[leader][1], subjects=[first], types=["item_released"])
            processes.pop(leader)[0].process.kill()


async def batch(client: Client, verb: str, each: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One method of items, often."""
    steps = [{"method": f"workgraph/{verb}", "params": params} for params in each]
    results: list[dict[str, Any]] = (await client.call("daemon/batch", steps=steps))["results"]
    return results


async def test_a_thousand_rows_that_are_due_at_once_are_told_once_each(tmp_path: Path) -> None:
    """A due time in common, so that pages break between rows that are alike."""
    async with served(tmp_path, durability="normal") as daemon, daemon.client() as client:
        at = await in_ms(client, HOUR_MS)
        for n in range(0, 1000, 50):
            new: dict[str, Any] = {"title": "t", "labels": [f"l{n}"]} | ({"due_at": at} if n < 500 else {})
            made = await batch(client, "create", [new] * 50)
            of = [{"id": one["item"]["id"], "expected_revision": 1} for one in made]
            if n % 100:
                await batch(client, "claim", [{**one, "owner": owner("a"), "lease_expires_at": at} for one in of])
            else:
                await batch(client, "update", [{**one, "not_before": at} for one in of])
        assert await ready_ids(client) == []
        before = await head(client)
    age(tmp_path / "state")
    async with served(tmp_path) as daemon, daemon.client() as client:
        await swept(client)
        events = [one for one in await feed(client, before, types=list(TIMED)) if one["realm_id"] == "default"]
        seen = Counter((event["type"], event["subject"]) for event in events)
        assert set(seen.values()) == {1}
        count = Counter((event["type"], event["data"].get("cause")) for event in events)
        assert count == {
            ("item_released", "lease_expired"): 500,
            ("item_ready", "lease_expired"): 500,
            ("item_ready", "gate_opened"): 500,
            ("item_overdue", None): 500,
        }
        first = await client.call("workgraph/ready", limit=500)
        second = await client.call("workgraph/ready", limit=500, cursor=first["next_cursor"])
        assert len({item["id"] for item in (*first["items"], *second["items"])}) == 1000
        assert len(await ready_ids(client, labels=["l50"])) == 50
        assert (await client.call("ledger/fault/list"))["faults"] == []


BAD: Final = {
    "a lease of nobody": ("lease", "UPDATE items SET owner_kind = NULL WHERE n = ?"),
    "a lease of an open item": ("lease", "UPDATE items SET status = 'open' WHERE n = ?"),
    "a revision that is no number": ("lease", "UPDATE items SET revision = 'x' WHERE n = ?"),
    "a gate that is no time": ("gate", "UPDATE items SET not_before = 'soon' WHERE n = ?"),
    "a gate of two opinions": ("gate", "UPDATE items SET not_before = not_before * 2 WHERE n = ?"),
    "a deadline that is no time": ("due", "UPDATE items SET due_at = 'soon' WHERE n = ?"),
    "a deadline before all time": ("due", f"UPDATE items SET due_at = -{10**17} WHERE n = ?"),
}


async def test_a_row_that_cannot_be_handled_becomes_a_fault_and_the_pass_goes_on(tmp_path: Path) -> None:
    async with served(tmp_path, durability="normal") as daemon, daemon.client() as client:
        good = [await Due.make(client, HOUR_MS, f"{n}") for n in range(5)]
        bad = {}
        for name, (what, _) in BAD.items():
            item = await create(client)
            at = await in_ms(client, HOUR_MS - 1000)
            if what == "lease":
                await claim(client, item, lease_expires_at=at)
            else:
                patch = {"due_at" if what == "due" else "not_before": at}
                await client.call("workgraph/update", id=item["id"], expected_revision=1, **patch)
            bad[name] = item["id"]
        binding = (await paused(client, "bad", await in_ms(client, HOUR_MS - 1000)))["binding_id"]
        good.append(await Due.make(client, HOUR_MS, "last"))
    age(tmp_path / "state")
    for name, item_id in bad.items():
        spoil = BAD[name][1].replace("n = ?", "id = ?")
        assert sql(tmp_path / "state", spoil, item_id) == 1
    assert sql(tmp_path / "state", "UPDATE attention SET revision = 'x' WHERE binding_id = ?", binding) == 1
    for _ in range(2):
        async with served(tmp_path) as daemon, daemon.client() as client:
            await until_told(client, *good)
            faults = (await client.call("ledger/fault/list", kind="bad_row"))["faults"]
            assert Counter(fault["subject"] for fault in faults) == Counter([*bad.values(), binding])
            assert {fault["state"] for fault in faults} == {"open"}
            assert await daemon.app.services.database.read(chores.next_due) is None  # nothing is tried for ever


async def test_labels_and_a_policy_that_cannot_be_read_keep_no_lease_from_its_end(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        items = [await create(client, labels=["x"]) for _ in range(3)]
        for item in items:
            await claim(client, item, lease_seconds=3600)
    age(tmp_path / "state")
    sql(tmp_path / "state", "UPDATE items SET labels = '[' WHERE id = ?", items[0]["id"])
    sql(tmp_path / "state", "UPDATE items SET policy = '{' WHERE id = ?", items[1]["id"])
    async with served(tmp_path) as daemon, daemon.client() as client:
        await swept(client)
        assert (await get(client, items[2]["id"]))["status"] == "open"
        ended = {event["subject"] for event in await feed(client, types=["item_released"])}
        assert ended == {item["id"] for item in items}


async def test_a_renewed_lease_ends_at_its_new_time_longer_or_shorter(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        longer = await claim(client, await create(client), lease_seconds=2)
        await client.call("workgraph/renew", id=longer["item"]["id"], fence=1, lease_seconds=60)
        never = await claim(client, await create(client), lease_seconds=2)
        await client.call("workgraph/renew", id=never["item"]["id"], fence=1, lease_seconds=0)
        shorter = await claim(client, await create(client), lease_seconds=3600)
        await client.call("workgraph/renew", id=shorter["item"]["id"], fence=1, lease_seconds=1)
        await until_event(client, subjects=[shorter["item"]["id"]], types=["item_released"])
        assert [(await get(client, one["item"]["id"]))["status"] for one in (longer, never)] == ["in_progress"] * 2
        late = await client.refused("workgraph/renew", id=shorter["item"]["id"], fence=1)
        assert (late.code, late.data["current_revision"]) == ("stale_lease", 3)


async def test_an_elapsed_lease_makes_ready_only_what_nothing_else_holds_back(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        blocker, blocked, gated, plain = [await create(client) for _ in range(4)]
        for item in (blocked, gated, plain):
            await claim(client, item, lease_seconds=60)
        await client.call("workgraph/link", kind="blocks", from_id=blocker["id"], to_id=blocked["id"])
        gate = {"snoozed_until": await in_ms(client, HOUR_MS), "expected_revision": 2, "fence": 1}
        await client.call("workgraph/update", id=gated["id"], **gate)
        sql(daemon.state_dir, "UPDATE items SET lease_expires_at = claimed_at WHERE claimed_at IS NOT NULL")
        for item in (blocked, gated, plain):
            await swept(client)
            assert (await get(client, item["id"]))["status"] == "open"
        assert await ready_ids(client) == [blocker["id"], plain["id"]]
        causes = [
            [event["data"]["cause"] for event in await told(client, item["id"], "item_ready")]
            for item in (blocked, gated)
        ]
        assert causes == [["created"], ["created"]]
        await client.call("workgraph/close", id=blocker["id"], expected_revision=1)
        assert (await told(client, blocked["id"], "item_ready"))[-1]["data"]["cause"] == "blocker_closed"


async def test_the_later_gate_decides_and_an_item_that_is_held_back_is_not_told(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        soon, later = await in_ms(client, 300), await in_ms(client, 1000)
        both = await create(client, not_before=later, snoozed_until=soon)
        far = await create(client, not_before=soon, snoozed_until=await in_ms(client, HOUR_MS))
        blocked = await create(client, not_before=soon, status="blocked")
        await until_event(client, subjects=[both["id"]], types=["item_ready"])
        assert await now_of(client) >= parse_rfc3339(later)
        assert await told(client, far["id"], "item_ready") == await told(client, blocked["id"], "item_ready") == []
        await client.call("workgraph/unblock", id=blocked["id"], expected_revision=1)
        assert [event["data"]["cause"] for event in await told(client, blocked["id"], "item_ready")] == ["unblocked"]
        assert set(await ready_ids(client)) == {both["id"], blocked["id"]}


async def overdues(client: Client, item: dict[str, Any]) -> list[str]:
    """The deadlines that were told to have passed."""
    await swept(client)
    return [event["data"]["due_at"] for event in await told(client, item["id"], "item_overdue")]


async def test_a_passed_deadline_is_told_once_for_each_value_it_had_and_never_of_what_has_ended(tmp_path: Path) -> None:
    first, second = "2001-01-01T00:00:00.000Z", "2002-01-01T00:00:00.000Z"
    async with served(tmp_path) as daemon, daemon.client() as client:
        item, ended, blocked = [await create(client, due_at=await in_ms(client, HOUR_MS)) for _ in range(3)]
        assert await overdues(client, item) == []

        async def update(**patch: Any) -> None:
            await client.call(
                "workgraph/update", id=item["id"], **patch, expected_revision=(await revised())["revision"]
            )

        async def revised() -> dict[str, Any]:
            return await get(client, item["id"])

        await update(due_at=first)
        assert await overdues(client, item) == [first]
        assert (await revised())["overdue"] is True
        await update(title="new")
        await update(due_at=first, title="newer")
        assert await overdues(client, item) == [first]
        await update(due_at=second)
        assert await overdues(client, item) == [first, second]
        held = await claim(client, await revised(), lease_seconds=60)
        await client.call("workgraph/release", id=item["id"], fence=held["fence"])
        await update(due_at=None)
        assert await overdues(client, item) == [first, second]
        await client.call("workgraph/block", id=blocked["id"], expected_revision=1)
        await client.call("workgraph/close", id=ended["id"], expected_revision=1)
    age(tmp_path / "state", 2 * HOUR_MS)
    async with served(tmp_path) as daemon, daemon.client() as client:
        assert len(await overdues(client, blocked)) == 1
        assert await overdues(client, ended) == []
        assert "overdue" not in await get(client, ended["id"])
        assert (await get(client, blocked["id"]))["overdue"] is True


async def test_a_pause_ends_at_its_last_deadline_and_not_where_it_has_none_or_is_over_already(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        soon = await in_ms(client, HOUR_MS)
        bindings = {name: await paused(client, name, soon) for name in ("later", "never", "resumed", "stopped")}

        async def move(name: str, verb: str, **more: Any) -> None:
            params = {"binding_id": bindings[name]["binding_id"], "expected_revision": 2, **more}
            await client.call(f"workgraph/attention/{verb}", **params)

        await move("later", "pause", until=await in_ms(client, 3 * HOUR_MS))
        await move("never", "pause")
        await move("resumed", "resume")
        await move("stopped", "stop")
        age(daemon.state_dir)
        for passed in (0, 2 * HOUR_MS):
            age(daemon.state_dir, passed)
            await swept(client)
            found = {
                name: (await client.call("workgraph/attention/get", binding_id=one["binding_id"]))["attention"]
                for name, one in bindings.items()
            }
            states = {name: one["status"]["state"] for name, one in found.items()}
            later = "active" if passed else "paused"
            assert states == {"later": later, "never": "paused", "resumed": "active", "stopped": "stopped"}
        assert await timed(client) == {
            ("attention_resumed", bindings["resumed"]["binding_id"], "resumed"): 1,
            ("attention_resumed", bindings["later"]["binding_id"], "pause_elapsed"): 1,
        }


async def test_every_new_due_time_wakes_a_sweeper_that_has_long_to_wait(tmp_path: Path) -> None:
    """It would look by itself only in half a minute, longer than these waits are patient."""
    async with served(tmp_path) as daemon, daemon.client() as client:
        far = await in_ms(client, HOUR_MS)
        held, gated, due = [await create(client) for _ in range(3)]
        await claim(client, held, lease_seconds=3600)
        for item, patch in ((gated, {"not_before": far}), (due, {"due_at": far})):
            await client.call("workgraph/update", id=item["id"], expected_revision=1, **patch)
        binding = await paused(client, "a", far)
        pause = {"binding_id": binding["binding_id"], "expected_revision": 2}
        free = await create(client)
        for verb, params, name in (
            ("renew", {"id": held["id"], "fence": 1}, "lease_expires_at"),
            ("claim", {"id": free["id"], "expected_revision": 1, "owner": owner("b")}, "lease_expires_at"),
            ("update", {"id": gated["id"], "expected_revision": 2}, "not_before"),
            ("update", {"id": due["id"], "expected_revision": 2}, "due_at"),
            ("create", {"title": "t"}, "snoozed_until"),
            ("create", {"title": "t"}, "due_at"),
            ("attention/pause", pause, "until"),
            ("goal/create", {"title": "t", "target": target("g")}, "due_at"),
        ):
            await until_past(client, await in_ms(client, 500))  # by now it waits, and no pass is left to come
            start = await head(client)
            await client.call(f"workgraph/{verb}", **params, **{name: await in_ms(client, 100)})
            event = await until_event(client, start, types=list(TIMED))
            if event["data"].get("cause") == "created":  # of a goal, which is ready besides
                await until_event(client, event["seq"], types=list(TIMED))


async def test_the_due_time_of_what_another_process_writes_is_noticed(tmp_path: Path) -> None:
    """The leader has nothing to do, and hears of the lease only through the store."""
    async with served(tmp_path) as daemon, daemon.client() as client:
        await swept(client)
        async with process(tmp_path) as (_, other):
            held = await claim(other, await create(other), lease_seconds=1)
            assert not (await other.call("daemon/status"))["leader"]
        await until_event(client, subjects=[held["item"]["id"]], types=["item_released"])
