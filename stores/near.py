"""Which known names are like one that nobody has (field C75)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from heapq import nlargest
from typing import Final

NEAR: Final = 5
LOOKED_AT: Final = 64
"""Names on either side that are looked at for near ones, and"""
COMPARED: Final = 8
"""how many of them are compared exactly: a client that repeats a wrong name must not hold the writer."""


def near(name: str, known: Iterable[str]) -> list[str]:
    """Up to five of the known names that are like this one, the likest first."""
    pairs = _pairs(name)
    alike = nlargest(COMPARED, known, key=lambda other: _likeness(pairs, _pairs(other)))
    return difflib.get_close_matches(name, alike, NEAR, 0.5)


def _pairs(name: str) -> set[tuple[str, str]]:
    """The neighbouring characters of a name, its ends included."""
    return set(zip(f" {name}", f"{name} ", strict=True))


def _likeness(a: set[tuple[str, str]], b: set[tuple[str, str]]) -> float:
    """How much two names have in common, cheaply: 0 to 1."""
    return len(a & b) / max(len(a), len(b))
