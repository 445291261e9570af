"""The clients of the work graph. Each works until its connection breaks; what it was told is in the deeds."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import nullcontext
from itertools import islice
from typing import Any, Final

from bench_lib.rows import op_id
from bench_lib.wire import Wire

from interlock.lifecycle.times import rfc3339

from .deeds import LINKS, begin, end
from .facts import Deed, Facts
from .load import Client, Connect

LABELS: Final = ("red", "green", "blue")
LIVE: Final = ("open", "in_progress", "blocked")
JOINS: Final = ("require_success", "propagate", "accept")
IDENTITIES: Final = ("ann", "bob")
SESSIONS: Final = tuple(f"01a232ae-78dc-7a8f-8347-25485{n:07d}" for n in range(40))
PRINCIPALS: Final = ("eve", "finn")
MODES: Final = ("pursue", "coordinate", "coordinate", "judge")
NEWEST_ITEMS: Final = 60
NEWEST_BINDINGS: Final = 12
"""Of those do clients choose, so that they meet."""
BY_NATURE: Final = frozenset({"workgraph/renew", "workgraph/member/register", "workgraph/member/retire"})
"""Writes that know no op id: to do them twice does no harm."""
Behaviour = Callable[["Actor"], None]


class Actor:
    """One client: its connection, what all of them know, and a randomness of its own."""

    def __init__(self, wire: Wire, facts: Facts, rng: random.Random) -> None:
        self.rng = rng
        self._facts = facts
        self._wire = wire
        self.name = f"worker-{rng.getrandbits(32):x}"

    def do(self, method: str, **params: Any) -> Any:
        """The result of a write; None where it was refused as such clients are."""
        deed = Deed(method, params if method in BY_NATURE else {**params, "op_id": op_id()})
        with self._facts.work.linking if method in LINKS else nullcontext():
            begin(self._facts, deed)
            end(self._facts, deed, self._wire.ask_all(method, [deed.params])[0])
        return deed.result

    def ask(self, method: str, **params: Any) -> Any:
        """The result of a read; None where it was refused."""
        return self._wire.ask_all(method, [params])[0].get("result")

    def chance(self, share: float) -> bool:
        """True that often."""
        return self.rng.random() < share

    def soon(self, most_ms: int = 400) -> str:
        """An instant that is about to come."""
        return rfc3339(time.time_ns() // 1_000_000 + self.rng.randint(1, most_ms))

    def known(self, *statuses: str) -> dict[str, Any] | None:
        """One of the newest items, as somebody was told it is, in one of these states."""
        with self._facts.lock:
            newest = list(islice(reversed(self._facts.work.items.values()), NEWEST_ITEMS))
        fitting = [item for item in newest if item["status"] in statuses]
        return self.rng.choice(fitting) if fitting else None

    def attended(self) -> dict[str, Any] | None:
        """One of the newest bindings that occupy, as somebody was told."""
        with self._facts.lock:
            newest = list(islice(reversed(self._facts.work.bindings.values()), NEWEST_BINDINGS))
        fitting = [binding for binding in newest if binding["status"]["state"] in ("active", "paused")]
        return self.rng.choice(fitting) if fitting else None

    def target(self) -> dict[str, Any]:
        """One of a few targets, in one of its spellings."""
        what = self.rng.choice(("identity", "lowered", "session", "principal"))
        name, session = self.rng.choice(IDENTITIES), self.rng.choice(SESSIONS)
        if what == "identity":
            return {"kind": "identity", "identity": name}
        if what == "lowered":
            return {"kind": "lowered_owner", "owner_key": {"kind": "agent", "id": f"mob/default/agent/{name}"}}
        if what == "session":
            return {"kind": "session", "session_id": self.rng.choice((session, session.upper(), f"session_{session}"))}
        return {"kind": "owner", "owner_key": {"kind": "principal", "id": self.rng.choice(PRINCIPALS)}}


def _item(actor: Actor) -> dict[str, Any]:
    """Params of a new item."""
    rng = actor.rng
    params: dict[str, Any] = {"title": f"item {rng.getrandbits(48):x}", "priority": rng.choice(("low", "high"))}
    params |= {"failed_child_join_policy": rng.choice(JOINS), "cancelled_child_join_policy": rng.choice(JOINS)}
    for name in ("due_at", "not_before", "snoozed_until"):
        if actor.chance(0.15):
            params[name] = actor.soon()
    if actor.chance(0.4):
        params["labels"] = rng.sample(LABELS, rng.randint(1, 2))
    if actor.chance(0.3):
        params["description"] = "x" * rng.choice((10, 3000))
    if actor.chance(0.1):
        params["status"] = "blocked"
    return params


def maker(actor: Actor) -> None:
    """Makes items, links them, lets blocked ones go on, takes edges away again."""
    mine: list[dict[str, Any]] = []
    while True:
        what = actor.rng.choice(("create", "create", "link", "link", "waive", "unlink", "unblock", "update"))
        item, other = actor.known(*LIVE), actor.known(*LIVE, "failed", "cancelled")
        if what == "create" or item is None:
            actor.do("workgraph/create", **_item(actor))
        elif what == "link" and other is not None:
            ends = {"from_id": other["id"], "to_id": item["id"]}
            edge = {"kind": actor.rng.choice(("blocks", "blocks", "parent", "parent", "related")), **ends}
            if edge not in mine and actor.do("workgraph/link", **edge):
                mine.append(edge)
        elif what == "unblock":
            _unblock(actor)
        elif what == "update":
            given = {"labels": actor.rng.sample(LABELS, actor.rng.randint(0, 3)), "priority": "medium"}
            actor.do("workgraph/update", id=item["id"], expected_revision=item["revision"], reason="tidying", **given)
        elif mine:
            edge = actor.rng.choice(mine)
            if what == "waive" and edge["kind"] == "blocks":
                actor.do("workgraph/link", **edge, on_failure=actor.rng.choice(("release", "block")))
            elif what == "unlink" and actor.do("workgraph/unlink", **edge):
                mine.remove(edge)


def _unblock(actor: Actor) -> None:
    item = actor.known("blocked")
    if item is not None:
        actor.do("workgraph/unblock", id=item["id"], expected_revision=item["revision"])


def worker(actor: Actor) -> None:
    """Claims what is next, or something that others want too, works on it, and ends it; now and then it is late."""
    old: list[tuple[str, int]] = []
    while True:
        owner = {"kind": "agent", "id": actor.name}
        lease = {"lease_expires_at": actor.soon(300)} if actor.chance(0.3) else {"lease_seconds": 30}
        item = actor.known("open") if actor.chance(0.5) else None
        if item is not None:
            what = {"id": item["id"], "expected_revision": item["revision"]}
            taken = actor.do("workgraph/claim", owner=owner, **what, **lease)
        else:
            labels = {"labels": [actor.rng.choice(LABELS)]} if actor.chance(0.3) else {}
            taken = actor.do("workgraph/claim_next", owner=owner, **labels, **lease)
        if not taken or "fence" not in taken:
            continue
        old.append((taken["item"]["id"], taken["fence"]))
        _work_on(actor, taken["item"], taken["fence"])
        late_id, late_fence = actor.rng.choice(old[-10:])
        if actor.chance(0.2):
            actor.do("workgraph/renew", id=late_id, fence=late_fence, lease_seconds=30)


def _work_on(actor: Actor, item: dict[str, Any], fence: int) -> None:
    held = {"id": item["id"], "fence": fence}
    if actor.chance(0.4):
        actor.do("workgraph/renew", **held, lease_seconds=30)
    if actor.chance(0.4):
        changed = actor.do("workgraph/update", **held, expected_revision=item["revision"], title=f"{item['title']}!")
        item = changed["item"] if changed else item
    if actor.chance(0.4):
        seen = {"kind": "note", "id": f"note-{actor.rng.getrandbits(32):x}"}
        changed = actor.do("workgraph/evidence/add", **held, evidence=seen)
        item = changed["item"] if changed else item
    at = {"expected_revision": item["revision"]}
    what = actor.rng.choice(("close", "close", "close", "close", "release", "block", "forget"))
    if what == "close":
        status = actor.rng.choice(("completed", "completed", "failed", "cancelled"))
        actor.do("workgraph/close", **held, **at, status=status, even_if_incomplete=True)
    elif what == "release":
        actor.do("workgraph/release", **held)
    elif what == "block":
        actor.do("workgraph/block", **held, **at, note="an answer is missing")


def attendant(actor: Actor) -> None:
    """Creates goals for few targets that others want too, and moves whatever binding it knows of."""
    while True:
        how = {"mode": actor.rng.choice(MODES), "delegated_authority": "close_if_policy_allows"}
        binding = actor.attended()
        if binding is not None and actor.chance(0.6):
            _move(actor, binding)
        elif actor.chance(0.3) and (item := actor.known("open", "blocked")) is not None:
            bound = {"item_id": item["id"], "expected_revision": item["revision"]}
            actor.do("workgraph/goal/create", target=actor.target(), **bound, **how)
        else:
            actor.do("workgraph/goal/create", target=actor.target(), **_item(actor), **how)


def _move(actor: Actor, binding: dict[str, Any]) -> None:
    at = {"binding_id": binding["binding_id"], "expected_revision": binding["revision"]}
    what = actor.rng.choice(("pause", "resume", "resume", "reassign", "break_glass_reassign", "stop", "close"))
    if what == "close":
        goal = actor.ask("workgraph/goal/status", binding_id=binding["binding_id"])
        if goal:
            of_item = {"binding_id": binding["binding_id"], "expected_revision": goal["item"]["revision"]}
            given = {"reason": "it is over", "even_if_incomplete": True}
            actor.do("workgraph/goal/request_close", **of_item, **given)
    elif what == "pause":
        actor.do("workgraph/attention/pause", **at, **({"until": actor.soon()} if actor.chance(0.5) else {}))
    elif what == "break_glass_reassign":
        actor.do("workgraph/attention/break_glass_reassign", **at, target=actor.target(), reason="nobody answers")
    else:
        to = {"target": actor.target()} if what == "reassign" else {}
        actor.do(f"workgraph/attention/{what}", **at, **to)


def registrar(actor: Actor) -> None:
    """Says whose sessions are whose, and says it otherwise later."""
    while True:
        name = actor.rng.choice(IDENTITIES)
        if actor.chance(0.2):
            actor.do("workgraph/member/retire", identity=name)
        else:
            session = _session(actor)
            actor.do("workgraph/member/register", identity=name, session_id=session, adopt=actor.chance(0.5))
        for _ in range(2):
            actor.do("workgraph/create", **_item(actor))


def _session(actor: Actor) -> str:
    """A session, if possible one that attends to something: its binding comes to the member then, or finds it taken."""
    binding = actor.attended()
    if binding is not None and binding["target"]["kind"] == "session":
        session: str = binding["target"]["session_id"]
        return session
    return actor.rng.choice(SESSIONS)


def planner(actor: Actor) -> None:
    """Does several things at once, or none of them: the last step of some batches is refused."""
    while True:
        title = f"plan {actor.rng.getrandbits(48):x}"
        steps: list[dict[str, Any]] = [{"method": "workgraph/create", "params": {"title": title}} for _ in range(2)]
        ends = {"from_id": {"$ref": "/0/item/id"}, "to_id": {"$ref": "/1/item/id"}}
        steps.append({"method": "workgraph/link", "params": {"kind": "blocks", **ends}})
        if actor.chance(0.3):
            bound = {"item_id": {"$ref": "/1/item/id"}, "expected_revision": 1}
            steps.append({"method": "workgraph/goal/create", "params": {"target": actor.target(), **bound}})
        if actor.chance(0.2):
            steps.append(
                {"method": "workgraph/unblock", "params": {"id": {"$ref": "/0/item/id"}, "expected_revision": 1}}
            )
        actor.do("daemon/batch", steps=steps)


def _client(behaviour: Behaviour) -> Client:
    def run(connect: Connect, facts: Facts, rng: random.Random) -> None:
        with connect() as wire:
            behaviour(Actor(wire, facts, rng))

    run.__name__ = behaviour.__name__
    return run


ALL: Final = tuple(
    _client(behaviour)
    for behaviour in (
        *(maker, maker, worker, worker, worker),
        *(attendant, attendant, attendant, registrar, planner),
    )
)
