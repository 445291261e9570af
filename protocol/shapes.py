"""What a params type allows, as a small tree: msgspec's view of the type, with each rule where it applies.

The decoder's check, the diagnosis of a refused value, the schemas and the docs are all read off this one tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

import msgspec
import msgspec.inspect as mi

from interlock.lifecycle.types import Rule

LeafType = Literal["any", "bool", "int", "float", "str"]

_TEXT_RULES: Final = frozenset({"id", "name", "principal", "text", "time"})
_NUMBER_RULES: Final = frozenset({"int", "limit"})


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value without parts. `words` is the closed set it is from, if it is from one."""

    type: LeafType
    rule: Rule | None = None
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Items:
    """A list of any number of the same."""

    item: Shape
    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class Map:
    """An object whose keys the caller chooses."""

    key: Shape
    value: Shape
    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an object: `name` on the wire, `attribute` in Python. Without a default it is required."""

    name: str
    attribute: str
    shape: Shape
    required: bool
    default: object = None


@dataclass(frozen=True, slots=True)
class Object:
    """A struct. `closed` refuses unknown fields; `tag` is the value of `tag_field` that says it is this one."""

    cls: type[msgspec.Struct]
    fields: dict[str, Field]
    closed: bool
    tag_field: str | None = None
    tag: str | None = None
    rule: Rule | None = None


Option = Leaf | Items | Map | Object


@dataclass(frozen=True, slots=True)
class Shape:
    """The alternatives of a value, `null` apart."""

    options: tuple[Option, ...]
    nullable: bool = False


def shape_of(struct: type[msgspec.Struct]) -> Object:
    """The shape of a params, result or record type. TypeError for a field type that the wire does not use."""
    return _shape_of(struct)


@cache
def _shape_of(struct: type[msgspec.Struct]) -> Object:
    info = mi.type_info(struct)
    if not isinstance(info, mi.StructType):
        raise TypeError(f"{struct!r} is no struct")
    return _object(info)


def objects_in(*shapes: Option) -> dict[type[msgspec.Struct], Object]:
    """Every struct that these reach, themselves included, in the order they are met."""
    found: dict[type[msgspec.Struct], Object] = {}
    waiting = list(reversed(shapes))
    while waiting:
        option = waiting.pop()
        if isinstance(option, Object):
            if option.cls in found:
                continue
            found[option.cls] = option
        waiting.extend(inner for shape in reversed(_parts(option)) for inner in reversed(shape.options))
    return found


def _parts(option: Option) -> list[Shape]:
    match option:
        case Items():
            return [option.item]
        case Map():
            return [option.key, option.value]
        case Object():
            return [field.shape for field in option.fields.values()]
        case Leaf():
            return []


def _object(info: mi.StructType) -> Object:
    fields = {
        field.encode_name: Field(
            name=field.encode_name,
            attribute=field.name,
            shape=_shape(field.type),
            required=field.required,
            default=_default(field),
        )
        for field in info.fields
    }
    tag = None if info.tag is None else str(info.tag)
    return Object(info.cls, fields, info.forbid_unknown_fields, info.tag_field, tag)


def _default(field: mi.Field) -> object:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    # A default of UNSET is how a patch tells absent from null; msgspec's view has left it out.
    return msgspec.UNSET if field.default is msgspec.NODEFAULT else field.default


def _shape(info: mi.Type, rules: tuple[Rule, ...] = ()) -> Shape:
    if isinstance(info, mi.Metadata):
        rule = (info.extra or {}).get("rule")
        return _shape(info.type, (*rules, rule) if rule else rules)
    if isinstance(info, mi.UnionType):
        parts = [_shape(inner, rules) for inner in info.types]
        options = tuple(option for part in parts for option in part.options)
        return Shape(options, nullable=any(part.nullable for part in parts))
    if isinstance(info, mi.NoneType):
        return Shape((), nullable=True)
    return Shape((_option(info, rules),), nullable=isinstance(info, mi.AnyType | mi.RawType))


def _option(info: mi.Type, rules: tuple[Rule, ...]) -> Option:
    match info:
        case mi.LiteralType(values=values) if all(isinstance(value, str) for value in values):
            return Leaf("str", words=tuple(str(value) for value in values))
        case mi.CollectionType(item_type=item):
            return Items(_shape(item), _rule(rules, {"list", "json"}))
        case mi.DictType(key_type=key, value_type=value):
            return Map(_shape(key), _shape(value), _rule(rules, {"list", "json"}))
        case mi.StructType():
            return _object(info)
        case _:
            return _leaf(info, rules)


def _leaf(info: mi.Type, rules: tuple[Rule, ...]) -> Leaf:
    kinds: dict[type[Any], tuple[LeafType, frozenset[str]]] = {
        mi.StrType: ("str", _TEXT_RULES),
        mi.IntType: ("int", _NUMBER_RULES),
        mi.FloatType: ("float", _NUMBER_RULES),
        mi.BoolType: ("bool", frozenset()),
        mi.AnyType: ("any", frozenset({"json"})),
        mi.RawType: ("any", frozenset({"json"})),
    }
    if type(info) not in kinds:
        raise TypeError(f"a field of type {info!r} has no place on the wire")
    name, applicable = kinds[type(info)]
    return Leaf(name, _rule(rules, applicable))


def _rule(rules: tuple[Rule, ...], kinds: frozenset[str] | set[str]) -> Rule | None:
    """The innermost rule that is about such a value; of a union each alternative takes what is meant for it."""
    return next((rule for rule in reversed(rules) if rule.kind in kinds), None)
