"""RFC 3339 text and integer milliseconds since 1970, each other's exact inverse (DESIGN 3.4)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
MIN_MS: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _SECOND * 1000
MAX_MS: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _SECOND * 1000 + 999
_TEXT: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ]([01]\d|2[0-3]):([0-5]\d):([0-5]\d|60)(?:\.(\d+))?(?:[Zz]|([+-])([01]\d|2[0-3]):([0-5]\d))",
    re.ASCII,
)


@lru_cache(maxsize=1024)
def _prefix(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).isoformat()[:19]


@lru_cache(maxsize=1024)
def _midnight(date: str) -> int:
    return (datetime.fromisoformat(date).replace(tzinfo=UTC) - _EPOCH) // _SECOND


@lru_cache(maxsize=4096)
def rfc3339(ms: int) -> str:
    """`ms` as UTC text with milliseconds and `Z`. ValueError outside the years 0001 to 9999."""
    if not MIN_MS <= ms <= MAX_MS:
        raise ValueError(f"{ms} ms is outside the years 0001 to 9999")
    second, rest = divmod(ms, 1000)
    return f"{_prefix(second)}.{rest:03d}Z"


def parse_rfc3339(text: str) -> int:
    """The instant of an RFC 3339 date-time of any offset, truncated to milliseconds. ValueError for anything else."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError("not an RFC 3339 date-time such as 2026-12-01T12:00:00.000Z")
    date, hour, minute, second, fraction, sign, offset_hour, offset_minute = match.groups()
    seconds = _midnight(date) + int(hour) * 3600 + int(minute) * 60 + int(second)
    if sign:
        offset = int(offset_hour) * 3600 + int(offset_minute) * 60
        seconds -= offset if sign == "+" else -offset
    # RFC 3339 5.7: second 60 is a leap second, only before midnight UTC. It counts as the second after it.
    if second == "60" and seconds % 86400:
        raise ValueError("second 60 is only before midnight UTC")
    ms = seconds * 1000 + (int(fraction[:3].ljust(3, "0")) if fraction else 0)
    if not MIN_MS <= ms <= MAX_MS:
        raise ValueError("outside the years 0001 to 9999 in UTC")
    return ms


def as_text(ms: int | None) -> str | None:
    """An instant as text, where there is one. ValueError as `rfc3339`."""
    return None if ms is None else rfc3339(ms)


def as_ms(text: str | None) -> int | None:
    """A time as milliseconds, where there is one. ValueError as `parse_rfc3339`."""
    return None if text is None else parse_rfc3339(text)
