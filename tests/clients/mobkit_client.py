"""Drives the daemon with MobKit's own SDK, run by the interpreter of tests/clients/.venv; prints what it saw as JSON.

Nothing of ours is imported here. The argument is the program to spawn as the gateway.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable
from dataclasses import asdict
from typing import Any

from meerkat_mobkit import MobKit  # type: ignore[import-not-found]
from meerkat_mobkit.errors import RpcError, WorkGraphConflictError  # type: ignore[import-not-found]

MOB = '[mob]\nid = "crew"\n\n[profiles.worker]\nmodel = "any"\n'
OWNER = {"kind": "agent", "id": "mob/crew/agent/ada", "display_name": "Ada"}


async def refusal(call: Awaitable[Any]) -> dict[str, Any]:
    """What a call that must fail fails with."""
    try:
        await call
    except RpcError as error:
        detail = getattr(error, "detail", None)
        conflict = isinstance(error, WorkGraphConflictError)
        return {"class": type(error).__name__, "number": error.code, "detail": detail, "conflict": conflict}
    raise AssertionError("it was not refused")


def seen(record: Any) -> Any:
    """An object of the SDK as plain values."""
    return asdict(record)


async def items(mob: Any) -> dict[str, Any]:
    """Create, look at, change, depend, claim, give back, prove, close."""
    first = await mob.workgraph_create("Dig", priority="high", labels=["garden"], description="deep")
    second = await mob.workgraph_create("Plant", due_at=None)
    edge = await mob.workgraph_link("blocks", first.id, second.id)
    ready = [item.id for item in (await mob.workgraph_ready()).items]
    claimed = await mob.workgraph_claim(first.id, first.revision, OWNER)
    taken = await refusal(mob.workgraph_claim(first.id, claimed.revision, {"kind": "label", "id": "other"}))
    released = await mob.workgraph_release(first.id, claimed.revision)
    again = await mob.workgraph_claim(first.id, released.revision, OWNER, lease_seconds=600)
    updated = await mob.workgraph_update(first.id, again.revision, title="Dig deep", description=None)
    stale = await refusal(mob.workgraph_update(first.id, again.revision, title="Dig deeper"))
    proved = await mob.workgraph_add_evidence(first.id, updated.revision, {"kind": "photo", "id": "p1"})
    closed = await mob.workgraph_close(first.id, proved.revision)
    blocked = await mob.workgraph_block(second.id, (await mob.workgraph_get(second.id)).revision)
    given_up = await mob.workgraph_close(second.id, blocked.revision, status="cancelled")
    listed = (await mob.workgraph_list(include_terminal=True)).items
    return {
        "edge": seen(edge),
        "ready": ready == [first.id],
        "claimed": seen(claimed),
        "taken": taken,
        "released": seen(released),
        "again": seen(again),
        "updated": seen(updated),
        "stale": stale,
        "closed": seen(closed),
        "blocked": blocked.status,
        "given_up": given_up.status,
        "listed": sorted(item.title for item in listed),
        "missing": await refusal(mob.workgraph_get("work_none")),
        "wrong": await refusal(mob.workgraph_create("")),
        "foreign": await refusal(mob.workgraph_list(realm_id="mob.crew")),
    }


async def goals(mob: Any) -> dict[str, Any]:
    """One goal for an identity, the duplicate, pause and resume, and what ends it."""
    target = {"kind": "identity", "identity": "ada"}
    goal = await mob.workgraph_goal_create("Build", target, mode="coordinate")
    binding, item = goal.attention, goal.item
    duplicate = await refusal(mob.workgraph_goal_create("Build again", target))
    paused = await mob.workgraph_attention_pause(binding.binding_id, binding.machine_state["revision"])
    while_paused = await refusal(mob.workgraph_goal_create("Build again", target))
    resumed = await mob.workgraph_attention_resume(binding.binding_id, paused.machine_state["revision"])
    status = await mob.workgraph_goal_status(binding.binding_id)
    stricter = await mob.workgraph_escalate_policy(
        binding.binding_id, item.id, item.revision, {"kind": "host_confirmed"}
    )
    moved = await mob.workgraph_attention_reassign(
        binding.binding_id, resumed.machine_state["revision"], {"kind": "identity", "identity": "grace"}
    )
    freed = await mob.workgraph_goal_create("Something else", binding.target)
    confirmed = await mob.workgraph_goal_confirm(moved.attention.binding_id, stricter.revision)
    closed = await mob.workgraph_goal_request_close(moved.attention.binding_id, confirmed.item.revision)
    attended = await mob.workgraph_attention_list()
    pruned = await mob.workgraph_attention_prune()
    return {
        "goal": seen(goal),
        "duplicate": duplicate,
        "paused": seen(paused),
        "while_paused": while_paused,
        "resumed": resumed.status,
        "status": status.attention.binding_id == binding.binding_id,
        "stricter": stricter.completion_policy,
        "previous": moved.previous.status,
        "moved": moved.attention.target,
        "freed": freed.attention.target,
        "confirmed": confirmed.item.machine_state["host_confirmation_count"],
        "closed": [closed.item.status, closed.attention.status],
        "attended": sorted(one.status["state"] for one in attended),
        "pruned": [pruned, await mob.workgraph_attention_prune("2020-01-01T00:00:00Z")],
        "left": [one.status["state"] for one in await mob.workgraph_attention_list(status="active")],
    }


async def elsewhere(gateway: str) -> dict[str, Any]:
    """What another process, which never saw the member, says of a goal for it."""
    runtime = await MobKit.builder().mob_inline(MOB).gateway(gateway).build()
    owner = {"kind": "owner", "owner_key": {"kind": "agent", "id": "mob/crew/agent/ada"}}
    duplicate = await refusal(runtime.mob_handle().workgraph_goal_create("Build elsewhere", owner))
    await runtime.shutdown()
    return duplicate


async def overview(mob: Any) -> dict[str, Any]:
    """The whole of it, and how it came about."""
    snapshot = await mob.workgraph_snapshot(include_terminal=True)
    events = await mob.workgraph_events(limit=500)
    return {
        "snapshot": {**seen(snapshot), "items": len(snapshot.items)},
        "kinds": sorted({event.kind for event in events}),
        "ascending": [event.seq for event in events] == sorted(event.seq for event in events),
        "after": len(await mob.workgraph_events(after_seq=events[-1].seq)),
        "status": seen(await mob.status()),
        "capabilities": seen(await mob.capabilities()),
    }


async def main(gateway: str) -> None:
    """Everything, then an orderly end."""
    runtime = await MobKit.builder().mob_inline(MOB).gateway(gateway).build()
    mob = runtime.mob_handle()
    report = {"items": await items(mob), "goals": await goals(mob), "overview": await overview(mob)}
    report["elsewhere"] = await elsewhere(gateway)
    await runtime.shutdown()
    print(json.dumps(report))  # noqa: T201


asyncio.run(main(sys.argv[1]))
