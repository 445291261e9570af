"""Words for people: what belongs somewhere, what is there instead, and which known word was meant."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Final, assert_never

from .rules import in_words, span
from .shapes import Items, Leaf, Map, Object, Option, Shape

_NEAR: Final = 0.6
_COMPARED: Final = 64
_LISTED: Final = 16
_TYPES: Final = {
    "any": "any JSON value",
    "bool": "true or false",
    "int": "an integer",
    "float": "a number",
    "str": "text",
}
_KINDS: Final[dict[type, str]] = {
    type(None): "null",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}


def nearest(word: str, known: tuple[str, ...]) -> tuple[str, bool]:
    """The known word that is most like this one, and whether it is like it at all. The first wins a tie."""
    sought = _spelled(word)
    matcher = SequenceMatcher(b=sought, autojunk=False)
    best, most = known[0], -1.0
    for candidate in known:
        matcher.set_seq1(_spelled(candidate))
        if (ratio := matcher.ratio()) > most:
            best, most = candidate, ratio
    return best, most >= _NEAR


def _spelled(word: str) -> str:
    """Other people's spelling of the same word; cut, for comparing takes the square of the length."""
    return word[:_COMPARED].lower().replace("-", "_").replace(" ", "_")


def describe(shape: Shape) -> str:
    """What belongs here, in a few words."""
    options = sorted(shape.options, key=lambda option: isinstance(option, Object))
    kinds = [option for option in options if isinstance(option, Object) and option.tag is not None]
    if len(kinds) < 2:
        return " or ".join(dict.fromkeys(map(_describe, options))) or "null"
    others = [_describe(option) for option in options if option not in kinds]
    return " or ".join(dict.fromkeys([*others, _told_apart(kinds)]))


def _told_apart(kinds: list[Object]) -> str:
    """Objects of which a word in one field says which one it is."""
    tags = tuple(str(kind.tag) for kind in kinds)
    return f"an object whose `{kinds[0].tag_field}` is one of {listed(tags)}"


def _describe(option: Option) -> str:
    match option:
        case Leaf(words=words) if words:
            return f"one of {listed(words)}" if len(words) > 1 else listed(words)
        case Leaf(rule=rule) if rule:
            return f"a number {span(rule)}" if option.type == "float" else in_words(rule)
        case Leaf():
            return _TYPES[option.type]
        case Items(rule=rule):
            return f"a list of {in_words(rule)}" if rule and rule.kind == "list" else "a list"
        case Map(rule=rule):
            return f"an object of {in_words(rule)}" if rule and rule.kind == "list" else "an object"
        case Object(fields=fields):
            return f"an object with {listed(tuple(fields))}" if fields else "an object"
        case _:
            assert_never(option)


def listed(words: tuple[str, ...]) -> str:
    """The first of these words, as code."""
    shown = ", ".join(f"`{word}`" for word in words[:_LISTED])
    return f"{shown}, …" if len(words) > _LISTED else shown


def kind_of(value: object) -> str:
    """What a plain JSON value is."""
    return _KINDS[type(value)]
