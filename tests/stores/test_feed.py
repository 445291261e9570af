"""Pages of the feed: every matching event once, in order, in bounded pages; retention moves the floor."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.events import Event
from interlock.lifecycle.refusal import Refusal
from interlock.stores import feed
from interlock.stores.feed import FeedFilter, FeedPage, events_since, prune_events
from interlock.stores.ids import Ids
from interlock.stores.schema import migrations
from interlock.stores.tx import Tx

ALL = FeedFilter()


def store() -> sqlite3.Connection:
    """An empty store in memory."""
    conn = sqlite3.connect(":memory:", isolation_level=None)
    for migration in migrations():
        for statement in migration.statements:
            conn.execute(statement)
    return conn


def tx(conn: sqlite3.Connection, now: int = 0) -> Tx:
    return Tx(conn.execute, now, Ids())


def filled(n: int) -> sqlite3.Connection:
    """A store with n events, of family f0 and f1 in turn, each a ms after the other."""
    conn = store()
    for i in range(n):
        tx(conn, i).emit(f"f{i % 2}", "noted", f"s{i}", {"i": i})
    return conn


def seqs(page: FeedPage) -> list[int]:
    return [event.seq for event in page.events]


def refusal_of(call: Callable[[], object]) -> Refusal:
    with pytest.raises(Refusal) as refused:
        call()
    return refused.value


def test_a_page_goes_on_where_the_last_one_ended() -> None:
    snap = tx(filled(5))
    first = events_since(snap, None, ALL, 2)
    assert (seqs(first), first.scanned_seq, first.has_more, first.head, first.floor) == ([1, 2], 2, True, 5, 0)
    last = events_since(snap, 2, ALL, 3)
    assert (seqs(last), last.scanned_seq, last.has_more) == ([3, 4, 5], 5, False)
    end = events_since(snap, 5, ALL, 3)
    assert (end.events, end.scanned_seq, end.has_more) == ([], 5, False)


def test_an_empty_feed_is_an_empty_page() -> None:
    page = events_since(tx(store()), 0, ALL, 10)
    assert (page.events, page.scanned_seq, page.has_more, page.head, page.floor) == ([], 0, False, 0, 0)


def test_an_event_comes_back_as_it_was_published() -> None:
    conn = store()
    publisher = tx(conn, 1_796_126_400_123)
    publisher.emit("ledger", "fault", "f", {"ü": "\x1f"}, role="r", realm_id="main", namespace="n")
    publisher.emit("ledger", "fault", "f", b"[1, 2]")
    page = events_since(publisher, 0, ALL, 10)
    assert page.events == publisher.events
    assert page.events[0].at == "2026-12-01T12:00:00.123Z"


def test_a_call_looks_at_so_many_rows_and_no_more() -> None:
    snap = tx(filled(25))
    page = events_since(snap, 0, FeedFilter(subjects=("s24",)), 10, scan_rows=10)
    assert (page.events, page.scanned_seq, page.has_more) == ([], 10, True)
    page = events_since(snap, 20, FeedFilter(subjects=("s24",)), 10, scan_rows=10)
    assert (seqs(page), page.scanned_seq, page.has_more) == ([25], 25, False)


def test_a_page_ends_early_when_it_is_large_but_never_before_one_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "PAGE_BYTES", 1000)
    conn = store()
    for size in (5000, 100, 100, 5000):
        tx(conn).emit("f", "noted", "s", {"x": "x" * size})
    snap = tx(conn)
    pages = [events_since(snap, 0, ALL, 10)]
    while pages[-1].has_more:
        pages.append(events_since(snap, pages[-1].scanned_seq, ALL, 10))
    assert [seqs(page) for page in pages] == [[1], [2, 3], [4]]


def test_a_cursor_below_the_floor_or_above_the_head_is_refused_with_both() -> None:
    conn = filled(6)
    assert prune_events(tx(conn), 3, 10) == (3, False)
    expired = refusal_of(lambda: events_since(tx(conn), 2, ALL, 10))
    assert (expired.code, expired.data) == ("cursor_expired", {"floor": 3, "head": 6})
    ahead = refusal_of(lambda: events_since(tx(conn), 7, ALL, 10))
    assert (ahead.code, ahead.data) == ("cursor_ahead", {"head": 6})
    assert seqs(events_since(tx(conn), None, ALL, 10)) == seqs(events_since(tx(conn), 3, ALL, 10)) == [4, 5, 6]


def test_retention_removes_the_oldest_in_pages_and_says_whether_there_are_more() -> None:
    conn = filled(10)
    assert prune_events(tx(conn), 7, 4) == (4, True)
    assert prune_events(tx(conn), 7, 3) == (3, False)
    assert prune_events(tx(conn), 7, 3) == (0, False)
    assert tx(conn).floor() == 7
    assert prune_events(tx(conn), 1000, 100) == (3, False)
    page = events_since(tx(conn), 10, ALL, 10)
    assert (page.events, page.head, page.floor, page.scanned_seq) == ([], 10, 10, 10)
    assert tx(conn).emit("f", "noted", "s", {}) == 11


def test_retention_reads_one_row_more_than_it_removes() -> None:
    conn = filled(500)
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    conn.set_progress_handler(step, 1)
    prune_events(tx(conn), 2, 100)
    few, steps = steps, 0
    prune_events(tx(conn), 400, 100)
    assert few * 10 < steps


values = st.sampled_from(["a", "b", "c"])
some = st.none() | st.lists(values, min_size=1, max_size=3, unique=True).map(tuple)
filters = st.builds(FeedFilter, types=some, families=some, roles=some, subjects=some)


@given(
    st.lists(st.tuples(values, values, values, st.none() | values), max_size=30),
    filters,
    st.integers(1, 5),
    st.integers(1, 7),
)
def test_paging_finds_what_live_filtering_finds(
    rows: list[tuple[str, str, str, str | None]], wanted: FeedFilter, limit: int, scan_rows: int
) -> None:
    conn = store()
    publisher = tx(conn)
    for family, kind, subject, role in rows:
        publisher.emit(family, kind, subject, {}, role=role)
    found: list[Event] = []
    after, more = 0, True
    while more:
        page = events_since(publisher, after, wanted, limit, scan_rows)
        assert len(page.events) <= limit
        assert page.scanned_seq > after or not page.has_more
        assert page.has_more or page.scanned_seq == page.head
        found += page.events
        after, more = page.scanned_seq, page.has_more
    assert found == [event for event in publisher.events if wanted.matches(event)]
    conn.close()
