"""What is wrong with params, exactly: the slow half of decoding, taken only when the quick half is not content.

It walks the plain JSON value beside the shape of its type and finds the problem that the contract answers first
(daemon 1.1): a wrong field, type, word or format anywhere comes before a size, and a size before a range; among
problems of the same rank the first in the document wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, assert_never

from interlock.lifecycle.types import Rule

from .pointers import Path, label
from .rules import Breach, breach
from .shapes import Items, Leaf, Map, Object, Option, Shape
from .words import describe, kind_of, listed, nearest

RANK: Final = ("invalid_params", "too_large", "limit_out_of_range")
"""Which refusal is answered first."""
_LEAVES: Final[dict[str, tuple[type, ...]]] = {
    "any": (object, bool),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
}
"""In Python a bool is an int; in JSON it is not."""
_INTEGER: Final = re.compile(r"\s*[+-]?[0-9]{1,18}\s*", re.ASCII)
_SECRET: Final = re.compile(
    r"bearer|token|secret|recovery_?key|password|passphrase|credential|private_?key", re.IGNORECASE
)


class Fix(NamedTuple):
    """What would put one value right: `set` it to `value`, `rename` its field to `value`, or `drop` it."""

    how: Literal["set", "rename", "drop"]
    value: object = None


class Problem(NamedTuple):
    """One thing that is wrong. `message` names the field; `data` joins the path in the refusal."""

    code: str
    path: Path
    message: str
    data: dict[str, object]
    fix: Fix | None = None


def is_secret(name: str) -> bool:
    """Whether the value of a field of this name must never be repeated to anybody (contract forked)."""
    return _SECRET.search(name) is not None


def first_problem(shape: Object, params: object) -> Problem | None:
    """The problem that is answered, of params that were decoded to plain values; None when nothing is wrong."""
    if not isinstance(params, dict):
        message = f"`params` must be an object, not {kind_of(params)}"
        return Problem(RANK[0], (), message, {"expected": "an object"})
    first: Problem | None = None
    for problem in _value(Shape((shape,)), params, ()):
        if problem.code == RANK[0]:
            return problem
        if first is None or RANK.index(problem.code) < RANK.index(first.code):
            first = problem
    return first


def _value(shape: Shape, value: object, path: Path) -> Iterator[Problem]:
    """Problems of one value and what is inside it, in document order."""
    if value is None and shape.nullable:
        return
    option = next((option for option in shape.options if _is_of(option, value)), None)
    if option is None:
        yield _mistyped(shape, value, path)
        return
    if isinstance(option, Leaf) and option.words and value not in option.words:
        yield _unknown_word(option.words, str(value), path)
    elif option.rule and (found := breach(option.rule, value)):
        yield _broken(option, found, value, path)
    yield from _inside(shape, option, value, path)


def _inside(shape: Shape, option: Option, value: Any, path: Path) -> Iterator[Problem]:
    match option:
        case Leaf():
            pass
        case Items():
            for index, item in enumerate(islice(value, _most(option.rule))):
                yield from _value(option.item, item, (*path, index))
        case Map():
            for key, item in islice(value.items(), _most(option.rule)):
                yield from _value(option.key, key, (*path, key))
                yield from _value(option.value, item, (*path, key))
        case Object():
            if option.tag_field is None:
                yield from _fields(option, value, path)
            else:
                yield from _tagged(shape, option.tag_field, value, path)
        case _:
            assert_never(option)


def _most(rule: Rule | None) -> int | None:
    """Entries beyond the bound are refused unseen, or a message of a million small ones would take seconds."""
    return rule.max if rule and rule.kind == "list" else None


def _tagged(shape: Shape, tag_field: str, value: dict[str, object], path: Path) -> Iterator[Problem]:
    """One of several objects, told apart by the word in `tag_field`."""
    by_tag = {option.tag: option for option in shape.options if isinstance(option, Object) and option.tag}
    words = Shape((Leaf("str", words=tuple(by_tag)),))
    if tag_field not in value and len(by_tag) > 1:
        yield _missing(tag_field, words, path)
        return
    tag = value.get(tag_field, next(iter(by_tag)))
    if isinstance(tag, str) and tag in by_tag:
        yield from _fields(by_tag[tag], value, path)
    else:
        yield from _value(words, tag, (*path, tag_field))


def _fields(option: Object, value: dict[str, object], path: Path) -> Iterator[Problem]:
    for name, item in value.items():
        field = option.fields.get(name)
        if field is None:
            if option.closed and name != option.tag_field:
                yield _unknown_field(tuple(option.fields), name, path)
            continue
        for problem in _value(field.shape, item, (*path, name)):
            # A client that sends null for "not given", where null means nothing.
            drop = item is None and not field.required
            yield problem._replace(fix=Fix("drop")) if drop else problem
    for name, field in option.fields.items():
        if field.required and name not in value:
            yield _missing(name, field.shape, path)


def _is_of(option: Option, value: object) -> bool:
    match option:
        case Leaf():
            wanted = _LEAVES[option.type]
            return isinstance(value, wanted) and (bool in wanted or not isinstance(value, bool))
        case Items():
            return isinstance(value, list)
        case Map() | Object():
            return isinstance(value, dict)
        case _:
            assert_never(option)


def _mistyped(shape: Shape, value: object, path: Path) -> Problem:
    wanted = describe(shape)
    message = f"`{label(path)}` must be {wanted}, not {kind_of(value)}"
    return Problem(RANK[0], path, message, {"expected": wanted}, _as_integer(shape, value))


def _as_integer(shape: Shape, value: object) -> Fix | None:
    if any(isinstance(option, Leaf) and option.type == "int" for option in shape.options):
        if isinstance(value, str) and _INTEGER.fullmatch(value):
            return Fix("set", int(value))
        if isinstance(value, float) and value.is_integer():
            return Fix("set", int(value))
    return None


def _unknown_word(words: tuple[str, ...], value: str, path: Path) -> Problem:
    best, is_near = nearest(value, words)
    # A secret in the wrong field is one more reason not to repeat what a field like this holds.
    shown = "this" if any(is_secret(str(token)) for token in path) else f'"{value[:40]}"'
    message = f"`{label(path)}` cannot be {shown}; it is {describe(Shape((Leaf('str', words=words),)))}"
    return Problem(RANK[0], path, message, {"expected": best}, Fix("set", best) if is_near else None)


def _unknown_field(known: tuple[str, ...], name: str, path: Path) -> Problem:
    if not known:
        message = f"`{label((*path, name))}` is unknown; no field is known here"
        return Problem(RANK[0], (*path, name), message, {"expected": "no field"}, Fix("drop"))
    best, is_near = nearest(name, known)
    more = f"did you mean `{best}`?" if is_near else f"known here are {listed(known)}"
    fix = Fix("rename", best) if is_near else Fix("drop")
    return Problem(RANK[0], (*path, name), f"`{label((*path, name))}` is unknown; {more}", {"expected": best}, fix)


def _missing(name: str, shape: Shape, path: Path) -> Problem:
    wanted = describe(shape)
    message = f"`{label((*path, name))}` is missing; it is {wanted}"
    return Problem(RANK[0], (*path, name), message, {"expected": wanted})


def _broken(option: Option, found: Breach, value: object, path: Path) -> Problem:
    data: dict[str, object] = {"expected": describe(Shape((option,)))} if found.code == RANK[0] else found.data
    is_text = isinstance(option, Leaf) and option.rule is not None and option.rule.kind == "text"
    trimmed = value.strip() if isinstance(value, str) and not is_text else value
    fix = Fix("set", trimmed) if trimmed != value else None
    return Problem(found.code, path, f"`{label(path)}` {found.says}", data, fix)
