"""What a field of a method takes, as the command line sees it."""

from __future__ import annotations

import types
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from msgspec import Meta, Struct, UnsetType


class Shape(NamedTuple):
    """What a field takes, absent left out: its type, the metadata around it, and whether it repeats.

    `kind` is a tuple where the field takes one of several tagged records.
    """

    kind: Any
    metas: tuple[Meta, ...]
    many: bool


def shape(annotation: Any) -> Shape:
    """The shape of a field's type: `Annotated` and absent values peeled off, a list opened."""
    kind, metas = _peel(annotation)
    if get_origin(kind) is list:
        inner, inner_metas = _peel(get_args(kind)[0])
        return Shape(inner, inner_metas + metas, True)
    return Shape(kind, metas, False)


def _peel(annotation: Any) -> tuple[Any, tuple[Meta, ...]]:
    metas: tuple[Meta, ...] = ()
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation, *found = get_args(annotation)
            metas += tuple(meta for meta in found if isinstance(meta, Meta))
        elif origin in (Union, types.UnionType):
            members = [kind for kind in get_args(annotation) if kind not in (type(None), UnsetType)]
            if len(members) != 1:
                return _mixed(members, metas)
            annotation = members[0]
        else:
            return annotation, metas


def _mixed(members: list[Any], metas: tuple[Meta, ...]) -> tuple[Any, tuple[Meta, ...]]:
    """A record or its short form in text, or tagged records; any other union is just a JSON value."""
    peeled = [_peel(member) for member in members]
    texts = [found for kind, found in peeled if kind is str]
    if texts:
        return str, metas + texts[0] + (Meta(extra={"mixed": True}),)
    kinds = tuple(kind for kind, _ in peeled)
    return (kinds if all(map(_is_tagged, kinds)) else Any), metas


def _is_tagged(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct) and kind.__struct_config__.tag is not None


def is_mixed(found: Shape) -> bool:
    """Whether a field takes a record or its short form in text."""
    return any((meta.extra or {}).get("mixed") for meta in found.metas)
