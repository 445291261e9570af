"""`interlock workgraph graph`: the snapshot of the work graph, drawn."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import click

from .failures import NEGATIVE, Failed
from .output import show_json, write
from .settings import Settings, verb

PAGE: Final = 500
_COLORS: Final = {
    "ready": "32",
    "claimed": "36",
    "blocked": "31",
    "waiting": "33",
    "completed": "2",
    "cancelled": "2",
    "failed": "35",
    "overdue": "1;31",
    "faint": "2",
}

Snapshot = dict[str, Any]


class _Found(NamedTuple):
    """An item as the last page that has it shows it."""

    item: dict[str, Any]
    edges: list[Any]
    attention: list[Any]
    ready: bool


@verb("graph")
@click.option("--format", "form", type=click.Choice(["tree", "dot", "mermaid", "json"]), help="How to print it.")
@click.option("--realm-id", metavar="ID", help="Realm of the items.")
@click.option("--namespace", metavar="ID", help="Namespace of the items.")
@click.option("--labels", multiple=True, metavar="LABEL", help="Only items with this label (repeatable: with all).")
@click.option("--include-terminal", is_flag=True, help="Completed, cancelled and failed items too.")
@click.option("--root", metavar="ID", help="Only what hangs below this item.")
@click.pass_obj
def graph(settings: Settings, /, form: str | None, root: str | None, **given: Any) -> None:
    """Draw which items wait for which, and how each stands.

    On a terminal a tree: below an item are its parts, and behind an arrow what waits for it. In a pipe, or with --json,
    the snapshot as one JSON value. --format dot is for Graphviz, --format mermaid for Mermaid.
    """
    wanted = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items() if value}
    scope = {name: wanted[name] for name in ("realm_id", "namespace") if name in wanted}
    asked = settings.call("workgraph/get", {"id": root, **scope})["item"] if root is not None else None
    snapshot = joined(_pages(settings, wanted))
    if asked is not None:
        snapshot = _below(snapshot, asked)
    if settings.quiet:
        return
    form = form or ("json" if settings.as_json else "tree")
    if form == "json":
        show_json(snapshot)
    else:
        write("\n".join(_drawn(settings, snapshot, form, root)))


def _pages(settings: Settings, wanted: Mapping[str, Any]) -> Iterator[Snapshot]:
    params = {**wanted, "limit": PAGE}
    page = settings.call("workgraph/snapshot", params)
    yield page
    while page["has_more"]:
        page = settings.call("workgraph/snapshot", {**params, "cursor": page["next_cursor"]})
        yield page


def joined(pages: Iterable[Snapshot]) -> Snapshot:
    """All pages of `workgraph/snapshot` as one, with the head and the time of the first page.

    An item that changes meanwhile comes again on a later page, and counts as it is there: with the edges out of it and
    who attends to it, and no others.
    """
    first: Snapshot = {}
    found: dict[str, _Found] = {}
    for page in pages:
        first = first or page
        ready = set(page["ready_item_ids"])
        for item in page["items"]:
            found.pop(item["id"], None)  # it stands where it changed last
            found[item["id"]] = _Found(item, [], [], item["id"] in ready)
        for edge in page["edges"]:
            found[edge["from_id"]].edges.append(edge)
        for binding in page["attention"]:
            found[binding["work_ref"]["item_id"]].attention.append(binding)
    whole = {name: value for name, value in first.items() if name not in ("has_more", "next_cursor")}
    return whole | {
        "items": [one.item for one in found.values()],
        "edges": [edge for one in found.values() for edge in one.edges],
        "attention": [binding for one in found.values() for binding in one.attention],
        "ready_item_ids": [item_id for item_id, one in found.items() if one.ready],
        "has_more": False,
    }


def _below(snapshot: Snapshot, asked: Mapping[str, Any]) -> Snapshot:
    """What of a snapshot hangs below an item. Raises Failed where the item itself is not in it."""
    from .graph_model import below, graph_of

    graph = graph_of(snapshot)
    if asked["id"] not in graph.items:
        why = f"it is {asked['status']}, with labels {asked.get('labels', [])}"
        raise Failed(f"{asked['id']} is not in this selection: {why}", NEGATIVE, remedy="--include-terminal, --labels")
    kept = below(graph, asked["id"])
    return snapshot | {
        "items": [item for item in snapshot["items"] if item["id"] in kept],
        "edges": [edge for edge in snapshot["edges"] if edge["from_id"] in kept and edge["to_id"] in kept],
        "attention": [binding for binding in snapshot["attention"] if binding["work_ref"]["item_id"] in kept],
        "ready_item_ids": [item_id for item_id in snapshot["ready_item_ids"] if item_id in kept],
    }


def _drawn(settings: Settings, snapshot: Snapshot, form: str, root: str | None) -> list[str]:
    from . import graph_drawn, graph_text
    from .graph_model import graph_of

    found = graph_of(snapshot)
    if form != "tree":
        return graph_drawn.dot(found) if form == "dot" else graph_drawn.mermaid(found)
    strokes = graph_text.UNICODE if speaks_utf8(settings.env) else graph_text.ASCII
    colored = settings.color and sys.stdout.isatty()
    return graph_text.tree(found, root=root, strokes=strokes, paint=_colored if colored else None)


def _colored(name: str, text: str) -> str:
    return f"\x1b[{_COLORS[name]}m{text}\x1b[0m"


def speaks_utf8(env: Mapping[str, str]) -> bool:
    """What the locale says. Python's own streams do not tell: it takes UTF-8 for the locale C."""
    name = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or ""
    return "utf8" in name.lower().replace("-", "")
