"""A store that has been worked with for long: items of every kind, their edges, and who attended to them.

The rows are written by the functions that the daemon writes them with, many to a commit and without its sockets: a
store of 100,000 items is made in a minute, and is what the daemon would have made.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from interlock.lifecycle.attention import ProjectionPolicy
from interlock.lifecycle.readiness import PRIORITIES
from interlock.lifecycle.roles import Caller
from interlock.lifecycle.work import Owner, OwnerKey, SelfAttest
from interlock.stores.health import STORE
from interlock.stores.ids import Ids
from interlock.stores.tx import Tx
from interlock.stores.workgraph import attending, changes, claims, edges, rows
from interlock.stores.workgraph.attending import Stance
from interlock.stores.workgraph.changes import NewItem
from interlock.stores.workgraph.claims import Wish
from interlock.stores.workgraph.closing import Ending, close
from interlock.stores.workgraph.judging import Admitted
from interlock.stores.workgraph.rows import Item
from interlock.stores.workgraph.scope import Scope

from .process import running
from .rows import now_ms

SCOPE: Final = Scope("default", "default")
LABELS: Final = 30
HOT: Final = 20
"""Targets that share the whole history: each has attended to a twentieth of the items. The even ones do so now."""
OTHERS: Final = 290
"""Targets beside them that attend to something now."""
GROUP: Final = 10
"""Items that are made together: the first is live, the others have ended."""
GROUPS: Final = 100
"""Of them in one commit."""
DAY_MS: Final = 86_400_000
PAST_MS: Final = 3_600_000

_CALLER: Final = Caller(instance_id="bench", holder="bench", transport="socket", principal="principal:bench")
_STANCE: Final = Stance("pursue", "add_evidence", ProjectionPolicy())
_WORKER: Final = Owner(key=OwnerKey(kind="agent", id="worker"))


def target(n: int) -> dict[str, Any]:
    """The n-th target, as a param."""
    return {"kind": "owner", "owner_key": {"kind": "agent", "id": f"target-{n}"}}


def _key(n: int) -> str:
    return f"owner:agent:target-{n}"


def labels_of(n: int) -> list[str]:
    """A third of the items carry one or two labels."""
    return [] if n % 3 else [f"label-{n % LABELS}", f"label-{n % 7 + LABELS}"][: 1 + n // 3 % 2]


def seeded(home: Path, fill: Callable[[Store], object]) -> None:
    """A state directory in `home` whose store is filled; no daemon runs on it any more."""
    with running(home):
        pass
    with opened(home / "state" / STORE) as store:
        fill(store)


class Store:
    """A store that no daemon has open, written as a daemon would. Its clock starts an hour ago and ticks per commit."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn
        self._ids = Ids()
        self._now = now_ms() - PAST_MS

    @contextmanager
    def tx(self) -> Iterator[Tx]:
        """One transaction."""
        self._now += 1
        self._conn.execute("BEGIN IMMEDIATE")
        yield Tx(self._conn.execute, self._now, self._ids)
        self._conn.execute("COMMIT")


@contextmanager
def opened(path: Path) -> Iterator[Store]:
    """The store at `path`. It is not synced before it is closed."""
    with closing(sqlite3.connect(path, isolation_level=None, cached_statements=256)) as conn:
        for pragma in ("journal_mode = WAL", "synchronous = OFF", "foreign_keys = ON", "cache_size = -262144"):
            conn.execute(f"PRAGMA {pragma}")
        yield Store(conn)
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def history(store: Store, count: int) -> None:
    """`count` items, nine of ten terminal, as many terminal bindings, and 300 that occupy their targets."""
    live: list[Item] = []
    for first in range(0, count, GROUP * GROUPS):
        with store.tx() as tx:
            for n in range(first, min(first + GROUP * GROUPS, count), GROUP):
                live.append(_group(tx, n, live[-1] if live else None))
    with store.tx() as tx:
        for n in [*range(0, HOT, 2), *range(HOT, HOT + OTHERS)]:
            attending.create(tx, live[n % len(live)], _key(n), _STANCE, _CALLER)


def _group(tx: Tx, first: int, before: Item | None) -> Item:
    """Ten items and their edges; the live one."""
    items = [_item(tx, n, gate=n == first and n // GROUP % 10 == 7) for n in range(first, first + GROUP)]
    for item, kind in ((items[1], "parent"), (items[2], "blocks"), (items[3], "related")):
        edges.link(tx, edges.find_ends(tx, SCOPE, kind, item.id, items[0].id), None, None, _CALLER)  # type: ignore[arg-type]
    for n, item in enumerate(items[1:], first + 1):
        _ended(tx, item, n)
    live, kind_of = rows.by_n(tx, items[0].n), first // GROUP % 10
    if kind_of == 6:
        _taken(tx, live)
    elif kind_of == 8:
        changes.block(tx, Admitted(live, _CALLER), "waits for an answer")
    elif kind_of == 9 and before is not None:
        edges.link(tx, edges.find_ends(tx, SCOPE, "blocks", before.id, live.id), None, None, _CALLER)
    return live


def _item(tx: Tx, n: int, *, gate: bool = False) -> Item:
    return changes.create(
        tx,
        SCOPE,
        NewItem(
            title=f"Measure the index of the billing tables, part {n}",
            description="See what the planner makes of it" if n % 4 == 0 else None,
            status="open",
            priority=PRIORITIES[n // GROUP % 3],
            labels=labels_of(n),
            policy=SelfAttest(),
            failed_join="require_success",
            cancelled_join="require_success",
            due_at=tx.now + DAY_MS + n if n % 5 == 0 else None,
            not_before=tx.now + DAY_MS if gate else None,
            snoozed_until=None,
            external_refs=[],
            evidence=[],
        ),
        _CALLER,
    )


def _ended(tx: Tx, item: Item, n: int) -> None:
    """An item that was attended to, claimed and closed. Every ninth has had a second target."""
    for who in (n % HOT, (n + 1) % HOT)[: 1 + (n % GROUP == 1)]:
        attending.create(tx, item, _key(who), _STANCE, _CALLER)
    close(tx, Admitted(_taken(tx, item), _CALLER), Ending("cancelled" if n % GROUP == 9 else "completed"))


def _taken(tx: Tx, item: Item) -> Item:
    return claims.take(tx, item, Wish(_WORKER, tx.now + DAY_MS), _CALLER)


def leases(store: Store, count: int) -> None:
    """`count` items under live claims that end tomorrow."""
    for first in range(0, count, 1000):
        with store.tx() as tx:
            for n in range(first, first + 1000):
                _taken(tx, _item(tx, n))


def waiting(store: Store, count: int) -> None:
    """`count` items more that are ready."""
    with store.tx() as tx:
        for n in range(count):
            _item(tx, n)
