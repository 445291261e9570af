"""What a store function receives: a snapshot to read, or a transaction to read and write (DESIGN 4.2)."""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from interlock.lifecycle.events import Event
from interlock.lifecycle.times import rfc3339

from .ids import Ids

HEAD: Final = "SELECT seq FROM sqlite_sequence WHERE name = 'events'"
FLOOR: Final = "SELECT value FROM facts WHERE name = 'floor'"
LAST_INSTANT: Final = "SELECT at_ms FROM events ORDER BY seq DESC LIMIT 1"
EMIT: Final = (
    "INSERT INTO events(family, type, realm_id, namespace, subject, role, at_ms, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)

Params = Sequence[Any] | Mapping[str, Any]


class Execute(Protocol):
    """What runs a statement."""

    def __call__(self, sql: str, params: Params = ..., /) -> sqlite3.Cursor: ...


_encode: Final = msgspec.json.Encoder().encode


class Snapshot:
    """A consistent view of the store. `now` is its one instant, in ms since 1970.

    `execute(sql, params)` runs one statement and returns its cursor. It is the connection's own: one call more per
    statement is felt. What it raises becomes a refusal or StatementFailed unless caught (stores/errors).
    """

    __slots__ = ("execute", "now")

    def __init__(self, execute: Execute, now: int) -> None:
        self.execute = execute
        self.now = now

    def head(self) -> int:
        """The highest seq of the feed ever given out, 0 when there was none; retention does not lower it."""
        row = self.execute(HEAD, ()).fetchone()
        return row[0] if row else 0

    def floor(self) -> int:
        """The highest seq that retention removed, 0 at first (contract ledger 1.6)."""
        row = self.execute(FLOOR, ()).fetchone()
        return row[0] if row else 0


class Tx(Snapshot):
    """One job inside the write transaction. It may be run twice (the batch is redone when a neighbour fails), so a job
    has no effect but through its Tx; what it emitted and counted goes out only when it is committed."""

    __slots__ = ("_ids", "counters", "events", "memo")

    def __init__(self, execute: Execute, now: int, ids: Ids, memo: dict[Hashable, Any] | None = None) -> None:
        super().__init__(execute, now)
        self._ids = ids
        self.memo = {} if memo is None else memo
        """What one job read and the next of the same transaction need not read again. Who changes it must forget it."""
        self.events: list[Event] = []
        self.counters: dict[str, int] | None = None

    def head(self) -> int:
        """As for a snapshot; who has written an event need not ask, since nobody else can write now."""
        return self.events[-1].seq if self.events else super().head()

    def new_id(self, prefix: str) -> str:
        """`<prefix>_<uuid>`, or a bare uuid for an empty prefix; ascending."""
        return self._ids.new(prefix, self.now)

    def emit(
        self,
        family: str,
        type: str,  # noqa: A002 - the column's and the record's name
        subject: str,
        data: msgspec.Struct | dict[str, Any] | bytes,
        *,
        role: str | None = None,
        realm_id: str | None = None,
        namespace: str | None = None,
    ) -> int:
        """Append an event to the feed and return its seq. `data` as bytes is JSON already."""
        raw = data if isinstance(data, bytes) else _encode(data)
        row = (family, type, realm_id, namespace, subject, role, self.now, raw.decode())
        seq = self.execute(EMIT, row).lastrowid
        assert seq is not None
        self.events.append(
            Event(
                seq=seq,
                family=family,
                type=type,
                at=rfc3339(self.now),
                subject=subject,
                role=role,
                realm_id=realm_id,
                namespace=namespace,
                data=msgspec.Raw(raw),
            )
        )
        return seq

    def count(self, name: str, n: int = 1) -> None:
        """Add `n` to the counter `name` of `Database.stats` once this is committed."""
        if self.counters is None:
            self.counters = {}
        self.counters[name] = self.counters.get(name, 0) + n


def last_instant(conn: sqlite3.Connection) -> int:
    """The instant of the newest event, whichever process wrote it; 0 when there is none."""
    row = conn.execute(LAST_INSTANT).fetchone()
    return row[0] if row else 0
