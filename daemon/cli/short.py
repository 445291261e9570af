"""Records that a person writes often, in one word of text: `agent:a` for an owner, `identity:builder` for a target.

Owns this translation into the wire's JSON only. What may stand there is the daemon's to say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import click
from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from .shapes import shape
from .values import JsonValue

_JSON_BEGINS: Final = ("{", "[", "@")
_KIND_AND_ID: Final = "KIND:ID"


class Spelling(NamedTuple):
    """A short form: how it looks, for the help, and what reads it. `read` raises ValueError for what it is not."""

    text: str
    read: Callable[[str], Any]


def spelling(kind: Any) -> Spelling | None:
    """The short form of a type: `<kind>:<id>` of a record with these two, `<tag>[:<value>]` of tagged alternatives.

    `kind` is a struct type, or a tuple of those that are alternatives (`shapes.Shape`).
    """
    if isinstance(kind, tuple):
        return _tagged({str(member.__struct_config__.tag): member for member in kind})
    if isinstance(kind, type) and issubclass(kind, Struct) and {"kind", "id"} <= {f.encode_name for f in fields(kind)}:
        return Spelling(f"`{_KIND_AND_ID}`", _kind_and_id)
    return None


class ShortValue(JsonValue):
    """A JSON value, or its short form."""

    def __init__(self, short: Spelling) -> None:
        super().__init__()
        self.name = "TEXT|JSON"
        self._short = short

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value. Fails as a usage error where the text is neither."""
        if not isinstance(value, str) or value == "-" or value.startswith(_JSON_BEGINS):
            return super().convert(value, param, ctx)
        try:
            return self._short.read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def owner_key(given: str) -> Any:
    """An owner key, from either form. Raises click.UsageError where it is neither."""
    return ShortValue(Spelling(_KIND_AND_ID, _kind_and_id)).convert(given, None, None)


def _kind_and_id(text: str) -> dict[str, str]:
    kind, _, name = text.partition(":")
    if not kind or not name:
        raise ValueError(f"{text!r} is not of the form {_KIND_AND_ID}, such as agent:a")
    return {"kind": kind, "id": name}


def _tagged(members: dict[str, type[Struct]]) -> Spelling:
    valued = {tag: next((f for f in fields(member) if f.required), None) for tag, member in members.items()}
    forms = [f"`{tag}`" if value is None else f"`{tag}:{_form(value)}`" for tag, value in valued.items()]
    text = f"{', '.join(forms[:-1])} or {forms[-1]}"

    def read(given: str) -> dict[str, Any]:
        tag, colon, rest = given.partition(":")
        if tag not in members or bool(colon) != (valued[tag] is not None) or (colon and not rest):
            raise ValueError(f"{given!r} is not of the form {text.replace('`', '')}")
        value = valued[tag]
        name = str(members[tag].__struct_config__.tag_field)
        return {name: tag} | ({} if value is None else {value.encode_name: _value(value, rest)})

    return Spelling(text, read)


def _form(value: FieldInfo) -> str:
    return _KIND_AND_ID if spelling(shape(value.type).kind) else value.encode_name.upper()


def _value(value: FieldInfo, text: str) -> Any:
    kind = shape(value.type).kind
    if kind is int:
        if not text.isdecimal():
            raise ValueError(f"{text!r} is not a valid integer")
        return int(text)
    short = spelling(kind)
    return short.read(text) if short else text
