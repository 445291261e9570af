"""How much is in a page, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocol import paging
from interlock.protocol.contract import PageParams
from interlock.protocol.limits import PAGE_BYTES

MIB = 1 << 20
METHOD = "ledger/query"


def of_sizes(sizes: list[int], limit: int) -> tuple[list[str], object]:
    """A page of texts that are this long as JSON, by number."""
    return paging.page(enumerate(sizes), limit, lambda row: "x" * (row[1] - 2), lambda row: row[0])


def test_a_page_ends_at_its_limit_with_the_key_of_its_last_record() -> None:
    assert of_sizes([3, 3, 3], 2) == (["x", "x"], 1)
    assert of_sizes([3, 3], 2) == (["x", "x"], None)
    assert of_sizes([3], 2) == (["x"], None)
    assert of_sizes([], 2) == ([], None)


def test_a_page_ends_at_4_mib_and_never_before_one_record() -> None:
    assert [len(of_sizes([size] * 5, 5)[0]) for size in (MIB, MIB + 1, 2 * MIB, 4 * MIB, 5 * MIB)] == [4, 3, 2, 1, 1]
    assert of_sizes([5 * MIB, 3], 5)[1] == 0
    assert of_sizes([3, 5 * MIB], 5)[1] == 0
    assert of_sizes([5 * MIB], 5)[1] is None


@given(sizes=st.lists(st.integers(min_value=2, max_value=MIB), max_size=12), limit=st.integers(1, 6))
def test_pages_behind_each_other_have_every_record_once(sizes: list[int], limit: int) -> None:
    met: list[int] = []
    more = True
    while more:
        start = len(met)
        found, key = of_sizes(sizes[start:], limit)
        assert len(found) <= limit
        assert len(found) <= 1 or sum(len(one) + 2 for one in found) <= PAGE_BYTES
        met += [len(one) + 2 for one in found]
        more = key is not None
        assert not more or key == len(found) - 1
    assert met == sizes


def test_what_is_behind_a_page_is_not_read_to_its_end() -> None:
    read: list[int] = []

    def rows() -> Iterator[int]:
        for n in range(100):
            read.append(n)
            yield n

    paging.page(rows(), 3, str, int)
    assert read == [0, 1, 2, 3]


def test_the_ends_of_a_page_say_whether_there_is_more_and_where() -> None:
    params = PageParams(limit=2)
    assert paging.tail(METHOD, params, None) == {"has_more": False, "next_cursor": None}
    for key in (0, 7, "", ["a", 1]):
        ends = paging.tail(METHOD, params, key)
        assert ends["has_more"]
        back = msgspec.structs.replace(params, cursor=ends["next_cursor"])
        assert paging.key_of(METHOD, back, type(key)) == key
