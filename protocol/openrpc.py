"""`daemon/discover`: every method with the schemas that the decoder enforces, as an OpenRPC document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, assert_never

import msgspec

from interlock.lifecycle.types import Rule

from .contract import COMMON_ERRORS, AnyMethod
from .errors import CODES
from .limits import LIMITS
from .rules import UNBOUNDED
from .shapes import Items, Leaf, Map, Object, Option, Shape, objects_in, shape_of

OPENRPC: Final = "1.3.2"
_TEMPLATE: Final = "#/components/schemas/{name}"
_TYPES: Final = {"int": "integer", "float": "number", "str": "string"}

Schema = dict[str, Any]


def document(methods: Sequence[AnyMethod], *, version: str) -> dict[str, Any]:
    """The OpenRPC document of these methods, plain values throughout; `version` is that of the program."""
    schemas = _Schemas(methods)
    entries = [_entry(method, schemas) for method in methods]
    return {
        "openrpc": OPENRPC,
        "info": {"title": "interlock", "version": version},
        "methods": entries,
        "components": {"schemas": schemas.components},
        "x-limits": dict(LIMITS),
    }


def _entry(method: AnyMethod, schemas: _Schemas) -> dict[str, Any]:
    return {
        "name": method.name,
        "summary": method.summary,
        "params": _descriptors(schemas.params[method.params]),
        "paramStructure": "by-name",
        "result": {"name": method.result.__name__, "schema": schemas.refs[method.result]},
        "errors": errors_of(method),
        "x-kind": kind_of(method),
        "x-batch": method.batch,
    }


def _descriptors(schema: Schema) -> list[dict[str, Any]]:
    """One per field. OpenRPC wants the required ones first."""
    fields = schema["properties"].items()
    found = [{"name": name, "required": name in schema["required"], "schema": field} for name, field in fields]
    return sorted(found, key=lambda descriptor: not descriptor["required"])


def kind_of(method: AnyMethod) -> str:
    """As the contract writes it: `write+gate` where the gate is asked first."""
    return f"{method.kind}+gate" if method.gate else method.kind


def errors_of(method: AnyMethod) -> list[dict[str, Any]]:
    """One entry per number, as OpenRPC wants it; the string codes that it stands for are in `data`."""
    numbers: dict[int, list[str]] = {}
    for code in dict.fromkeys((*method.errors, *COMMON_ERRORS)):
        numbers.setdefault(CODES[code].number, []).append(code)
    return [
        {"code": number, "message": ", ".join(codes), "data": {"codes": codes}}
        for number, codes in sorted(numbers.items())
    ]


class _Schemas:
    """The JSON schemas of all params and results. `params` are whole, since their fields are listed one by one."""

    def __init__(self, methods: Iterable[AnyMethod]) -> None:
        params = [method.params for method in methods]
        objects = objects_in(*map(shape_of, [*params, *(method.result for method in methods)]))
        refs, components = msgspec.json.schema_components(objects, ref_template=_TEMPLATE)
        self.refs: dict[type, Schema] = dict(zip(objects, refs, strict=True))
        self.components: dict[str, Schema] = components
        for option in objects.values():
            self._complete_object(option)
        used = {option.cls for option in objects.values() for option in _referred(option)}
        results = {method.result for method in methods}
        self.params = {cls: self._whole(cls) for cls in params}
        for cls in set(params) - used - results:
            del self.components[self._name(cls)]

    def _name(self, cls: type) -> str:
        return str(self.refs[cls]["$ref"]).rpartition("/")[2]

    def _whole(self, cls: type) -> Schema:
        return self.components[self._name(cls)]

    def _complete_object(self, option: Object) -> None:
        properties = self._whole(option.cls)["properties"]
        for field in option.fields.values():
            _complete(field.shape, properties[field.name])


def _referred(option: Option) -> Iterator[Object]:
    """The objects that one names in its fields, without itself and without what is inside them."""
    shapes = [field.shape for field in option.fields.values()] if isinstance(option, Object) else []
    while shapes:
        for inner in shapes.pop().options:
            match inner:
                case Object():
                    yield inner
                case Items():
                    shapes.append(inner.item)
                case Map():
                    shapes.append(inner.value)
                case Leaf():
                    pass


def _complete(shape: Shape, schema: Schema) -> None:
    """Write the bounds of rules into a schema, where its type did not say them already."""
    for option in shape.options:
        match option:
            case Leaf():
                _bound(option.rule, _alternative(schema, _TYPES.get(option.type)))
            case Items():
                inner = _alternative(schema, "array")
                _bound(option.rule, inner, "Items")
                _complete(option.item, inner.get("items", {}))
            case Map():
                inner = _alternative(schema, "object")
                _bound(option.rule, inner, "Properties")
                names = inner.get("propertyNames", {})
                _complete(option.key, names)
                if names:
                    inner["propertyNames"] = names
                _complete(option.value, inner.get("additionalProperties", {}))
            case Object():
                pass


def _alternative(schema: Schema, json_type: str | None) -> Schema:
    """The part of a schema that is about values of this type: itself, or one of `anyOf`."""
    if json_type is None:
        return schema
    return next((part for part in schema.get("anyOf", ()) if part.get("type") == json_type), schema)


def _bound(rule: Rule | None, schema: Schema, counted: str = "Length") -> None:
    for name, value in bounds(rule, counted).items() if rule else ():
        schema.setdefault(name, value)


def bounds(rule: Rule, counted: str = "Length") -> dict[str, object]:
    """A rule's bounds in the words of JSON Schema; `counted` is Length, Items or Properties.

    JSON Schema counts characters, rules count bytes: of a text the bound is what it can never have more of.
    """
    match rule.kind:
        case "int" | "limit":
            return _given(minimum=rule.min, maximum=_maximum(rule))
        case "json":
            return _given(**{"x-maxBytes": _maximum(rule)})
        case "time":
            return {"format": "date-time"}
        case "id" | "name" | "principal":
            return _given(minLength=max(rule.min, 1), maxLength=_maximum(rule))
        case "text" | "list":
            return _given(**{f"min{counted}": rule.min or None, f"max{counted}": _maximum(rule)})
        case _:
            assert_never(rule.kind)


def _maximum(rule: Rule) -> int | None:
    return None if rule.max == UNBOUNDED else rule.max


def _given(**values: int | None) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}
