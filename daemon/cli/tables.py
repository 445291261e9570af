"""Results as tables for a person at a terminal. The only module that imports rich."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .output import as_json, one_line, plain

_BINDING: Final = ("binding_id", "status", "mode", "target_key", "work_ref.item_id", "alias_key", "revision")
COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "rows": ("msg_id", "kind", "from", "to", "state", "head", "enqueued_at"),
    "roles": ("role.name", "presence", "connections", "sessions", "role.max_sessions", "updated_at"),
    "faults": ("fault_id", "kind", "state", "subject", "reason", "created_at"),
    "events": ("seq", "at", "family", "type", "subject", "role", "data"),
    "deliveries": ("envelope.msg_id", "envelope.kind", "envelope.from", "envelope.body.text", "deliveries", "requeued"),
    "depths": ("role", "queued", "notes", "in_flight", "oldest_queued_at"),
    "methods": ("name", "summary", "x-kind", "x-batch"),
    "files": ("name", "bytes", "sha256"),
    "findings": ("severity", "code", "subject", "message", "remedy"),
    "items": ("id", "title", "status", "priority", "owner", "unresolved_blockers", "due_at", "revision"),
    "edges": ("kind", "from_id", "to_id", "on_failure", "created_at"),
    "attention": _BINDING,
    "starved": _BINDING,
    "duplicates": _BINDING,
    "waits": ("kind", "text", "remedy"),
    "members": ("mob_id", "identity", "status", "session_id", "source", "updated_at"),
    "sessions": ("session_id", "from", "to"),
}
"""What a person wants to see of the items of a list, by the list's name; a dot goes one level down."""
ID_CHARS: Final = 46
"""An id that the daemon makes is no longer than this: `attention_` and a UUID."""
MOST_COLUMNS: Final = 8
"""Of a list that has no entry above."""


def show_table(value: Any, *, color: bool) -> None:
    """Print a result: its list as a table, the rest as names and values."""
    console = Console(no_color=not color, highlight=False)
    if not isinstance(value, Mapping):
        console.print(Text(one_line(as_json(value, indent=False))))
        return
    if value.keys() == {"content_type", "text"}:  # made to be read as it is, like the metrics
        console.print(Text(plain(value["text"])), end="")
        return
    lists = {name: items for name, items in value.items() if _is_list_of_records(name, items)}
    rest = {name: item for name, item in value.items() if name not in lists}
    records = not lists or any(_is_record(item) for item in rest.values())
    if rest and records:
        console.print(_record_table(rest))
    for name, items in lists.items():
        if items and (records or len(lists) > 1):
            console.print(Text(one_line(name), style="bold"))
        console.print(_list_table(name, items) if items else Text(f"no {name}", style="dim"))
    if rest and not records:
        console.print(Text(_footer(rest), style="dim"))


def cell(value: Any) -> str:
    """One value as one cell: what has a short form in that, other records as JSON."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case str():
            return plain(value)
        case {"role": {"role": role, **rest}}:
            return plain(f"{role}#{rest['session']}" if rest.get("session") else role)
        case {"state": str(state), **rest} if rest.keys() <= {"until"}:
            return plain(f"{state} until {rest['until']}" if rest else state)
        case {"key": owner, **rest} if rest.keys() <= {"display_name"}:
            return cell(owner)
        case {"kind": str(kind), **rest} if len(rest) <= 1:  # owner keys, targets, policies: as `short` reads them
            return plain(":".join([kind, *map(cell, rest.values())]))
        case [*items] if all(isinstance(item, str) for item in items):
            return plain(", ".join(items))
        case _:
            return plain(as_json(value, indent=False))


def _is_list_of_records(name: str, value: Any) -> bool:
    if not isinstance(value, list):
        return False
    return all(isinstance(item, Mapping) for item in value) if value else name in COLUMNS


def _list_table(name: str, items: list[Mapping[str, Any]]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    paths = [path for path in COLUMNS.get(name, ()) if any(_at(item, path) is not None for item in items)]
    for path in paths or (paths := _all_keys(items)[:MOST_COLUMNS]):
        table.add_column(path.rpartition(".")[2], overflow="fold")
    if paths[0].endswith("id"):  # to be copied in one piece, so other columns make room first
        table.columns[0].min_width = min(ID_CHARS, max(len(cell(_at(item, paths[0]))) for item in items))
    for item in items:
        table.add_row(*(Text(cell(_at(item, path))) for path in paths))
    return table


def _record_table(record: Mapping[str, Any]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in _flat(record, ""):
        table.add_row(Text(one_line(name)), Text(cell(value)))
    return table


def _flat(record: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, Any]]:
    for name, value in record.items():
        if value and _is_record(value):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _is_record(value: Any) -> bool:
    """Whether a value has names and values of its own and no short form."""
    return isinstance(value, Mapping) and cell(value).startswith("{")


def _footer(rest: Mapping[str, Any]) -> str:
    shown = [
        f"{name} {one_line(cell(value))}" for name, value in rest.items() if name not in ("next_cursor", "has_more")
    ]
    if rest.get("has_more"):
        cursor = rest.get("next_cursor")
        shown.append(f"there is more: --cursor {one_line(cursor)}" if cursor else "there is more")
    return " · ".join(shown)


def _all_keys(items: list[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for item in items for key in item))


def _at(item: Any, path: str) -> Any:
    for name in path.split("."):
        item = item.get(name) if isinstance(item, Mapping) else None
    return item
