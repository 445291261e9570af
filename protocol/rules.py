"""The rules of `lifecycle.types`, enforced: whether a value keeps its rule, and what is wrong when it does not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from interlock.lifecycle.times import parse_rfc3339
from interlock.lifecycle.types import Rule

UNBOUNDED: Final = Rule(kind="int").max
"""The `max` of a rule that sets none."""
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_WHITE: Final = re.compile(r"\s")


class Breach(NamedTuple):
    """How a value breaks its rule. `says` follows the field's name in the message, `data` joins the refusal's."""

    code: str
    says: str
    data: dict[str, object] = {}


def breach(rule: Rule, value: Any) -> Breach | None:
    """What is wrong with `value`, which has the Python type that `rule` is about; None when nothing is.

    A bad format comes before a size and a size before a range, so the answer does not depend on the order of rules.
    """
    return _BREACHES[rule.kind](rule, value)


def _malformed(says: str) -> Breach:
    return Breach("invalid_params", says)


def _oversized(rule: Rule, says: str) -> Breach:
    return Breach("too_large", says, {"max": rule.max})


def _of_bytes(rule: Rule, size: int) -> Breach | None:
    if size > rule.max:
        return _oversized(rule, f"has {size} bytes, and at most {rule.max} are allowed")
    if size < rule.min:
        return _malformed("must not be empty" if rule.min == 1 else f"must have at least {rule.min} bytes")
    return None


def _text(rule: Rule, value: str) -> Breach | None:
    return _of_bytes(rule, len(value.encode()))


def _id(rule: Rule, value: str) -> Breach | None:
    trimmed = value.strip()
    if not trimmed:
        return _malformed("must not be empty")
    if _CONTROL.search(trimmed):
        return _malformed("may not contain control characters")
    if trimmed != value:
        return _malformed("may not begin or end with white space")
    return _text(rule, value)


def _name(rule: Rule, value: str) -> Breach | None:
    wrong = _id(rule, value)
    if (wrong is None or wrong.code == "too_large") and _WHITE.search(value):
        return _malformed("may not contain white space")
    return wrong


def _principal(rule: Rule, value: str) -> Breach | None:
    """`role` or `role#session`: each of the two is a name."""
    role, mark, session = value.partition("#")
    part = Rule(kind="name", max=(rule.max - 1) // 2)
    named = [("role", role), ("session", session)] if mark else [("role", role)]
    wrong = [(name, found) for name, text in named if (found := _name(part, text))]
    if not wrong:
        return None
    # The worse of the two: both are at the same path.
    name, found = min(wrong, key=lambda pair: pair[1].code != "invalid_params")
    return found._replace(says=f"is no `role` or `role#session`: the {name} {found.says}" if mark else found.says)


def _time(rule: Rule, value: str) -> Breach | None:
    try:
        parse_rfc3339(value)
    except ValueError as error:
        return _malformed(f"is no valid time: {error}")
    return None


def _number(rule: Rule, value: float) -> Breach | None:
    return None if rule.min <= value <= rule.max else _malformed(f"must be {span(rule)}")


def _limit(rule: Rule, value: float) -> Breach | None:
    if rule.min <= value <= rule.max:
        return None
    data: dict[str, object] = {"max": rule.max}
    if value < rule.min:
        data["min"] = rule.min
    return Breach("limit_out_of_range", f"must be {span(rule)}", data)


def _list(rule: Rule, value: list[Any] | dict[str, Any]) -> Breach | None:
    if len(value) > rule.max:
        return _oversized(rule, f"has {len(value)} entries, and at most {rule.max} are allowed")
    if len(value) < rule.min:
        return _malformed(f"must have at least {rule.min} {'entry' if rule.min == 1 else 'entries'}")
    return None


def _json(rule: Rule, value: Any) -> Breach | None:
    """The bound is on the compact form, so that white space does not count."""
    return _of_bytes(rule, len(msgspec.json.encode(value)))


_BREACHES: Final[dict[str, Callable[[Rule, Any], Breach | None]]] = {
    "id": _id,
    "name": _name,
    "principal": _principal,
    "text": _text,
    "json": _json,
    "time": _time,
    "int": _number,
    "limit": _limit,
    "list": _list,
}


def span(rule: Rule) -> str:
    """The bounds of a number in words."""
    return f"at least {rule.min}" if rule.max == UNBOUNDED else f"from {rule.min} to {rule.max}"


def in_words(rule: Rule) -> str:
    """What belongs where this rule is, for a refusal's `expected` and for the docs."""
    match rule.kind:
        case "id":
            return f"trimmed text without control characters, 1 to {rule.max} bytes"
        case "name":
            return f"a name without white space and control characters, 1 to {rule.max} bytes"
        case "principal":
            return "text `role` or `role#session`"
        case "text":
            return _bytes(rule)
        case "time":
            return "an RFC 3339 time such as 2026-12-01T12:00:00.000Z"
        case "int" | "limit":
            return f"an integer {'of ' if rule.max == UNBOUNDED else ''}{span(rule)}"
        case "json":
            return f"JSON of at most {rule.max} bytes"
        case "list":
            return entries(rule)


def _bytes(rule: Rule) -> str:
    if rule.max == UNBOUNDED:
        return f"text of at least {rule.min} bytes" if rule.min else "text"
    return f"text of {rule.min} to {rule.max} bytes" if rule.min else f"text of at most {rule.max} bytes"


def entries(rule: Rule) -> str:
    """The bounds of a list in words."""
    if rule.max == UNBOUNDED:
        return f"at least {rule.min} entries"
    return f"{rule.min} to {rule.max} entries" if rule.min else f"at most {rule.max} entries"
