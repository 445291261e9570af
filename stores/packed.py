"""Wide rows that leave SQLite as one value.

The driver takes the interpreter's lock anew for each column of each row: 39 columns of 101 rows are 0.9 ms, of which
SQLite has 0.1, and more where other threads run. As one JSON array they are 0.6 ms, decoding included.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

_decode: Final = msgspec.json.Decoder(tuple).decode


def packed(columns: Iterable[str]) -> str:
    """The SQL of one value that holds these; text, integers and NULL come back as they are."""
    return f"json_array({', '.join(columns)})"


def unpacked(row: Any) -> tuple[Any, ...]:
    """The values in a row of one such value."""
    values: tuple[Any, ...] = _decode(row[0])
    return values
