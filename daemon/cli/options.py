"""Options out of a method's declaration, and params out of options.

Owns the mapping only: what a value may be is the daemon's to say, so that there is one judge of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, get_args, get_origin

import click
from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from interlock.protocol.contract import AnyMethod

from .shapes import Shape, is_mixed, shape
from .short import ShortValue, spelling
from .values import JsonValue

PREFIX: Final = "field_"
"""Of the names under which click keeps a method's fields, so that none collides with a flag."""
POSITIONAL: Final = "unnamed_fields"


def method_parameters(method: AnyMethod) -> list[click.Parameter]:
    """One option per field; the required texts and words are also taken without their names, in their order."""
    declared = fields(method.params)
    parameters: list[click.Parameter] = [_option(field) for field in declared]
    unnamed = positional_fields(method)
    if unnamed:
        metavar = " ".join(f"[{field.encode_name.upper()}]" for field in unnamed)
        parameters.append(click.Argument([POSITIONAL], nargs=-1, metavar=metavar))
    if declared or not method.params.__struct_config__.forbid_unknown_fields:
        help_text = "Params as a JSON object, @file or -; the options win over its fields."
        parameters.append(click.Option(["--params", "params"], type=JsonValue(), metavar="JSON", help=help_text))
    return parameters


def positional_fields(method: AnyMethod) -> list[FieldInfo]:
    """The required fields that are one text or one word each."""
    return [field for field in fields(method.params) if field.required and _is_word(shape(field.type))]


def _is_word(found: Shape) -> bool:
    return (found.kind is str or get_origin(found.kind) is Literal) and not found.many and not is_mixed(found)


def collect(method: AnyMethod, given: Mapping[str, Any]) -> dict[str, Any]:
    """The params that options and --params make together. Raises click.UsageError for params that are no object."""
    base = given.get("params")
    if base is not None and not isinstance(base, dict):
        raise click.UsageError("--params takes a JSON object")
    params = dict(base or {})
    for field in fields(method.params):
        value = given.get(PREFIX + field.name)
        if value is None or value == ():
            continue
        params[field.encode_name] = _flattened(value) if shape(field.type).many else value
    return params | _unnamed(method, given)


def _unnamed(method: AnyMethod, given: Mapping[str, Any]) -> dict[str, Any]:
    """What was written without a name, for the fields that were not named, in their order."""
    values: tuple[str, ...] = given.get(POSITIONAL) or ()
    declared = positional_fields(method)
    unnamed = [field for field in declared if given.get(PREFIX + field.name) is None]
    if len(values) > len(declared):
        raise click.UsageError(f"Got unexpected extra argument ({values[len(declared)]})")
    if len(values) > len(unnamed):
        twice = next(field for field in declared if field not in unnamed)
        raise click.UsageError(f"{option_name(twice)} is given twice")
    return {
        field.encode_name: _type(shape(field.type)).convert(value, None, None)
        for field, value in zip(unnamed, values, strict=False)
    }


def require(method: AnyMethod, params: Mapping[str, Any]) -> None:
    """Raise click.UsageError for the first required field that is missing."""
    for field in fields(method.params):
        if field.required and field.encode_name not in params:
            raise click.UsageError(f"Missing option '{option_name(field)}'.")


def with_role(method: AnyMethod, params: dict[str, Any], role: str | None) -> dict[str, Any]:
    """Params with the role of the flag --role, where the method takes one and none is given."""
    names = {field.encode_name for field in fields(method.params)}
    target = next((name for name in ("role", "from") if name in names), None)
    return params if role is None or target is None or target in params else {**params, target: role}


def option_name(field: FieldInfo) -> str:
    """`--msg-id` of `msg_id`."""
    return "--" + field.encode_name.replace("_", "-")


def _flattened(values: tuple[Any, ...]) -> list[Any]:
    """Each occurrence is one item, or a JSON array of items."""
    return [item for value in values for item in (value if isinstance(value, list) else [value])]


def _option(field: FieldInfo) -> click.Option:
    found = shape(field.type)
    name = option_name(field)
    declared = [f"{name}/--no-{name[2:]}" if found.kind is bool else name, PREFIX + field.name]
    attributes: dict[str, Any] = {} if found.kind is bool else {"type": _type(found), "multiple": found.many}
    if get_origin(found.kind) is Literal:
        attributes["metavar"] = "WORD"
    return click.Option(declared, default=None, help=describe(field), **attributes)


def _type(found: Shape) -> click.ParamType[Any]:
    if get_origin(found.kind) is Literal:
        return click.Choice(get_args(found.kind))
    if is_mixed(found):
        return JsonValue(or_text=True)
    short = spelling(found.kind)
    if short:
        return ShortValue(short)
    simple: dict[Any, click.ParamType[Any]] = {str: click.STRING, int: click.INT, float: click.FLOAT}
    return simple.get(found.kind) or JsonValue()


def describe(field: FieldInfo) -> str:
    """The help of a field's option, from its schema: what belongs there, its bounds, whether it must be there."""
    found = shape(field.type)
    schema: dict[str, Any] = {}
    for meta in reversed(found.metas):
        schema |= meta.extra_json_schema or {}
    parts = [*_kind_help(found, schema), *_bounds_help(found, schema)]
    if field.required:
        parts.append("required")
    elif isinstance(field.default, (str, int)) and not isinstance(field.default, bool):
        parts.append(f"default {field.default}")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _kind_help(found: Shape, schema: Mapping[str, Any]) -> list[str]:
    kind = found.kind
    if get_origin(kind) is Literal:
        return [f"one of {', '.join(get_args(kind))}"]
    short = spelling(kind)
    if isinstance(kind, type) and issubclass(kind, Struct):
        names = [f.encode_name + ("" if f.required else "?") for f in fields(kind)]
        text = f"JSON object {{{', '.join(names)}}}, @file or -"
        return [f"{short.text}, or a {text}" if short else text]
    if short:
        return [f"{short.text}, or a JSON object, @file or -"]
    if schema.get("format") == "date-time":
        return ["RFC 3339 time, such as 2026-12-01T12:00:00Z"]
    described = str(schema.get("description") or {bool: "yes or no", int: "a whole number", str: "text"}.get(kind, ""))
    if is_mixed(found):
        return [f"{described}, or as a JSON object"]
    return [described or "a JSON value, @file or -"]


def _bounds_help(found: Shape, schema: Mapping[str, Any]) -> list[str]:
    low, high = schema.get("minimum"), schema.get("maximum")
    bounds = [f"{low}..{high}" if high is not None else f"at least {low}"] if low is not None else []
    if "maxProperties" in schema:
        bounds.append(f"at most {schema['maxProperties']} members")
    if found.many:
        bounds.append("repeatable" + (f", at most {schema['maxItems']}" if "maxItems" in schema else ""))
    return bounds
