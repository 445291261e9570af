"""Fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .harness import Home, new_home


@pytest.fixture
def home() -> Iterator[Home]:
    """An empty home; nothing runs in it yet."""
    with new_home() as made:
        yield made


@pytest.fixture
def inside(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """An empty home that this process itself lives in, for calling `main` without a new process."""
    for name, value in home.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return home
