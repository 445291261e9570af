"""Things that come due, and waiting until time has done what it does to them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Final

from tests.harness import Client
from tests.ledger.common import feed, head, until_event

from .common import claim, create, in_ms, sql, target

HOUR_MS: Final = 3_600_000
TIMED: Final = ("item_released", "item_ready", "item_overdue", "attention_resumed")


async def paused(client: Client, name: str, until: str, **scope: Any) -> dict[str, Any]:
    """A goal of this target, paused until then; its binding."""
    made = (await client.call("workgraph/goal/create", title="t", target=target(name), **scope))["attention"]
    pause = {"binding_id": made["binding_id"], "expected_revision": 1, "until": until}
    binding: dict[str, Any] = (await client.call("workgraph/attention/pause", **pause, **scope))["attention"]
    return binding


async def swept(client: Client) -> None:
    """Until a pass has been made that began after this: its last chore has done what is due since now."""
    mark = await paused(client, f"mark {await head(client)}", "2001-01-01T00:00:00Z", realm_id="mark")
    await until_event(client, subjects=[mark["binding_id"]], types=["attention_resumed"])


def age(state_dir: Path, ms: int = HOUR_MS) -> None:
    """Let so much time pass for every lease, gate, deadline and pause."""
    for table, columns in (
        ("items", ("lease_expires_at", "not_before", "snoozed_until", "gate_at", "due_at", "overdue_at")),
        ("attention", ("paused_until",)),
    ):
        sql(state_dir, f"UPDATE {table} SET {', '.join(f'{name} = {name} - {ms}' for name in columns)}")
    sql(state_dir, f"UPDATE items SET due_order = due_order - {ms} WHERE due_at IS NOT NULL")


async def timed(client: Client) -> Counter[tuple[str, str, str | None]]:
    """How often each thing that time does was told: type, subject, cause. The marks of `swept` do not count."""
    events = [event for event in await feed(client, types=list(TIMED)) if event["realm_id"] != "mark"]
    by_time = [event for event in events if event["data"].get("cause") not in ("created", "released")]
    return Counter((event["type"], event["subject"], event["data"].get("cause")) for event in by_time)


class Due:
    """One thing of each kind that comes due at the same time, and what is to be told of them."""

    def __init__(self, lease: str, gate: str, due: str, pause: str) -> None:
        self.expected = Counter(
            {
                ("item_released", lease, "lease_expired"): 1,
                ("item_ready", lease, "lease_expired"): 1,
                ("item_ready", gate, "gate_opened"): 1,
                ("item_overdue", due, None): 1,
                ("attention_resumed", pause, "pause_elapsed"): 1,
            }
        )

    @classmethod
    async def make(cls, client: Client, ms: int, name: str = "a", **scope: Any) -> Due:
        """Such things, due in so many ms."""
        lease, gate, due = [await create(client, **scope) for _ in range(3)]
        at = await in_ms(client, ms)
        await claim(client, lease, name, lease_expires_at=at, **scope)
        patch = {"expected_revision": 1, **scope}
        await client.call("workgraph/update", id=gate["id"], not_before=at, **patch)
        await client.call("workgraph/update", id=due["id"], due_at=at, **patch)
        binding = await paused(client, name, at, **scope)
        return cls(lease["id"], gate["id"], due["id"], binding["binding_id"])


async def until_told(client: Client, *things: Due) -> None:
    """Until each was told, and a pass more: once, and nothing else."""
    expected: Counter[tuple[str, str, str | None]] = Counter()
    for due in things:
        expected += due.expected
    for type_, subject, _ in expected:
        await until_event(client, subjects=[subject], types=[type_])
    await swept(client)
    assert await timed(client) == expected
