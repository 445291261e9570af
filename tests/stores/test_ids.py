"""Ids: UUIDs of version 7 that ascend."""

from __future__ import annotations

import threading
import uuid

from hypothesis import given
from hypothesis import strategies as st

from interlock.stores.ids import Ids

NOW = 1_700_000_000_000


def test_an_id_is_a_prefix_and_a_uuid_of_version_7_with_the_time_in_front() -> None:
    prefix, _, text = Ids().new("msg", NOW).partition("_")
    minted = uuid.UUID(text)
    assert prefix == "msg"
    assert str(minted) == text
    assert (minted.version, minted.variant) == (7, uuid.RFC_4122)
    assert minted.int >> 80 == NOW


def test_an_empty_prefix_gives_a_bare_uuid() -> None:
    assert uuid.UUID(Ids().new("", NOW)).version == 7


@given(st.lists(st.integers(0, 2**48 - 1), min_size=1, max_size=200))
def test_ids_ascend_whatever_the_clock_does(times: list[int]) -> None:
    ids = Ids()
    minted = [ids.new("x", now) for now in times]
    assert minted == sorted(set(minted))


def test_a_thousand_ids_of_one_millisecond_ascend() -> None:
    ids = Ids()
    minted = [ids.new("", NOW) for _ in range(1000)]
    assert minted == sorted(set(minted))
    assert {text[:13] for text in minted} == {minted[0][:13]}


def test_an_exhausted_millisecond_borrows_from_the_next() -> None:
    ids = Ids(entropy=lambda n: b"\xff" * n)
    before = ids.new("", NOW)
    ids._low = 2**62 - 1
    after = uuid.UUID(ids.new("", NOW))
    assert str(after) > before
    assert after.int >> 80 == NOW + 1
    assert (after.version, after.variant) == (7, uuid.RFC_4122)


def test_all_randomness_comes_from_the_given_source() -> None:
    def mint() -> list[str]:
        ids = Ids(entropy=lambda n: bytes(range(n)))
        return [ids.new("", NOW + i // 3) for i in range(9)]

    assert mint() == mint()


def test_threads_never_mint_the_same_id() -> None:
    ids = Ids()
    minted: list[list[str]] = [[] for _ in range(4)]

    def mint(mine: list[str]) -> None:
        mine.extend(ids.new("", NOW) for _ in range(500))

    threads = [threading.Thread(target=mint, args=(mine,)) for mine in minted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({text for mine in minted for text in mine}) == 2000
    assert all(mine == sorted(mine) for mine in minted)
