"""Places inside params: JSON pointers (RFC 6901) for programs, dotted labels for people."""

from __future__ import annotations

import re
from typing import Final

Path = tuple[str | int, ...]
"""From the outermost object inwards: keys and list positions."""

_LABEL_LENGTH: Final = 80
_TOKEN_LENGTH: Final = 1024
_PLAIN: Final = re.compile(r"[\w-]+")
_STEP: Final = re.compile(r"\.([^.\[`]+)|\[(\d+)\]")
_PLACE: Final = re.compile(r" - at `\$((?:\.[^.\[`]+|\[\d+\])*)")


def pointer(path: Path) -> str:
    """The RFC 6901 pointer; the empty one is the whole. A key that is longer than any name is cut with an ellipsis."""
    return "".join(f"/{_cut(str(token), _TOKEN_LENGTH).replace('~', '~0').replace('/', '~1')}" for token in path)


def label(path: Path) -> str:
    """How a message names the place: `causality.labels`, `holds[3]`, `labels["a b"]`; `params` is the whole."""
    return _cut("".join(map(_step, path)).removeprefix("."), _LABEL_LENGTH) or "params"


def path_of(message: str) -> Path:
    """The place that a message of msgspec names at its end, as far as it does: it leaves out the keys of maps."""
    place = _PLACE.search(message)
    steps = _STEP.findall(place[1]) if place else []
    return tuple(int(index) if index else name for name, index in steps)


def _step(token: str | int) -> str:
    if isinstance(token, str):
        return f".{token}" if _PLAIN.fullmatch(token) else f'["{token}"]'
    return f"[{token}]"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"
