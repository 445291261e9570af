"""Folding the feed from 0 gives the table, after any script of concurrent clients (contract ledger 2.2)."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.daemon.settings import LedgerSettings
from tests.harness import Client, Served, served
from tests.ledger.common import feed

ROLES = ("red", "green", "blue")
FOLDED = ("state", "deliveries", "requeued", "session", "reason", "settled_by", "outcome", "kind", "op_id")
KINDS = ("task", "note", "completion", "control")
MOVES = ("ack", "reject", "requeue", "surfaced", "expire", "fail", "drop", "detach", "attach")

Script = list[tuple[int, str, str, int]]
scripts = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(("send", "send", "send", "pull", "pull", *MOVES)),
        st.sampled_from(ROLES),
        st.integers(0, 7),
    ),
    min_size=5,
    max_size=60,
)


def folded(events: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The last state of each message that the feed tells."""
    table: dict[str, dict[str, Any]] = {}
    for event in events:
        if event["type"] == "ledger_state":
            data = event["data"]
            table[data["msg_id"]] = {**data, "settled_by": data.get("by")}
    return table


async def everything(client: Client, method: str, items: str, **params: Any) -> list[dict[str, Any]]:
    """All pages of a list."""
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = await client.call(method, limit=7, **cursor, **params)
        found += page[items]
        if not page["has_more"]:
            return found
        cursor = {"cursor": page["next_cursor"]}


class Player:
    """Plays one client's part of a script; what is refused is part of the game."""

    def __init__(self, daemon: Served, sent: list[str]) -> None:
        self.daemon = daemon
        self.sent = sent
        self.stack = AsyncExitStack()
        self.client: Client

    async def connect(self) -> None:
        self.client = await self.stack.enter_async_context(self.daemon.client())

    async def play(self, move: str, role: str, n: int) -> None:
        if move == "drop":
            await self.stack.aclose()
            await self.connect()
            return
        answer = await self.client.start(*self.request(move, role, n)[:1], **self.request(move, role, n)[1])
        if move == "send" and "result" in answer:
            self.sent.append(answer["result"]["msg_id"])

    def request(self, move: str, role: str, n: int) -> tuple[str, dict[str, Any]]:
        if move == "send":
            return "ledger/send", self.message(role, n)
        if move == "pull":
            return "ledger/pull", {"role": role, "limit": n + 1, **({"session": f"s{n}"} if n % 3 == 0 else {})}
        if move in ("attach", "detach"):
            holds = {"holds": self.sent[-3:]} if move == "attach" and n % 2 else {}
            return f"ledger/{move}", {"role": role, **holds}
        reason = {"reason": f"r{n}"} if move not in ("surfaced",) and (n % 2 or move == "fail") else {}
        msg_id = self.sent[n % len(self.sent)] if self.sent else "nothing"
        return f"ledger/{move}", {"msg_id": msg_id, **reason}

    def message(self, role: str, n: int) -> dict[str, Any]:
        kind = KINDS[n % 4]
        about: dict[str, Any] = {"kind": kind, "to": f"{role}#s{n}" if n == 6 else role}
        if kind != "control":
            about["body"] = {"text": f"text {n}"}
        if kind == "note" and n > 3:
            about["ttl_ms"] = 1
        if kind == "completion":
            about |= {"causality": {"task": f"t{n % 2}"}, "outcome": "done"}
        if kind == "task":
            about["causality"] = {"task": f"t{n % 2}"}
        if kind == "control":
            about["control"] = {"op": "cancel", "task_id": "t0"}
        if n % 3 == 0:
            about["op_id"] = f"op-{role}-{n}"
        return about


async def run_script(script: Script) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings_ = LedgerSettings(requeue_max_attempts=2)
        async with served(Path(folder), roles=ROLES, ledger=settings_) as daemon, daemon.client() as operator:
            sent: list[str] = []
            players = [Player(daemon, sent) for _ in range(3)]
            for player in players:
                await player.connect()

            async def part(who: int) -> None:
                for player, move, role, n in script:
                    if player == who:
                        await players[who].play(move, role, n)

            await asyncio.gather(*(part(who) for who in range(3)))
            for player in players:
                await player.stack.aclose()
            while (await operator.call("daemon/status"))["connections"] > 1:  # noqa: ASYNC110 - nobody is told of a leave
                await asyncio.sleep(0)
            await agree(operator)


async def agree(operator: Client) -> None:
    """The fold and the table are equal, read in an order in which nothing between can go unnoticed."""
    while True:
        rows = await everything(operator, "ledger/query", "rows")
        events = await feed(operator)
        again = await everything(operator, "ledger/query", "rows")
        if rows == again:
            break
    table = folded(events)
    assert {row["msg_id"] for row in rows} == set(table)
    for row in rows:
        told = table[row["msg_id"]]
        assert {name: row.get(name) for name in FOLDED} == {name: told.get(name) for name in FOLDED}
    seqs = [event["seq"] for event in events]
    assert seqs == list(range(1, len(seqs) + 1))


@settings(max_examples=25, deadline=None)
@given(scripts)
def test_folding_the_feed_gives_the_table_after_any_script_of_concurrent_clients(script: Script) -> None:
    asyncio.run(run_script(script))
