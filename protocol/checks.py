"""The decoder's quick check: one function per params type that says whether a decoded value surely keeps all rules.

It is written as source and compiled once, as dataclasses do with their methods: a request passes a dozen rules, and a
function call for each costs more than the rules themselves. Only attribute names of our structs and integers get into
the source; everything else is bound by name. False means "look closer" (`diagnose`), never "refused".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Final, assert_never

import msgspec

from interlock.lifecycle.types import Rule

from .envelope import suspicious
from .rules import breach
from .shapes import Field, Items, Leaf, Map, Object, Option, Shape
from .strictjson import INT64_MAX, INT64_MIN

Check = Callable[[Any, bytes, bool], bool]
"""Takes the decoded struct, the JSON it comes from, and whether that is plain: ASCII without any escape and DEL."""

_REMEMBERED: Final = 4096
"""How many judged names are remembered, per rule: a fleet has few, and says them in every request."""
_USUAL_TIME: Final = re.compile(
    r"[1-9][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?Z"
)
_SCREEN: Final = "not plain or not suspicious(raw)"
"""What is not plain was screened before it was decoded."""
_PYTHON_TYPES: Final = {"any": object, "bool": bool, "int": int, "float": float, "str": str}


def quick_check(shape: Object) -> Check:
    """The check of a decoded struct of this shape."""
    writer = _Writer()
    writer.line(0, "def check(v0, raw, plain):")
    writer.option(shape, "v0", 1)
    writer.line(1, "return True")
    # S102: see above for what is in the source.
    exec(compile("\n".join(writer.lines), f"<check of {shape.cls.__name__}>", "exec"), writer.scope)  # noqa: S102
    check: Check = writer.scope["check"]
    return check


def _needs_look(option: Option) -> bool:
    match option:
        case Leaf():
            return option.rule is not None or option.type in ("any", "int", "float")
        case Items():
            return option.rule is not None or _any_needs_look(option.item)
        case Map():
            return option.rule is not None or _any_needs_look(option.key) or _any_needs_look(option.value)
        case Object():
            return not option.closed or any(_any_needs_look(field.shape) for field in option.fields.values())
        case _:
            assert_never(option)


def _any_needs_look(shape: Shape) -> bool:
    return any(map(_needs_look, shape.options))


class _Writer:
    """Source lines, and what the names in them stand for."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.scope: dict[str, Any] = {
            "UNSET": msgspec.UNSET,
            "encode": msgspec.json.encode,
            "suspicious": suspicious,
            "usual_time": _USUAL_TIME.fullmatch,
        }
        self._names = 0

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self, stem: str, value: object = None) -> str:
        """A name that is used nowhere else, bound to `value`."""
        self._names += 1
        name = f"{stem}{self._names}"
        self.scope[name] = value
        return name

    def fail_unless(self, condition: str, depth: int) -> None:
        self.line(depth, f"if not ({condition}):")
        self.line(depth + 1, "return False")

    def option(self, option: Option, value: str, depth: int) -> None:
        """Lines that return False unless `value`, of the type of this option, surely keeps its rules."""
        if not isinstance(option, Leaf) and option.rule:
            self.fail_unless(self.rule(option.rule, value), depth)
        match option:
            case Leaf():
                self.leaf(option, value, depth)
            case Items():
                self.items(option, value, depth)
            case Map():
                self.map(option, value, depth)
            case Object():
                self.object(option, value, depth)
            case _:
                assert_never(option)

    def leaf(self, option: Leaf, value: str, depth: int) -> None:
        if option.type in ("any", "float"):
            self.fail_unless(_SCREEN, depth)
        elif option.type == "int" and not option.rule:
            self.fail_unless(f"{INT64_MIN} <= {value} <= {INT64_MAX}", depth)
        if option.rule:
            self.fail_unless(self.rule(option.rule, value), depth)

    def items(self, option: Items, value: str, depth: int) -> None:
        if _any_needs_look(option.item):
            item = self.name("v")
            self.line(depth, f"for {item} in {value}:")
            self.shape(option.item, item, depth + 1)

    def map(self, option: Map, value: str, depth: int) -> None:
        if _any_needs_look(option.key) or _any_needs_look(option.value):
            key, item = self.name("v"), self.name("v")
            self.line(depth, f"for {key}, {item} in {value}.items():")
            self.shape(option.key, key, depth + 1)
            self.shape(option.value, item, depth + 1)

    def object(self, option: Object, value: str, depth: int) -> None:
        if not option.closed:
            self.fail_unless(_SCREEN, depth)
        for field in option.fields.values():
            if _any_needs_look(field.shape):
                self.field(field, value, depth)

    def field(self, field: Field, owner: str, depth: int) -> None:
        value = self.name("v")
        self.line(depth, f"{value} = {owner}.{field.attribute}")
        if not field.required and field.default is msgspec.UNSET:
            self.line(depth, f"if {value} is not UNSET:")
            depth += 1
        self.shape(field.shape, value, depth)

    def shape(self, shape: Shape, value: str, depth: int) -> None:
        if shape.nullable:
            self.line(depth, f"if {value} is not None:")
            depth += 1
        # The short form of a value, a text, is the usual one.
        word = "if"
        for option in sorted(shape.options, key=lambda option: isinstance(option, Object)):
            alone = len(shape.options) == 1
            inner = depth if alone else depth + 1
            if not alone:
                self.line(depth, f"{word} type({value}) is {self.name('T', _python_type(option))}:")
                word = "elif"
            self.option(option, value, inner)
            self.line(inner, "pass")

    def rule(self, rule: Rule, value: str) -> str:
        """An expression that is true only where the rule is kept.

        A character has at most four bytes, so most texts need no count of their bytes. What is printable has neither
        control characters nor white space beside the blank.
        """
        match rule.kind:
            case "id":
                fits = f"(len({value}) <= {rule.max // 4} or len({value}) <= {rule.max} and {value}.isascii())"
                return f"{value} and {fits} and (plain or {value}.isprintable()) and {value}.strip() == {value}"
            case "name" | "principal":
                # The length first: only what may be a name is remembered.
                return f"len({value}) <= {rule.max} and {self.name('keeps', _remembering(rule))}({value})"
            case "text":
                fits = f"(len({value}) <= {rule.max // 4} or len({value}.encode()) <= {rule.max})"
                return f"len({value}) >= {rule.min} and {fits}" if rule.min else fits
            case "int" | "limit":
                return f"{rule.min} <= {value} <= {rule.max}"
            case "list":
                return f"{rule.min} <= len({value}) <= {rule.max}"
            case "json":
                return f"len(encode({value})) <= {rule.max}"
            case "time":
                return f"usual_time({value}) or {self.name('keeps', _keeps(rule))}({value})"
            case _:
                assert_never(rule.kind)


@cache
def _remembering(rule: Rule) -> Callable[[Any], bool]:
    return lru_cache(_REMEMBERED)(_keeps(rule))


def _keeps(rule: Rule) -> Callable[[Any], bool]:
    return lambda value: breach(rule, value) is None


def _python_type(option: Option) -> type:
    match option:
        case Leaf():
            return _PYTHON_TYPES[option.type]
        case Items():
            return list
        case Map():
            return dict
        case Object():
            return option.cls
        case _:
            assert_never(option)
