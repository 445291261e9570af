"""The work graph as text for Graphviz and for Mermaid, one line for each item and each edge. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .graph_model import Graph, Item, Word, remarks, shortened, state_of
from .output import one_line

_FILLS: Final[dict[Word, str]] = {
    "ready": "#c8e6c9",
    "claimed": "#bbdefb",
    "blocked": "#ffcdd2",
    "waiting": "#fff9c4",
    "completed": "#eeeeee",
    "cancelled": "#e0e0e0",
    "failed": "#ffab91",
}
_DOT_STYLES: Final = {"blocks": "", "parent": ' [dir=both, arrowtail=odiamond, arrowhead=none, label="part"]'}
_MERMAID_ARROWS: Final = {"blocks": "-->", "parent": '-- "part" ---'}
_PLAIN: Final = frozenset(" ,./'()+=?!-")
"""Beside letters and digits, what means nothing to Mermaid inside quotes."""


def dot(graph: Graph) -> list[str]:
    """A Graphviz digraph. Arrows lead from what comes first to what waits for it; from a parent to its children."""
    lines = ["digraph workgraph {", "  rankdir=LR;", '  node [shape=box, style="rounded,filled"];']
    for item_id, item in graph.items.items():
        label = "\\n".join(_dot_text(line) for line in _label(graph, item))
        outline = ", color=red, penwidth=2" if item.get("overdue") else ""
        fill = _FILLS[state_of(graph, item).word]
        lines.append(f'  {_dot_id(item_id)} [label="{label}", fillcolor="{fill}"{outline}];')
    for kind, from_id, to_id in _edges(graph):
        lines.append(f"  {_dot_id(from_id)} -> {_dot_id(to_id)}{_DOT_STYLES.get(kind, _dot_note(kind))};")
    return [*lines, "}"]


def _dot_note(kind: str) -> str:
    return f' [style=dashed, constraint=false, label="{_dot_text(kind.replace("_", " "))}"]'


def _dot_id(text: str) -> str:
    return f'"{_dot_quoted(one_line(text))}"'


def _dot_text(text: str) -> str:
    """Text of a label, in which entities would be read."""
    return _dot_quoted(text.replace("&", "&amp;"))


def _dot_quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def mermaid(graph: Graph) -> list[str]:
    """A Mermaid flowchart, with arrows as in `dot`. The items are `n0`, `n1`, …: ids of our own."""
    names = {item_id: f"n{number}" for number, item_id in enumerate(graph.items)}
    lines = ["flowchart LR"]
    for item_id, item in graph.items.items():
        label = "<br/>".join(_mermaid_text(line) for line in _label(graph, item))
        lines.append(f'  {names[item_id]}["{label}"]:::{state_of(graph, item).word}')
    for kind, from_id, to_id in _edges(graph):
        arrow = _MERMAID_ARROWS.get(kind, f'-. "{_mermaid_text(kind.replace("_", " "))}" .->')
        lines.append(f"  {names[from_id]} {arrow} {names[to_id]}")
    return [*lines, *(f"  classDef {word} fill:{fill},color:#000" for word, fill in _FILLS.items())]


def _mermaid_text(text: str) -> str:
    """Text inside quotes. What could be markup, a directive or the end of the text is written by its number.

    So is whatever begins the text and is no letter: `1.` would begin a list.
    """
    return "".join(
        char if char.isalpha() or (n and (char.isalnum() or char in _PLAIN)) else f"#{ord(char)};"
        for n, char in enumerate(text)
    )


def _label(graph: Graph, item: Item) -> list[str]:
    return [shortened(item["title"]), f"[{state_of(graph, item).text}]", *remarks(graph, item), one_line(item["id"])]


def _edges(graph: Graph) -> Iterator[tuple[str, str, str]]:
    """Every edge as it is drawn: kind, from, to."""
    for blocker, waiters in graph.waiters.items():
        yield from (("blocks", blocker, waiter) for waiter in waiters)
    for parent, children in graph.children.items():
        yield from (("parent", parent, child) for child in children)
    for item_id, notes in graph.notes.items():
        yield from ((note.kind, item_id, note.to_id) for note in notes)
