"""Filling a page from a walk along an index, of which a filter lets only some rows through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

from interlock.lifecycle.bounds import SCAN_ROWS

Key = tuple[int, str]
"""A place in the order: last change, id."""
Row = TypeVar("Row")


def scan(
    walk: Iterator[Row], fits: Callable[[Row], bool], key_of: Callable[[Row], Key], limit: int
) -> tuple[list[Row], Key | None]:
    """At most `limit` rows that fit, and the key to go on behind; None at the end of the walk.

    Looks at no more than `SCAN_ROWS`, so a page may be short, or empty, with more behind it.
    """
    found: list[Row] = []
    last: Key | None = None
    for row in islice(walk, SCAN_ROWS):
        if fits(row):
            if len(found) == limit:
                return found, key_of(found[-1])
            found.append(row)
        last = key_of(row)
    return found, None if next(walk, None) is None else last
