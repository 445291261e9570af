"""Times on the wire and in the store: exact inverses, and no text that is no RFC 3339."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.times import MAX_MS, MIN_MS, parse_rfc3339, rfc3339


@given(st.integers(MIN_MS, MAX_MS))
def test_a_time_survives_the_round_trip(ms: int) -> None:
    assert parse_rfc3339(rfc3339(ms)) == ms


@given(st.integers(MIN_MS, MAX_MS), st.integers(MIN_MS, MAX_MS))
def test_texts_sort_as_the_times_do(one: int, other: int) -> None:
    assert (rfc3339(one) < rfc3339(other)) == (one < other)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("2026-12-01T12:00:00Z", "2026-12-01T12:00:00.000Z"),
        ("2026-12-01t12:00:00.5z", "2026-12-01T12:00:00.500Z"),
        ("2026-12-01 12:00:00.0019Z", "2026-12-01T12:00:00.001Z"),
        ("2026-12-01T12:00:00.999999999999Z", "2026-12-01T12:00:00.999Z"),
        ("2026-12-01T00:30:00+01:00", "2026-11-30T23:30:00.000Z"),
        ("2026-12-01T12:00:00-23:59", "2026-12-02T11:59:00.000Z"),
        ("2026-12-01T12:00:00-00:00", "2026-12-01T12:00:00.000Z"),
        ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
        ("1990-12-31T15:59:60-08:00", "1991-01-01T00:00:00.000Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
        ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
    ],
)
def test_any_offset_is_read_and_cut_to_milliseconds(text: str, normal: str) -> None:
    assert rfc3339(parse_rfc3339(text)) == normal


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-12-01",
        "2026-12-01T12:00:00",
        "2026-12-01T12:00Z",
        "2026-12-01T12:00:00.Z",
        "2026-12-01T12:00:00,5Z",
        "2026-12-01T24:00:00Z",
        "2026-12-01T12:60:00Z",
        "2026-12-01T12:00:61Z",
        "2026-12-01T12:00:60Z",
        "2026-13-01T12:00:00Z",
        "2026-02-29T12:00:00Z",
        "2026-12-01T12:00:00+24:00",
        "2026-12-01T12:00:00+0100",
        " 2026-12-01T12:00:00Z",
        "2026-12-01T12:00:00Z\n",
        "٢٠٢٦-12-01T12:00:00Z",
        "20261201T120000Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
    ],
)
def test_a_text_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_rfc3339(text)


@pytest.mark.parametrize("ms", [MIN_MS - 1, MAX_MS + 1])
def test_a_time_beyond_the_calendar_has_no_text(ms: int) -> None:
    with pytest.raises(ValueError, match="years 0001 to 9999"):
        rfc3339(ms)
