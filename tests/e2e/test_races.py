"""Races over the work graph between processes: each item is won once, each target has one occupant (field C64, C65)."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
import pytest

from interlock.stores.health import STORE
from interlock.stores.workgraph.bindings import Binding
from tests.harness import PATIENCE_S, Client, result_of, spawned
from tests.ledger.common import feed, head
from tests.workgraph.common import create, get, owner, ready_ids, sql
from tests.workgraph.seats import CURRENT, EARLIER, KEY, REALM, SPELLINGS, bound, do, of_session, register, session

ITEMS: Final = 1000
RACERS: Final = 32
ROUNDS: Final = int(os.environ.get("INTERLOCK_RACE_ROUNDS", "150"))
"""Rounds of the race for one target. The promise is 500, which a full run asks for."""
PRIORITIES: Final = ("high", "low", "medium")


@asynccontextmanager
async def processes(tmp_path: Path, count: int, *, sockets: int = 1) -> AsyncIterator[list[Client]]:
    """A client of each of so many processes on one state directory, and more on the socket of the first."""
    async with AsyncExitStack() as stack:
        quick = ("--durability", "normal")
        first = await stack.enter_async_context(spawned(tmp_path, *quick))
        clients = [await first.client() for _ in range(sockets)]
        for client in clients:
            stack.push_async_callback(client.close)
        for _ in range(count - 1):
            other = await stack.enter_async_context(spawned(tmp_path, *quick, stdio=True, socket=None))
            clients.append(other.stdio())
        for client in clients:
            await client.call("daemon/ping")
        yield clients


class Win(NamedTuple):
    """An item that a racer was given."""

    item_id: str
    racer: str
    fence: int


def check_each_won_once(items: Sequence[str], wins: Sequence[Win]) -> None:
    """Every item was won, by one racer alone. Raises AssertionError."""
    won = Counter(win.item_id for win in wins)
    assert set(won) == set(items), "some item was won by nobody, or something else was"
    assert set(won.values()) == {1}, f"won more than once: {[item for item, count in won.items() if count > 1]}"


async def filled(client: Client) -> list[str]:
    """Many items of several priorities and deadlines; their ids, as `ready` orders them."""
    for n in range(0, ITEMS, 50):
        more: dict[str, Any] = {} if n % 100 else {"due_at": f"2030-01-01T00:00:00.{n:03}Z"}
        step = {"method": "workgraph/create", "params": {"title": "t", "priority": PRIORITIES[n // 50 % 3], **more}}
        await client.call("daemon/batch", steps=[step] * 50)
    ids: list[str] = []
    page: dict[str, Any] = {"has_more": True}
    while page["has_more"]:
        after = {"cursor": page["next_cursor"]} if ids else {}
        page = await client.call("workgraph/ready", limit=500, **after)
        ids += [item["id"] for item in page["items"]]
    return ids


class Racer:
    """Claims until it is told that there is nothing."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name
        self.wins: list[Win] = []
        self.nothing_at = 0

    async def run(self) -> None:
        while True:
            taken = await self.client.call("workgraph/claim_next", owner=owner(self.name))
            if "item" not in taken:
                self.nothing_at = taken["as_of_seq"]
                return
            assert taken["item"]["claim"]["fence"] == taken["fence"]
            assert taken["item"]["owner"] == owner(self.name)
            self.wins.append(Win(taken["item"]["id"], self.name, taken["fence"]))


async def test_32_racers_over_1000_items_win_each_once_and_none_is_sent_away_too_early(tmp_path: Path) -> None:
    async with processes(tmp_path, 4, sockets=8) as clients:
        for names in ([f"racer {n}" for n in range(RACERS)], ["the same"] * RACERS):
            items = await filled(clients[0])
            assert len(items) == ITEMS
            start = await head(clients[0])
            racers = [Racer(clients[n % len(clients)], name) for n, name in enumerate(names)]
            async with asyncio.timeout(3 * PATIENCE_S), asyncio.TaskGroup() as group:
                for racer in racers:
                    group.create_task(racer.run())
            wins = [win for racer in racers for win in racer.wins]
            check_each_won_once(items, wins)
            assert {win.fence for win in wins} == {1}
            claimed = await feed(clients[0], start, types=["item_claimed"])
            assert [event["subject"] for event in claimed] == items  # the first of the order, every time
            assert {(event["subject"], event["data"]["owner"]["key"]["id"], 1) for event in claimed} == set(wins)
            last = claimed[-1]["seq"]
            assert all(racer.nothing_at >= last for racer in racers), "one got nothing while an item was ready"
            assert await ready_ids(clients[-1]) == []


class ReadThenWrite:
    """How not to claim: what was read decides, and the write asks nothing (field C65)."""

    FIRST: Final = "SELECT n, id, fence FROM items WHERE stage = 1 ORDER BY priority, due_order, created_at, id LIMIT 1"
    TAKE: Final = "UPDATE items SET status = 'in_progress', stage = 0, fence = ?, owner_kind = 'agent' WHERE n = ?"

    def __init__(self, store: sqlite3.Connection, name: str) -> None:
        self.store = store
        self.name = name
        self.found: tuple[int, str, int] = (0, "", 0)

    def look(self) -> None:
        self.found = self.store.execute(self.FIRST).fetchone()

    def take(self) -> Win:
        n, item_id, fence = self.found
        with self.store:
            self.store.execute(self.TAKE, (fence + 1, n))
        return Win(item_id, self.name, fence + 1)


async def test_the_check_fails_for_a_claim_that_reads_and_then_writes(tmp_path: Path) -> None:
    """The same store and the same check with the broken claim: eight racers, and every one of them wins."""
    async with processes(tmp_path, 1) as clients:
        item = await create(clients[0])
        with ExitStack() as stack:
            stores = [stack.enter_context(closing(sqlite3.connect(tmp_path / "state" / STORE))) for _ in range(8)]
            racers = [ReadThenWrite(store, f"racer {n}") for n, store in enumerate(stores)]
            for racer in racers:
                racer.look()
            wins = [racer.take() for racer in racers]
        assert len(wins) == 8
        with pytest.raises(AssertionError, match="won more than once"):
            check_each_won_once([item["id"]], wins)


async def test_of_many_that_claim_one_item_at_one_revision_exactly_one_succeeds(tmp_path: Path) -> None:
    async with processes(tmp_path, 4, sockets=4) as clients:
        for n in range(20):
            item = await create(clients[n % len(clients)])
            params = {"id": item["id"], "expected_revision": 1, "owner": owner("same" if n % 2 else f"{n}")}
            begun = [client.start("workgraph/claim", **params) for client in clients for _ in range(4)]
            answers = await all_of(begun)
            won = [answer["result"] for answer in answers if "result" in answer]
            assert len(won) == 1
            assert won[0]["fence"] == 1
            assert Counter(codes(answers)) == {"stale_revision": len(begun) - 1}
            again = await clients[0].refused("workgraph/claim", **{**params, "expected_revision": 2})
            assert (again.code, again.data["holder"]) == ("already_claimed", params["owner"])


async def test_of_different_changes_at_one_revision_exactly_one_succeeds(tmp_path: Path) -> None:
    async with processes(tmp_path, 4, sockets=4) as clients:
        for n in range(12):
            item = await create(clients[0])
            at = {"id": item["id"], "expected_revision": 1}
            verbs: list[tuple[str, dict[str, Any]]] = [
                ("claim", {"owner": owner("a")}),
                ("close", {"status": "cancelled"}),
                ("block", {}),
                ("update", {"title": "new"}),
                ("update", {"not_before": "2030-01-01T00:00:00Z"}),
                ("evidence/add", {"evidence": {"kind": "log", "id": "e"}}),
                ("close", {}),
            ]
            begun = [
                clients[(i + n) % len(clients)].start(f"workgraph/{verb}", **at, **more)
                for i, (verb, more) in enumerate(verbs)
            ]
            answers = await all_of(begun)
            assert Counter(codes(answers)) == {"stale_revision": len(verbs) - 1}
            assert (await get(clients[0], item["id"]))["revision"] == 2


async def test_one_operation_said_by_many_at_once_happens_once(tmp_path: Path) -> None:
    async with processes(tmp_path, 4, sockets=4) as clients:
        items = {(await create(clients[0]))["id"] for _ in range(10)}
        for n in range(10):
            params = {"owner": owner("a"), "op_id": f"op-{n}"}
            answers = await all_of([client.start("workgraph/claim_next", **params) for client in clients])
            taken = [result_of(answer) for answer in answers]
            assert len({one["item"]["id"] for one in taken}) == 1
            assert Counter(one.get("replayed", False) for one in taken) == {True: len(clients) - 1, False: 1}
        claimed = await feed(clients[0], types=["item_claimed"])
        assert {event["subject"] for event in claimed} == items
        assert len(claimed) == 10


async def test_edges_that_would_close_a_ring_together_never_do(tmp_path: Path) -> None:
    async with processes(tmp_path, 4, sockets=2) as clients:
        for n in range(15):
            ring = [(await create(clients[0]))["id"] for _ in range(3)]
            begun = []
            for i, kind in enumerate(("blocks", "parent", "blocks")):
                edge = {"kind": kind, "from_id": ring[i], "to_id": ring[(i + 1) % 3]}
                begun.append(clients[(n + 2 * i) % len(clients)].start("workgraph/link", **edge))
            answers = await all_of(begun)
            assert codes(answers) == ["invalid_transition"]
            counted = [await get(clients[0], item_id) for item_id in ring]
            blockers = sum(item["unresolved_blockers"] for item in counted)
            children = sum(item.get("children", {}).get("active", 0) for item in counted)
            assert blockers + children == 2


async def test_racers_and_the_sweeper_end_each_elapsed_lease_once_and_win_each_item_once(tmp_path: Path) -> None:
    """The leases end behind everybody's back, all at once, while the racers run and the leader sweeps."""
    async with processes(tmp_path, 4, sockets=4) as clients:
        items = (await filled(clients[0]))[:300]
        at = [{"id": item, "expected_revision": 1, "owner": owner("gone"), "lease_seconds": 3600} for item in items]
        for n in range(0, len(items), 50):
            steps = [{"method": "workgraph/claim", "params": params} for params in at[n : n + 50]]
            await clients[0].call("daemon/batch", steps=steps)
        racers = [Racer(clients[n % len(clients)], f"racer {n}") for n in range(RACERS)]
        elapse = "UPDATE items SET lease_expires_at = claimed_at WHERE owner_id = 'gone'"
        async with asyncio.timeout(3 * PATIENCE_S), asyncio.TaskGroup() as group:
            for racer in racers:
                group.create_task(racer.run())
            assert await asyncio.to_thread(sql, tmp_path / "state", elapse) == len(items)
        for racer in racers:  # some were told that there is nothing before there was
            await racer.run()
        wins = [win for racer in racers for win in racer.wins]
        assert Counter(win.fence for win in wins) == {2: len(items), 1: ITEMS - len(items)}
        check_each_won_once([win.item_id for win in wins if win.fence == 1] + items, wins)
        events = await feed(clients[0], types=["item_released"])
        assert Counter(event["subject"] for event in events) == dict.fromkeys(items, 1)
        assert {(event["data"]["fence"], event["data"]["cause"]) for event in events} == {(1, "lease_expired")}


async def test_racers_settle_each_parent_once_and_at_most_16_a_call(tmp_path: Path) -> None:
    async with processes(tmp_path, 3, sockets=3) as clients:
        parents = set()
        for n in range(40):
            word = ("failed", "cancelled")[n % 2]
            child = await create(clients[0])
            parent = await create(clients[0], **{f"{word}_child_join_policy": "propagate"})
            await clients[0].call("workgraph/link", kind="parent", from_id=child["id"], to_id=parent["id"])
            await clients[0].call("workgraph/close", id=child["id"], expected_revision=1, status=word)
            parents.add(parent["id"])
        answers = await all_of([client.start("workgraph/claim_next", owner=owner("a")) for client in clients * 2])
        settled = [result_of(answer).get("settled_ids", []) for answer in answers]
        assert not any("item" in answer["result"] for answer in answers)
        assert sorted(map(len, settled)) == [*([0] * (len(clients) * 2 - 3)), 8, 16, 16]
        assert {item for each in settled for item in each} == parents
        closed = await feed(clients[0], types=["item_closed"])
        by_join = Counter(event["subject"] for event in closed if event["data"]["cause"] == "child_join")
        assert by_join == dict.fromkeys(parents, 1)


async def all_of(begun: Sequence[asyncio.Future[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Every answer."""
    with anyio.fail_after(PATIENCE_S):
        return list(await asyncio.gather(*begun))


def codes(answers: Sequence[dict[str, Any]]) -> list[str]:
    """The codes of the refusals among them."""
    return [answer["error"]["data"]["code"] for answer in answers if "error" in answer]


async def test_of_8_processes_that_want_one_target_exactly_one_has_it_in_each_round(tmp_path: Path) -> None:
    """Every round all spell it otherwise; the winner ends its goal, and the next round begins."""
    async with processes(tmp_path, 8) as clients:
        await register(clients[0], EARLIER)
        await register(clients[1], CURRENT)
        spellings = list(SPELLINGS.values())
        winners: Counter[int] = Counter()
        with anyio.fail_after(PATIENCE_S + ROUNDS):
            for n in range(ROUNDS):
                begun = [
                    client.start(
                        "workgraph/goal/create",
                        **{"realm_id": REALM, "title": f"round {n}", "target": spellings[(n + i) % len(spellings)]},
                    )
                    for i, client in enumerate(clients)
                ]
                winner, made = won_by_one(await asyncio.gather(*begun))
                winners[winner] += 1
                end = {"binding_id": made["attention"]["binding_id"], "expected_revision": 1, "realm_id": REALM}
                ended = await clients[winner].call("workgraph/goal/request_close", **end)
                assert ended["attention"]["status"] == {"state": "stopped"}
        assert winners.total() == ROUNDS
        listed = await clients[0].call("workgraph/attention/list", realm_id=REALM, status="occupying")
        assert listed["attention"] == []
        items = await feed(clients[0], types=["item_created"])
        assert len(items) == ROUNDS  # who lost has left nothing behind


def won_by_one(answers: Sequence[dict[str, Any]]) -> tuple[int, dict[str, Any]]:
    """Who has the target, and what it was given; the others are told who that is."""
    won = [n for n, answer in enumerate(answers) if "result" in answer]
    assert len(won) == 1, answers
    made: dict[str, Any] = answers[won[0]]["result"]
    binding = made["attention"]
    assert binding["target_key"] == KEY
    for answer in answers:
        if "error" in answer:
            data = answer["error"]["data"]
            assert (data["code"], data["target_key"]) == ("occupied", KEY)
            assert data["occupant"]["binding_id"] == binding["binding_id"]
            assert data["occupant"]["item_id"] == made["item"]["id"]
    return won[0], made


class Storm:
    """Does at random what can be done with bindings; remembers with what codes it was refused."""

    TARGETS: Final = (
        *(of_session(session(n)) for n in range(3)),
        *({"kind": "identity", "identity": name} for name in ("a", "b")),
    )

    def __init__(self, client: Client, seed: int) -> None:
        self.client = client
        self.chance = random.Random(seed)
        self.refused: Counter[str] = Counter()

    async def run(self, deeds: int) -> None:
        for _ in range(deeds):
            method, params = await self.deed()
            answer = await self.client.start(f"workgraph/{method}", **params, realm_id=REALM)
            if "error" in answer:
                self.refused[answer["error"]["data"]["code"]] += 1

    async def deed(self) -> tuple[str, dict[str, Any]]:
        """A method and params that somebody else may outrun."""
        page = await self.client.call("workgraph/attention/list", status="occupying", realm_id=REALM)
        what = self.chance.choice(("create", "create", "register", "pause", "resume", "stop", "reassign", "close"))
        target = self.chance.choice(self.TARGETS)
        if what == "register":
            name, mine = self.chance.choice("ab"), session(self.chance.randrange(3))
            return "member/register", {"identity": name, "session_id": mine, "adopt": True}
        if what == "create" or not page["attention"]:
            return "goal/create", {"title": "t", "target": target, "mode": "coordinate"}
        binding = self.chance.choice(page["attention"])
        if what == "close":
            return "goal/request_close", {"binding_id": binding["binding_id"], "expected_revision": 1}
        at = {"binding_id": binding["binding_id"], "expected_revision": binding["revision"]}
        return f"attention/{what}", at | ({"target": target} if what == "reassign" else {})


def occupants(events: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Who has each target in the end, by the feed alone. Raises AssertionError where two had one at any time."""
    keys: dict[str, str] = {}
    for event in events:
        type_, binding, data = event["type"], event["subject"], event["data"]
        if type_ in ("attention_stopped", "attention_superseded"):
            del keys[binding]
        if type_ == "attention_rekeyed":
            assert keys[binding] == data["from_key"]
        if type_ in ("attention_created", "attention_rekeyed"):
            keys.pop(binding, None)
            key = data.get("target_key") or data["to_key"]
            assert key not in keys.values(), f"{key} has two occupants at {event['seq']}"
            keys[binding] = key
    return {key: binding for binding, key in keys.items()}


async def test_whatever_processes_do_at_once_no_target_ever_has_two_occupants(tmp_path: Path) -> None:
    async with processes(tmp_path, 4, sockets=3) as clients:
        storms = [Storm(client, seed) for seed, client in enumerate(clients)]
        async with asyncio.timeout(3 * PATIENCE_S), asyncio.TaskGroup() as group:
            for storm in storms:
                group.create_task(storm.run(60))
        refused = sum((storm.refused for storm in storms), Counter[str]())
        assert set(refused) <= {"occupied", "stale_revision", "invalid_transition"}, refused
        assert {"occupied", "stale_revision"} <= set(refused), "they were never in each other's way"
        has = occupants([one for one in await feed(clients[0]) if one["type"].startswith("attention_")])
        page = await clients[0].call("workgraph/attention/list", status="occupying", realm_id=REALM, limit=500)
        assert has == {binding["target_key"]: binding["binding_id"] for binding in page["attention"]}


@pytest.mark.parametrize("first", ["active", "paused"])
async def test_the_store_itself_refuses_a_second_occupant(tmp_path: Path, first: str) -> None:
    """Whoever writes to the file, and whether it is a new row, a moved one or one that comes back."""
    async with processes(tmp_path, 1) as clients:
        one, two = [await bound(clients[0], target) for target in (of_session(session(1)), of_session(session(2)))]
        ended = await do(clients[0], "stop", await bound(clients[0], of_session(session(3))))
        if first == "paused":
            one = await do(clients[0], "pause", one)
        columns = ", ".join(name for name in Binding._fields if name not in ("n", "binding_id", "status", "item_id"))
        copy = f"INSERT INTO attention(binding_id, status, {columns}) SELECT 'attention_x', ?, {columns} FROM attention"
        move = "UPDATE attention SET status = ?, target_key = ? WHERE binding_id = ?"
        for second in ("active", "paused"):
            for statement, params in (
                (f"{copy} WHERE binding_id = ?", (second, one["binding_id"])),
                (move, (second, one["target_key"], two["binding_id"])),
                (move, (second, one["target_key"], ended["binding_id"])),
            ):
                with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
                    sql(tmp_path / "state", statement, *params)
        assert sql(tmp_path / "state", f"{copy} WHERE binding_id = ?", "stopped", one["binding_id"]) == 1
