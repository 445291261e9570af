"""The work graph as a reader sees it: how each item stands, in words, and what hangs from what.

Made of a snapshot (contract workgraph 1), as plain values; pure. Nothing here recurses: a chain may be long.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from .output import one_line

Item = Mapping[str, Any]
Word = Literal["ready", "claimed", "blocked", "waiting", "completed", "cancelled", "failed"]

WORDS: Final[tuple[Word, ...]] = ("ready", "claimed", "blocked", "waiting", "completed", "cancelled", "failed")
TITLE_CHARS: Final = 100
"""Of a title that are shown; the id is there to look up the rest."""
_OCCUPYING: Final = ("active", "paused")
_SHOWN_BINDINGS: Final = 2


class State(NamedTuple):
    """How an item stands: one word to count and colour by, and what a person is told."""

    word: Word
    text: str


class Note(NamedTuple):
    """An edge without effect on readiness: `supersedes` and the like."""

    kind: str
    to_id: str


@dataclass(frozen=True, slots=True)
class Graph:
    """The items of a selection in the order of their creation, and what is between them."""

    captured_at: str
    items: dict[str, Item]
    children: dict[str, list[str]]
    parents: dict[str, list[str]]
    waiters: dict[str, list[str]]
    """Whom an item blocks."""
    blockers: dict[str, list[str]]
    notes: dict[str, list[Note]]
    ready: frozenset[str]
    shown_blockers: Mapping[str, int]
    """How many of an item's unresolved blockers are in the selection."""
    bindings: dict[str, list[Item]]


def graph_of(snapshot: Item) -> Graph:
    """The graph in a snapshot. Edges to items outside it are left out."""
    items = {item["id"]: item for item in sorted(snapshot["items"], key=lambda item: (item["created_at"], item["id"]))}
    place = {item_id: n for n, item_id in enumerate(items)}
    edges = [edge for edge in snapshot["edges"] if edge["from_id"] in items and edge["to_id"] in items]
    edges.sort(key=lambda edge: (place[edge["from_id"]], place[edge["to_id"]]))
    pairs = {kind: [(e["from_id"], e["to_id"]) for e in edges if e["kind"] == kind] for kind in ("blocks", "parent")}
    notes = [(e["from_id"], Note(e["kind"], e["to_id"])) for e in edges if e["kind"] not in pairs]
    shown: dict[str, int] = defaultdict(int)
    for edge in edges:
        shown[edge["to_id"]] += edge["kind"] == "blocks" and _holds(items[edge["from_id"]], edge)
    return Graph(
        captured_at=snapshot["captured_at"],
        items=items,
        children=_grouped((parent, child) for child, parent in pairs["parent"]),
        parents=_grouped(pairs["parent"]),
        waiters=_grouped(pairs["blocks"]),
        blockers=_grouped((waiter, blocker) for blocker, waiter in pairs["blocks"]),
        notes=_grouped(notes),
        ready=frozenset(snapshot["ready_item_ids"]),
        shown_blockers=shown,
        bindings=_grouped((bound["work_ref"]["item_id"], bound) for bound in snapshot["attention"]),
    )


def below(graph: Graph, root: str) -> set[str]:
    """What hangs from an item: itself, its children, whom it blocks, and so on."""
    found = {root}
    waiting = [root]
    while waiting:
        item_id = waiting.pop()
        for near in (*graph.children.get(item_id, ()), *graph.waiters.get(item_id, ())):
            if near not in found:
                found.add(near)
                waiting.append(near)
    return found


def homes(graph: Graph, root: str | None = None) -> dict[str, str]:
    """Where each item is shown in full: with its first parent, else with its first blocker. Roots have no home.

    A child that blocks its own parent would be its parent's home and the other way round: then the parent is a root.
    Whatever the edges are, no item is its own home over any number of steps. `root` is a root in any case.
    """
    home: dict[str, str] = {}
    higher: dict[str, str] = {}
    for above in (graph.parents, graph.blockers):
        for item_id in graph.items:
            if item_id not in home and item_id != root:
                found = next((near for near in above.get(item_id, ()) if _top(higher, near) != item_id), None)
                if found is not None:
                    home[item_id] = higher[item_id] = found
    return home


def _top(higher: dict[str, str], item_id: str) -> str:
    """The root of an item's tree; halves the way there for the next who asks."""
    while item_id in higher:
        step = higher[item_id]
        if step in higher:
            higher[item_id] = higher[step]
        item_id = step
    return item_id


def state_of(graph: Graph, item: Item) -> State:
    """How an item stands at the time of the snapshot."""
    status = item["status"]
    if status in ("completed", "cancelled", "failed"):
        return State(status, status)
    if status == "blocked":
        note = item.get("block_note")
        return State("blocked", f"blocked: {shortened(note)}" if note else "blocked")
    claim = item.get("claim")
    until = claim.get("lease_expires_at") if claim else None
    if claim and (until is None or until > graph.captured_at):
        text = f"claimed by {owner_text(claim['owner'])}"
        return State("claimed", text if until is None else f"{text} until {clock(until, graph.captured_at)}")
    if item["id"] in graph.ready:
        return State("ready", "ready")
    return State("waiting", ", ".join(_waits(graph, item)) or status)


def remarks(graph: Graph, item: Item) -> list[str]:
    """What else a person wants to know of an item: its deadline, its priority, who attends to it."""
    found = [] if item["priority"] == "medium" else [f"{item['priority']} priority"]
    if item.get("due_at") and not item.get("terminal_at"):
        when = clock(item["due_at"], graph.captured_at)
        found.append(f"OVERDUE since {when}" if item.get("overdue") else f"due {when}")
    bound = [b for b in graph.bindings.get(item["id"], ()) if b["status"]["state"] in _OCCUPYING]
    found += [f"attended by {_binding_text(binding)}" for binding in bound[:_SHOWN_BINDINGS]]
    if len(bound) > _SHOWN_BINDINGS:
        found.append(f"and by {len(bound) - _SHOWN_BINDINGS} more")
    return found


def owner_text(owner: Item) -> str:
    """An owner as `kind:id`."""
    return one_line(f"{owner['key']['kind']}:{owner['key']['id']}")


def shortened(text: str) -> str:
    """What agents wrote, on one line and not too long."""
    cut = text if len(text) <= TITLE_CHARS else f"{text[: TITLE_CHARS - 1]}…"
    return one_line(cut)


def clock(at: str, now: str) -> str:
    """A time of the wire for a person, to the minute and in UTC; with its date where that is not the one of `now`."""
    date, _, time = at.partition("T")
    return f"{time[:5]}Z" if date == now.partition("T")[0] else f"{date} {time[:5]}Z"


def _waits(graph: Graph, item: Item) -> list[str]:
    found = []
    blockers = item["unresolved_blockers"]
    if blockers:
        hidden = blockers - graph.shown_blockers.get(item["id"], 0)
        found.append(f"waits for {blockers}" + (f" ({hidden} not shown)" if hidden > 0 else ""))
    found += _join_text(item)
    for field, words in (("not_before", "not before"), ("snoozed_until", "snoozed until")):
        if item.get(field) and item[field] > graph.captured_at:
            found.append(f"{words} {clock(item[field], graph.captured_at)}")
    return found


def _join_text(item: Item) -> list[str]:
    match item["join_state"]:
        case "propagate_failure":
            return ["a claim settles it as failed"]
        case "propagate_cancellation":
            return ["a claim settles it as cancelled"]
        case "waiting":
            counts = item.get("children") or {}
            ended = [
                f"held by {_children(counts[word], f'{word} ')}"
                for word in ("failed", "cancelled")
                if counts.get(word) and item[f"{word}_child_join_policy"] == "require_success"
            ]
            return [f"waits for {_children(counts['active'])}"] if counts.get("active") else ended
        case _:
            return []


def _children(count: int, how: str = "") -> str:
    return f"{count} {how}{'child' if count == 1 else 'children'}"


def _binding_text(binding: Item) -> str:
    words = [binding["mode"]] if binding["mode"] != "pursue" else []
    words += ["paused"] if binding["status"]["state"] == "paused" else []
    return one_line(binding["target_key"]) + (f" ({', '.join(words)})" if words else "")


def _holds(blocker: Item, edge: Item) -> bool:
    """Whether a blocker counts as unresolved (contract workgraph 4)."""
    if blocker["status"] in ("cancelled", "failed"):
        return bool(edge.get("on_failure") != "release")
    return bool(blocker["status"] != "completed")


def _grouped(pairs: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return dict(groups)
