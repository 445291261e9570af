"""What an entry of the manifest is."""

from __future__ import annotations

from typing import NamedTuple


class Requirement(NamedTuple):
    """A sentence that holds, and the tests without which it would be a claim."""

    id: str
    says: str
    tests: tuple[str, ...]


def says(id_: str, sentence: str, *tests: str) -> Requirement:
    """An entry, as the lists write it."""
    return Requirement(id_, sentence, tests)
