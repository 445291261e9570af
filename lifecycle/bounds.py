"""How much one call looks at, answers or changes, where no record of its own says it (contract daemon 2.1).

The wire announces each under the same name (protocol/limits), and stores/ stops at it.
"""

from __future__ import annotations

from typing import Final

PAGE_BYTES: Final = 4 << 20
"""A page ends early at this size, but never before one of what it is a page of."""

SCAN_ROWS: Final = 10_000
"""A filtered page looks at this many rows at most, so it may be short, or empty, with more behind it."""

CYCLE_EDGES: Final = 50_000
"""Edges that one check for a cycle looks at."""

EXPLAINED: Final = 50
"""Of a kind of wait, as many are shown."""

PRUNE_ROWS: Final = 10_000
"""Rows that one prune of bindings deletes."""

SETTLED: Final = 16
"""Parents that one `claim_next` closes before it takes an item."""
