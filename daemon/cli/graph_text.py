"""The work graph as a tree of lines for a person. Pure: from a graph to lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple

from .graph_model import WORDS, Graph, Item, homes, remarks, shortened, state_of

DEEPEST: Final = 24
"""Levels below a root before a tree goes on as one of its own: deeper, no line fits a screen."""

Paint = Callable[[str, str], str]
"""Colours a piece: the name of what it is (a state's word, `overdue`, `faint`), and its text."""
Relation = Literal["root", "continued", "child", "waiter", "note"]


class Strokes(NamedTuple):
    """What a tree is drawn with. The first two of each are of the last below an item, and of one before it."""

    last: dict[Relation, str]
    other: dict[Relation, str]
    beside: str
    waits: str


UNICODE: Final = Strokes(
    last={"root": "", "continued": "… ", "child": "└─ ", "waiter": "└▶ ", "note": "└┄ "},
    other={"root": "", "continued": "… ", "child": "├─ ", "waiter": "├▶ ", "note": "├┄ "},
    beside="│  ",
    waits="▶",
)
ASCII: Final = Strokes(
    last={"root": "", "continued": "... ", "child": "`- ", "waiter": "`> ", "note": "`~ "},
    other={"root": "", "continued": "... ", "child": "|- ", "waiter": "|> ", "note": "|~ "},
    beside="|  ",
    waits=">",
)


class Twig(NamedTuple):
    """One line to come: an item, in full or by reference (`said` says where it is), or a note about one."""

    item_id: str
    relation: Relation
    full: bool
    lead: str = ""
    hang: str = ""
    depth: int = 0
    said: str = ""


def tree(graph: Graph, *, root: str | None = None, strokes: Strokes = UNICODE, paint: Paint | None = None) -> list[str]:
    """The graph as lines, and one that sums it up: each item once in full, where its first parent or blocker is."""
    drawn = _Tree(graph, homes(graph, root), strokes, paint or _as_it_is)
    lines = [*drawn.lines(), _summary(graph, strokes)]
    return lines if strokes is not ASCII else [line.encode("ascii", "backslashreplace").decode() for line in lines]


class _Tree:
    """A walk down the graph."""

    def __init__(self, graph: Graph, home: dict[str, str], strokes: Strokes, paint: Paint) -> None:
        self._graph = graph
        self._home = home
        self._strokes = strokes
        self._paint = paint
        self._printed: set[str] = set()

    def lines(self) -> Iterator[str]:
        """Every line, root by root. A tree that grows too deep goes on right behind the one it belongs to."""
        roots = [Twig(item_id, "root", True) for item_id in self._graph.items if item_id not in self._home]
        roots.reverse()
        while roots:
            waiting = [roots.pop()]
            continued: list[Twig] = []
            while waiting:
                twig = waiting.pop()
                if twig.full and twig.depth > DEEPEST:
                    continued.append(Twig(twig.item_id, "continued", True))
                    twig = twig._replace(full=False)
                yield self._line(twig)
                if twig.full:
                    waiting.extend(reversed(self._hung(twig)))
            roots.extend(reversed([twig._replace(lead=self._strokes.last["continued"]) for twig in continued]))

    def _line(self, twig: Twig) -> str:
        item = self._graph.items[twig.item_id]
        title = shortened(item["title"])
        item_id = self._paint("faint", twig.item_id)
        if twig.full:
            self._printed.add(twig.item_id)
            return f"{twig.lead}{title}  {self._standing(item)}  {item_id}"
        if twig.said:
            return f"{twig.lead}{self._paint('faint', twig.said.replace('_', ' '))} {title}  {item_id}"
        where = "(see above)" if twig.item_id in self._printed else "(see below)"
        return f"{twig.lead}{title}  {item_id}  {self._paint('faint', where)}"

    def _standing(self, item: Item) -> str:
        state = state_of(self._graph, item)
        parts = [self._paint(state.word, f"[{state.text}]")]
        parts += [
            self._paint("overdue", text) if text.startswith("OVERDUE") else text for text in remarks(self._graph, item)
        ]
        return " ".join(parts)

    def _hung(self, twig: Twig) -> list[Twig]:
        """What hangs from an item: notes, children, waiters."""
        graph, item_id = self._graph, twig.item_id
        children = dict.fromkeys(graph.children.get(item_id, ()))
        twigs = [Twig(note.to_id, "note", False, said=note.kind) for note in graph.notes.get(item_id, ())]
        twigs += [Twig(near, "child", self._home.get(near) == item_id) for near in children]
        twigs += [
            Twig(near, "waiter", self._home.get(near) == item_id and near not in children)
            for near in graph.waiters.get(item_id, ())
        ]
        return [self._placed(below, twig, last=below is twigs[-1]) for below in twigs]

    def _placed(self, below: Twig, above: Twig, *, last: bool) -> Twig:
        stroke = (self._strokes.last if last else self._strokes.other)[below.relation]
        beside = " " * len(self._strokes.beside) if last else self._strokes.beside
        return below._replace(lead=above.hang + stroke, hang=above.hang + beside, depth=above.depth + 1)


def _summary(graph: Graph, strokes: Strokes) -> str:
    if not graph.items:
        return "no items"
    counts = Counter(state_of(graph, item).word for item in graph.items.values())
    overdue = sum(1 for item in graph.items.values() if item.get("overdue"))
    said = [f"{counts[word]} {word}" for word in WORDS if counts[word]] + ([f"{overdue} overdue"] if overdue else [])
    total = f"{len(graph.items)} {'item' if len(graph.items) == 1 else 'items'}: {', '.join(said)}"
    return total + (f"; {strokes.waits} waits for what it hangs from" if graph.waiters else "")


def _as_it_is(name: str, text: str) -> str:
    return text
