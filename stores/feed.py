"""The event feed: pages of it, live filtering, and the floor that retention moves (contract ledger 1.6 and 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from interlock.lifecycle.bounds import PAGE_BYTES, SCAN_ROWS
from interlock.lifecycle.events import Event
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.times import rfc3339

from .tx import Snapshot, Tx

_ROW_BYTES: Final = 256
"""What an event takes on the wire beside its data, about."""

EVENTS_BETWEEN: Final = (
    "SELECT seq, family, type, at_ms, subject, role, realm_id, namespace, data FROM events WHERE seq > ? AND seq <= ?"
)
_IN_ORDER: Final = " ORDER BY seq LIMIT ?"
OLDEST: Final = "SELECT seq, at_ms FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
DELETE_UP_TO: Final = "DELETE FROM events WHERE seq <= ?"
SET_FLOOR: Final = "UPDATE facts SET value = ? WHERE name = 'floor'"


@dataclass(frozen=True, slots=True)
class FeedFilter:
    """Which events: within one field any value matches, together all must; None matches all (contract ledger 1.6)."""

    types: tuple[str, ...] | None = None
    families: tuple[str, ...] | None = None
    roles: tuple[str, ...] | None = None
    subjects: tuple[str, ...] | None = None
    realm_id: str | None = None
    namespace: str | None = None

    def matches(self, event: Event) -> bool:
        """The same choice as in SQL, for an event at hand."""
        return (
            (self.types is None or event.type in self.types)
            and (self.families is None or event.family in self.families)
            and (self.roles is None or event.role in self.roles)
            and (self.subjects is None or event.subject in self.subjects)
            and (self.realm_id is None or event.realm_id == self.realm_id)
            and (self.namespace is None or event.namespace == self.namespace)
        )


@dataclass(frozen=True, slots=True)
class FeedPage:
    """A page. `scanned_seq` is the next `after_seq`: `head` when there is no more."""

    events: list[Event]
    scanned_seq: int
    has_more: bool
    head: int
    floor: int


def select_events(wanted: FeedFilter) -> tuple[str, list[str]]:
    """The statement that reads a page of `wanted`, and the parameters between its seqs and its limit."""
    sql = EVENTS_BETWEEN
    values: list[str] = []
    for column, some in (
        ("type", wanted.types),
        ("family", wanted.families),
        ("role", wanted.roles),
        ("subject", wanted.subjects),
        ("realm_id", None if wanted.realm_id is None else (wanted.realm_id,)),
        ("namespace", None if wanted.namespace is None else (wanted.namespace,)),
    ):
        if some is not None:
            sql += f" AND {column} IN ({', '.join('?' * len(some))})"
            values += some
    return sql + _IN_ORDER, values


def events_since(
    snap: Snapshot,
    after_seq: int | None,
    filter: FeedFilter,  # noqa: A002 - the contract's word
    limit: int,
    scan_rows: int = SCAN_ROWS,
) -> FeedPage:
    """The events strictly above `after_seq` (None: above the floor) that match, ascending, at most `limit`.

    Looks at no more than `scan_rows` rows, and ends early at 4 MiB, but never before one event.
    Raises `cursor_expired` below the floor and `cursor_ahead` above the head.
    """
    head, floor = snap.head(), snap.floor()
    after = check_cursor(after_seq, head, floor)
    up_to = min(after + scan_rows, head)  # seqs have no gaps above the floor, so this many seqs are this many rows
    sql, values = select_events(filter)
    events: list[Event] = []
    size = 0
    for row in snap.execute(sql, (after, up_to, *values, limit)):
        size += len(row[8]) + _ROW_BYTES
        if events and size > PAGE_BYTES:
            break
        events.append(_event(row))
    else:
        if len(events) < limit:
            return FeedPage(events, up_to, up_to < head, head, floor)
    scanned = events[-1].seq if events else after
    return FeedPage(events, scanned, scanned < head, head, floor)


def check_cursor(after_seq: int | None, head: int, floor: int) -> int:
    """Where to go on from. Raises `cursor_expired` and `cursor_ahead`."""
    if after_seq is None:
        return floor
    if after_seq < floor:
        raise Refusal("cursor_expired", f"events up to {floor} were removed", floor=floor, head=head)
    if after_seq > head:
        raise Refusal("cursor_ahead", f"the newest event is {head}", head=head)
    return after_seq


def prune_events(tx: Tx, before_ms: int, limit: int) -> tuple[int, bool]:
    """Remove the oldest events that are older than `before_ms`, at most `limit`, and move the floor above them.

    Returns how many, and whether there are more of them. Reads one row more than it removes.
    """
    pruned, last, more = 0, 0, False
    for seq, at_ms in tx.execute(OLDEST, (tx.floor(), limit + 1)):
        if at_ms >= before_ms:
            break
        if pruned == limit:
            more = True
            break
        pruned, last = pruned + 1, seq
    if pruned:
        tx.execute(DELETE_UP_TO, (last,))
        tx.execute(SET_FLOOR, (last,))
    return pruned, more


def _event(row: tuple[Any, ...]) -> Event:
    seq, family, type_, at_ms, subject, role, realm_id, namespace, data = row
    return Event(
        seq=seq,
        family=family,
        type=type_,
        at=rfc3339(at_ms),
        subject=subject,
        role=role,
        realm_id=realm_id,
        namespace=namespace,
        data=msgspec.Raw(data.encode()),
    )
