"""The corrected params that a refusal shows as `example`, where mending the one thing that is wrong is enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from .diagnose import Fix, Problem, is_secret
from .pointers import Path

EXAMPLE_BYTES: Final = 4096
"""A larger one would be more noise than help."""


def corrected(params: object, problem: Problem, is_clean: Callable[[bytes], bool]) -> object | None:
    """`params` with the problem mended.

    None when that takes a guess, is not enough, is too large, or would repeat a secret. `is_clean` says of encoded
    params whether they would be accepted.
    """
    if problem.fix is None or not problem.path:
        return None
    mended = _mended(params, problem.path, problem.fix)
    if _holds_secret(mended) or (problem.fix.how == "drop" and _at(mended, problem.path[:-1]) == {}):
        return None  # an inner object that lost its only field says nothing any more: what belongs there is a guess
    encoded = msgspec.json.encode(mended)
    return mended if len(encoded) <= EXAMPLE_BYTES and is_clean(encoded) else None


def _mended(value: Any, path: Path, fix: Fix) -> Any:
    """A copy, with the value at `path` mended; what is not on the way there is shared."""
    here, rest = path[0], path[1:]
    if isinstance(value, list):
        return [_inner(item, rest, fix) if index == here else item for index, item in enumerate(value)]
    mended: dict[str, Any] = {}
    for name, item in value.items():
        if name != here:
            mended.setdefault(name, item)
        elif rest or fix.how == "set":
            mended[name] = _inner(item, rest, fix)
        elif fix.how == "rename":
            mended[str(fix.value)] = value.get(str(fix.value), item)
    return mended


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value if path else None


def _inner(value: Any, rest: Path, fix: Fix) -> Any:
    return _mended(value, rest, fix) if rest else fix.value


def _holds_secret(value: object) -> bool:
    if isinstance(value, dict):
        return any(is_secret(name) or _holds_secret(item) for name, item in value.items())
    return isinstance(value, list) and any(map(_holds_secret, value))
