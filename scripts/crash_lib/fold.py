"""The work graph as its feed tells it: who held what when, and what there must be in the end."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from .facts import Facts

FEED: Final = "SELECT type, realm_id, namespace, subject, data FROM events WHERE family = 'workgraph' ORDER BY seq"
ITEMS: Final = "SELECT id, status, revision, fence, owner_id FROM items"
BINDINGS: Final = "SELECT binding_id, status, revision, target_key FROM attention"
ENDS_CLAIM: Final = frozenset({"item_released", "item_blocked", "item_closed"})
Data = dict[str, Any]


@dataclass
class Item:
    """An item as told so far."""

    status: str
    revision: int = 1
    fence: int = 0
    owner: str | None = None


@dataclass
class Binding:
    """A binding as told so far; `place` is its scope and key, which it occupies."""

    status: str
    revision: int
    place: tuple[str, str, str]


class Fold:
    """Reads the feed from its beginning. What cannot be is a violation, at once or in the comparison at the end."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.items: dict[str, Item] = {}
        self.bindings: dict[str, Binding] = {}
        self.claims: dict[tuple[str, int], str] = {}
        self.edges: dict[tuple[str, str, str], str] = {}
        self._occupants: dict[tuple[str, str, str], str] = {}

    def read(self, conn: sqlite3.Connection) -> None:
        """Fold the whole feed."""
        for type_, realm_id, namespace, subject, raw in conn.execute(FEED):
            data = json.loads(raw)
            if "edge" in data:
                self._edge(type_, data["edge"])
            elif type_.startswith("attention_") and type_ != "attention_pruned":
                self._binding(type_, (realm_id, namespace), subject, data)
            elif subject in self.items or type_ == "item_created":
                self._item(type_, subject, data)
            self._facts.counts["events folded"] += 1

    def compare(self, conn: sqlite3.Connection) -> None:
        """Whether the tables hold what the feed has told."""
        told = {id_: (item.status, item.revision, item.fence, item.owner) for id_, item in self.items.items()}
        self._same({row[0]: row[1:] for row in conn.execute(ITEMS)}, told)
        attends = {id_: (one.status, one.revision, one.place[2]) for id_, one in self.bindings.items()}
        self._same({row[0]: row[1:] for row in conn.execute(BINDINGS)}, attends)

    def _same(self, table: dict[str, Any], told: dict[str, Any]) -> None:
        for id_ in table.keys() | told.keys():
            if table.get(id_) != told.get(id_):
                self._facts.violated(f"{id_}: the feed says {told.get(id_)}, the table {table.get(id_)}")

    def _edge(self, type_: str, edge: Data) -> None:
        key = (edge["kind"], edge["from_id"], edge["to_id"])
        if (key in self.edges) == (type_ == "linked"):
            self._facts.violated(f"{type_} of an edge that was {'there' if key in self.edges else 'not there'}: {key}")
        if type_ == "unlinked":
            self.edges.pop(key, None)
        else:
            self.edges[key] = edge.get("on_failure", "")

    def _item(self, type_: str, subject: str, data: Data) -> None:
        if type_ == "item_created":
            self.items[subject] = Item(data["status"])
            return
        item = self.items[subject]
        revision = data.get("revision", item.revision)
        if revision < item.revision:
            self._facts.violated(f"{subject}: {type_} went back from revision {item.revision} to {revision}")
        item.revision = revision
        if type_ == "item_claimed":
            self._claimed(subject, item, data)
        elif type_ == "lease_renewed" and (item.owner is None or data["fence"] != item.fence):
            self._facts.violated(f"{subject}: fence {data['fence']} was renewed, {item.owner} holds {item.fence}")
        elif type_ in ENDS_CLAIM:
            self._ended(type_, subject, item, data)
        elif type_ == "item_unblocked":
            item.status = "open"

    def _claimed(self, subject: str, item: Item, data: Data) -> None:
        owner, fence = data["owner"]["key"]["id"], data["fence"]
        if item.owner is not None:
            self._facts.violated(f"{subject} was given to {owner} while {item.owner} held it")
        if fence <= item.fence:
            self._facts.violated(f"{subject}: fence {fence} was given out after {item.fence}")
        item.status, item.owner, item.fence = "in_progress", owner, fence
        self.claims[subject, fence] = owner

    def _ended(self, type_: str, subject: str, item: Item, data: Data) -> None:
        """A claim ends by its own fence; where there was none, none is named."""
        if data.get("fence") != (None if item.owner is None else item.fence):
            self._facts.violated(f"{subject}: {type_} by fence {data.get('fence')}, {item.owner} holds {item.fence}")
        words = {"item_released": "open", "item_blocked": "blocked"}
        item.status, item.owner = words.get(type_) or data["status"], None

    def _binding(self, type_: str, scope: tuple[str, str], subject: str, data: Data) -> None:
        if type_ == "attention_created":
            self.bindings[subject] = Binding("active", 1, (*scope, data["target_key"]))
            self._occupy(subject)
            return
        binding = self.bindings[subject]
        if data["revision"] <= binding.revision:
            self._facts.violated(f"{subject}: {type_} went from revision {binding.revision} to {data['revision']}")
        binding.revision = data["revision"]
        _MOVES[type_](self, subject, binding, data)

    def _occupy(self, subject: str) -> None:
        place = self.bindings[subject].place
        other = self._occupants.setdefault(place, subject)
        if other != subject:
            self._facts.violated(f"{subject} came to {place[2]} while {other} occupied it")

    def _leave(self, subject: str, binding: Binding) -> None:
        if self._occupants.get(binding.place) == subject:
            del self._occupants[binding.place]

    def paused(self, subject: str, binding: Binding, data: Data) -> None:
        """It goes on occupying."""
        binding.status = "paused"

    def resumed(self, subject: str, binding: Binding, data: Data) -> None:
        """It occupied all the time."""
        binding.status = "active"

    def superseded(self, subject: str, binding: Binding, data: Data) -> None:
        """Its successor comes next."""
        binding.status = "superseded"
        self._leave(subject, binding)

    def stopped(self, subject: str, binding: Binding, data: Data) -> None:
        """Its target is free."""
        binding.status = "stopped"
        self._leave(subject, binding)

    def rekeyed(self, subject: str, binding: Binding, data: Data) -> None:
        """It moves to another key, which must be free."""
        if data["from_key"] != binding.place[2]:
            self._facts.violated(f"{subject} left {data['from_key']}, which it did not occupy")
        self._leave(subject, binding)
        binding.place = (*binding.place[:2], data["to_key"])
        self._occupy(subject)


_MOVES: Final[dict[str, Callable[[Fold, str, Binding, Data], None]]] = {
    "attention_paused": Fold.paused,
    "attention_resumed": Fold.resumed,
    "attention_superseded": Fold.superseded,
    "attention_stopped": Fold.stopped,
    "attention_rekeyed": Fold.rekeyed,
}
