"""After every step of a random script, what is maintained equals what the edges say (contract workgraph 4)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import Client, Refused, served
from tests.ledger.common import feed, head

from .common import at, create, elapse, owner, ready_ids, stop_sweeper

SEEDS: Final = range(3)
STEPS: Final = 90
ITEMS: Final = 9
ENDED: Final = ("completed", "cancelled", "failed")
JOINS: Final = ("require_success", "propagate", "accept")
FAR: Final = "2999-01-01T00:00:00Z"
RANK: Final = {"high": 0, "medium": 1, "low": 2}

Item = dict[str, Any]


class Graph:
    """What a snapshot says, with everything that follows from it worked out again, slowly."""

    def __init__(self, snapshot: dict[str, Any], lapsed: set[str]) -> None:
        self.items: dict[str, Item] = {item["id"]: item for item in snapshot["items"]}
        self.edges: list[dict[str, Any]] = snapshot["edges"]
        self.ready_ids: list[str] = snapshot["ready_item_ids"]
        self.lapsed = frozenset(lapsed)

    def into(self, item_id: str, kind: str) -> list[tuple[str, str | None]]:
        """Status of the other end and `on_failure` of each edge of a kind into an item."""
        found = [edge for edge in self.edges if edge["to_id"] == item_id and edge["kind"] == kind]
        return [(self.items[edge["from_id"]]["status"], edge.get("on_failure")) for edge in found]

    def blockers(self, item_id: str) -> int:
        """How many hold it back."""
        return sum(
            status != "completed" and not (on_failure == "release" and status in ("cancelled", "failed"))
            for status, on_failure in self.into(item_id, "blocks")
        )

    def children(self, item_id: str) -> dict[str, int] | None:
        """How its children stand."""
        statuses = [status for status, _ in self.into(item_id, "parent")]
        counts = {name: statuses.count(name) for name in ("completed", "failed", "cancelled")}
        return {"active": len(statuses) - sum(counts.values()), **counts} if statuses else None

    def join(self, item: Item) -> str:
        """What they say of their parent: the first line that applies."""
        counts = self.children(item["id"]) or Counter()
        failed, cancelled = item["failed_child_join_policy"], item["cancelled_child_join_policy"]
        lines = [
            (counts["active"] > 0, "waiting"),
            (counts["failed"] > 0 and failed == "propagate", "propagate_failure"),
            (counts["cancelled"] > 0 and cancelled == "propagate", "propagate_cancellation"),
            (counts["failed"] > 0 and failed == "require_success", "waiting"),
            (counts["cancelled"] > 0 and cancelled == "require_success", "waiting"),
        ]
        return next((state for holds, state in lines if holds), "satisfied")

    def is_ready(self, item: Item) -> bool:
        """Whether it may be begun."""
        free = item["status"] == "open" or (item["status"] == "in_progress" and item["id"] in self.lapsed)
        gated = FAR[:4] in (item.get("not_before", "")[:4], item.get("snoozed_until", "")[:4])
        return free and not gated and self.blockers(item["id"]) == 0 and self.join(item) == "satisfied"

    def ready(self) -> list[str]:
        """What may be begun, in its order."""
        found = [item for item in self.items.values() if self.is_ready(item)]
        found.sort(key=lambda one: (RANK[one["priority"]], one.get("due_at", "9999"), one["created_at"], one["id"]))
        return [item["id"] for item in found]

    def noticed(self) -> set[str]:
        """What is ready as far as the feed says: only a transition, or the sweep, tells that a lease has elapsed."""
        return {item_id for item_id in self.ready() if self.items[item_id]["status"] == "open"}

    def leads(self, start: str, goal: str) -> bool:
        """Whether the edges that order lead from one item to another."""
        reached, todo = {start}, [start]
        while todo:
            here = todo.pop()
            following = {edge["to_id"] for edge in self.ordering() if edge["from_id"] == here} - reached
            reached |= following
            todo += following
        return goal in reached

    def ordering(self) -> list[dict[str, Any]]:
        """The edges that must not go in circles."""
        return [edge for edge in self.edges if edge["kind"] in ("blocks", "parent")]

    def find(self, kind: str, source: str, to: str) -> dict[str, Any] | None:
        """An edge."""
        named = (kind, source, to)
        return next((edge for edge in self.edges if (edge["kind"], edge["from_id"], edge["to_id"]) == named), None)

    def check(self) -> None:
        """Whether everything that is maintained is right."""
        for item in self.items.values():
            kept = (item["unresolved_blockers"], item.get("children"), item["join_state"])
            assert kept == (self.blockers(item["id"]), self.children(item["id"]), self.join(item)), item
        assert sorted(self.ready_ids) == sorted(self.ready())


class Script:
    """A random sequence of calls, some of which must be refused."""

    def __init__(self, client: Client, state_dir: Path, seed: int) -> None:
        self.client = client
        self.state_dir = state_dir
        self.random = random.Random(seed)
        self.lapsed: set[str] = set()
        self.refusals: Counter[str] = Counter()
        self.passages = 0

    async def graph(self) -> Graph:
        """The graph as it is now."""
        return Graph(await self.client.call("workgraph/snapshot", include_terminal=True, limit=500), self.lapsed)

    async def run(self) -> None:
        """Every step, checked."""
        for _ in range(ITEMS // 2):
            await self.create(await self.graph())
        for _ in range(STEPS):
            before, mark = await self.graph(), await head(self.client)
            step = self.random.choice(self.steps)
            await step(self, before)
            after = await self.graph()
            after.check()
            assert await ready_ids(self.client) == after.ready(), step.__name__
            await self.check_labels(after)
            told = Counter(event["subject"] for event in await feed(self.client, mark, types=["item_ready"]))
            passed = after.noticed() - before.noticed()
            assert told == Counter(passed), step.__name__
            self.passages += len(passed)

    async def check_labels(self, graph: Graph) -> None:
        """Whether the rows of a label say what the items say."""
        carry = {item_id for item_id, item in graph.items.items() if "b" in item.get("labels", [])}
        listed = await self.client.call("workgraph/list", labels=["b"], include_terminal=True)
        assert [item["id"] for item in listed["items"]] == [one for one in graph.items if one in carry]
        assert await ready_ids(self.client, labels=["b"]) == [one for one in graph.ready() if one in carry]

    def one(self, graph: Graph, *statuses: str) -> Item | None:
        """Some item, of these statuses where any are given."""
        found = [item for item in graph.items.values() if not statuses or item["status"] in statuses]
        return self.random.choice(found) if found else None

    async def create(self, graph: Graph) -> None:
        """A new item."""
        if sum(item["status"] not in ENDED for item in graph.items.values()) < ITEMS:
            choose = self.random.choice
            given: dict[str, Any] = {
                **choose([{}, {"due_at": FAR}, {"due_at": "2998-01-01T00:00:00Z"}, {"not_before": FAR}]),
                "priority": choose(list(RANK)),
                "status": choose(["open", "open", "blocked"]),
                "failed_child_join_policy": choose(JOINS),
                "cancelled_child_join_policy": choose(JOINS),
                "labels": choose([[], ["a"], ["a", "b"]]),
            }
            await create(self.client, **given)

    async def link(self, graph: Graph) -> None:
        """A new edge, or another `on_failure`; refused where it is one already, or closes a circle."""
        among = self.random.choice([(), ("open", "in_progress", "blocked")])
        source, to = self.one(graph, *among), self.one(graph, *among)
        if source is None or to is None:
            return
        kind = self.random.choice(["blocks", "blocks", "parent", "parent", "related"])
        on_failure = self.random.choice(["block", "release"]) if kind == "blocks" else None
        call = {"kind": kind, "from_id": source["id"], "to_id": to["id"], "on_failure": on_failure}
        answer = await self.client.start("workgraph/link", **{name: one for name, one in call.items() if one})
        found = graph.find(kind, source["id"], to["id"])
        expected = None
        if source is to:
            expected = "self_edge"
        elif found is not None:
            expected = "duplicate" if found.get("on_failure") == on_failure else None
        elif kind != "related" and graph.leads(to["id"], source["id"]):
            expected = "cycle"
        self.expect(answer, expected)
        if expected == "cycle":
            way = answer["error"]["data"]["cycle"]
            assert (way[0], way[-1]) == (to["id"], source["id"])
            steps = {(edge["from_id"], edge["to_id"]) for edge in graph.ordering()}
            assert set(pairwise(way)) <= steps

    def expect(self, answer: dict[str, Any], refusal: str | None) -> None:
        """Whether a call was refused as it must be."""
        said = None
        if "error" in answer:
            refused = Refused(answer["error"])
            said = refused.data.get("reason", refused.code)
            self.refusals[said] += 1
        assert said == refusal, answer

    async def unlink(self, graph: Graph) -> None:
        """One edge less."""
        if graph.edges:
            edge = self.random.choice(graph.edges)
            ends = {name: edge[name] for name in ("kind", "from_id", "to_id")}
            assert (await self.client.call("workgraph/unlink", **ends))["edge"] == edge

    async def change(self, graph: Graph) -> None:
        """Another urgency, gate, join or labels."""
        item = self.one(graph, "open", "blocked", "in_progress")
        if item is not None:
            choose = self.random.choice
            patches: list[dict[str, Any]] = [
                {"priority": choose(list(RANK))},
                {"due_at": choose([None, FAR])},
                {"not_before": choose([None, FAR, "2001-01-01T00:00:00Z"])},
                {"snoozed_until": choose([None, FAR])},
                {"failed_child_join_policy": choose(JOINS)},
                {"cancelled_child_join_policy": choose(JOINS)},
                {"labels": choose([None, ["a"], ["b"]])},
            ]
            patch = {**choose(patches), **choose(patches)}
            answer = await self.client.call("workgraph/update", **at(item), **patch, reason="r")
            self.recorded(item, answer["item"])

    def recorded(self, before: Item, after: Item) -> None:
        """An elapsed lease is over once a transition has been made."""
        if after["revision"] > before["revision"]:
            self.lapsed.discard(before["id"])

    async def claim(self, graph: Graph) -> None:
        """Take any item, which settles it, or is refused where it is not ready."""
        item = self.one(graph, "open", "in_progress", "in_progress")
        if item is None:
            return
        answer = await self.client.start("workgraph/claim", **at(item), owner=owner("a"))
        live = item["status"] == "in_progress" and item["id"] not in self.lapsed
        if live:
            self.expect(answer, "already_claimed")
        elif item["join_state"].startswith("propagate"):
            ends = {"propagate_failure": "failed", "propagate_cancellation": "cancelled"}
            assert answer["result"]["settled"]["status"] == ends[item["join_state"]]
            self.lapsed.discard(item["id"])
        elif graph.is_ready(item):
            assert answer["result"]["item"]["status"] == "in_progress"
            self.lapsed.discard(item["id"])
        else:
            waits = "waiting_children" if item["join_state"] == "waiting" else "unresolved_blockers"
            self.expect(answer, waits if item["unresolved_blockers"] or item["join_state"] == "waiting" else "gated")

    async def claim_next(self, graph: Graph) -> None:
        """Take the first that is ready, or that settling makes ready."""
        labels = self.random.choice([[], [], ["a"], ["a", "b"]])
        result = await self.client.call("workgraph/claim_next", owner=owner("b"), labels=labels)
        decided = [
            item["id"]
            for item in sorted(graph.items.values(), key=lambda one: (one["created_at"], one["id"]))
            if item["join_state"].startswith("propagate")
            and (item["status"] == "open" or item["id"] in self.lapsed)
            and set(labels) <= set(item.get("labels", []))
        ]
        assert result.get("settled_ids", []) == decided
        self.lapsed -= set(decided)
        taken = [result["item"]["id"]] if "item" in result else []
        self.lapsed -= set(taken)
        if not decided:
            carry = [one for one in graph.ready() if set(labels) <= set(graph.items[one].get("labels", []))]
            assert taken == carry[:1]

    async def let_lapse(self, graph: Graph) -> None:
        """Let a lease end before anyone notices."""
        item = self.one(graph, "in_progress")
        if item is not None and item["id"] not in self.lapsed:
            elapse(self.state_dir, item["id"])
            self.lapsed.add(item["id"])

    async def finish(self, graph: Graph) -> None:
        """Release, block, unblock or close whatever there is."""
        item = self.one(graph, "open", "in_progress", "blocked")
        if item is None:
            return
        live = item["status"] == "in_progress" and item["id"] not in self.lapsed
        closed = {"status": self.random.choice(ENDED), "even_if_incomplete": True}
        calls: list[tuple[str, dict[str, Any]]] = [("block", {}), ("close", closed)]
        if live:
            calls += [("release", {})] * 3
        if item["status"] == "blocked":
            calls = [*[("unblock", dict[str, Any]())] * 3, ("close", closed)]
        method, params = self.random.choice(calls)
        reason = {} if method == "unblock" else {"reason": "r"}
        answer = await self.client.call(f"workgraph/{method}", **at(item), **params, **reason)
        self.recorded(item, answer["item"])

    steps: tuple[Callable[[Script, Graph], Awaitable[None]], ...] = (
        *(create, create, create, link, link, link, link, unlink, unlink, change, change),
        *(claim, claim, claim_next, let_lapse, finish, finish),
    )


@pytest.mark.parametrize("seed", SEEDS)
async def test_what_is_maintained_equals_what_the_edges_say(tmp_path: Path, seed: int) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        script = Script(client, daemon.state_dir, seed)
        await script.run()
        assert script.passages > 2, "too little happened"
