"""What may not be seen in a log is taken out here, once, for every record (C105)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

REDACTED: Final = "[redacted]"
DEPTH: Final = 8
"""Beyond this a value is shown as its type. It also ends cycles."""
TEXT: Final = 16_384
"""Characters of one text; a traceback fits."""
ITEMS: Final = 100
"""Members of one list or map."""

_WORDS: Final = (
    r"bearer|token|secret|passw|authorization|credential|cookie|"
    r"(?:capability[_-]?id)|(?:(?:recovery|private|api)[_-]?key)"
)
_SECRET_KEY: Final = re.compile(_WORDS, re.IGNORECASE)
# In running text, such as an exception's: `token=abc`, `"bearer": "abc"`, `Authorization: Bearer abc`. And whatever
# looks like a bearer or a recovery key: 64 hexadecimal digits. Every repetition is bounded, so that no text is slow.
_IN_TEXT: Final = re.compile(
    rf"""((?:{_WORDS})[\w-]{{0,40}}\\?["']?\s{{0,8}}[=:]\s{{0,8}}(?:(?:bearer|basic)\s{{1,8}})?|\bbearer\s{{1,8}})"""
    r"""(\\?["'])?(?(2).{0,1024}?\2|[^\s,;)}\]]+)""",
    re.IGNORECASE,
)
_BEARER: Final = re.compile(r"\b[0-9a-f]{64}\b", re.IGNORECASE)


def is_secret(key: str) -> bool:
    """Whether a field of this name is shown as [redacted]."""
    return _SECRET_KEY.search(key) is not None


def clean(value: object, depth: int = 0) -> object:
    """`value` as plain JSON types without secrets, bounded in every direction. Raises only what a `repr` raises."""
    match value:
        case None | bool() | float():
            return value
        case int():
            return value if -(2**63) <= value < 2**63 else str(value)
        case str():
            return clean_text(value)
        case _ if depth >= DEPTH:
            return f"<{type(value).__name__}>"
        case Mapping():
            return _clean_map(value, depth)
        case msgspec.Struct():
            return _clean_map({name: getattr(value, name) for name in value.__struct_fields__}, depth)
        case list() | tuple() | set() | frozenset():
            items = [clean(item, depth + 1) for item in list(value)[:ITEMS]]
            return items if len(value) <= ITEMS else [*items, f"and {len(value) - ITEMS} more"]
        case bytes() | bytearray() | memoryview() | msgspec.Raw():
            return f"<{len(bytes(value))} bytes>"  # what they hold cannot be judged
        case BaseException():
            return clean_text(f"{type(value).__name__}: {value}")
        case _:
            return clean_text(repr(value))


def clean_text(text: str) -> str:
    """`text` without what looks like a secret in it, and not too long. Lone surrogates become question marks."""
    if len(text) > TEXT:
        text = f"{text[: TEXT // 2]} … {len(text) - TEXT} characters … {text[-TEXT // 2 :]}"
    text = _BEARER.sub(REDACTED, _IN_TEXT.sub(rf"\1{REDACTED}", text))
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _clean_map(value: Mapping[object, object], depth: int) -> dict[str, object]:
    cleaned: dict[str, object] = {}
    for key, inner in value.items():
        if len(cleaned) == ITEMS:
            cleaned["…"] = f"and {len(value) - ITEMS} more"
            break
        name = clean_text(str(key))
        cleaned[name] = REDACTED if is_secret(name) and inner is not None else clean(inner, depth + 1)
    return cleaned
