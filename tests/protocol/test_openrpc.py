"""The OpenRPC document says what the decoder does (contract daemon, `daemon/discover`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec
import msgspec.inspect as mi
import pytest
from msgspec import Meta

from interlock.lifecycle.types import Id, Name, Rule
from interlock.protocol.contract import COMMON_ERRORS, Method, Params, Result
from interlock.protocol.errors import CODES
from interlock.protocol.limits import LIMITS
from interlock.protocol.methods import METHODS
from interlock.protocol.openrpc import document

DOCUMENT: Final = document(METHODS, version="1.2.3")
ENTRIES: Final = {entry["name"]: entry for entry in DOCUMENT["methods"]}
SCHEMAS: Final[dict[str, Any]] = DOCUMENT["components"]["schemas"]


def inside(value: object) -> Iterator[dict[str, Any]]:
    """Every object in a JSON value, itself included."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from inside(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from inside(inner)


def test_the_document_has_the_members_that_the_contract_names() -> None:
    assert set(DOCUMENT) == {"openrpc", "info", "methods", "components", "x-limits"}
    assert DOCUMENT["openrpc"].startswith("1.3.")
    assert DOCUMENT["info"] == {"title": "interlock", "version": "1.2.3"}
    assert DOCUMENT["x-limits"] == LIMITS


def test_there_is_one_entry_per_method_and_none_for_an_alias() -> None:
    assert [entry["name"] for entry in DOCUMENT["methods"]] == [method.name for method in METHODS]
    members = {"name", "summary", "params", "paramStructure", "result", "errors", "x-kind", "x-batch"}
    assert all(set(entry) == members for entry in DOCUMENT["methods"])
    assert {entry["paramStructure"] for entry in DOCUMENT["methods"]} == {"by-name"}


def test_the_document_is_json() -> None:
    assert json.loads(json.dumps(DOCUMENT, allow_nan=False)) == DOCUMENT
    assert msgspec.json.decode(msgspec.json.encode(DOCUMENT)) == DOCUMENT


def test_every_reference_leads_to_a_schema_and_every_schema_is_used() -> None:
    references = {part["$ref"] for part in inside(DOCUMENT) if isinstance(part.get("$ref"), str)}
    assert references == {f"#/components/schemas/{name}" for name in SCHEMAS}


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_each_field_of_the_params_has_a_descriptor_and_the_required_ones_come_first(method: Any) -> None:
    descriptors = ENTRIES[method.name]["params"]
    fields = {field.encode_name: field.required for field in msgspec.structs.fields(method.params)}
    assert {entry["name"]: entry["required"] for entry in descriptors} == fields
    assert all(set(entry) == {"name", "required", "schema"} for entry in descriptors)
    assert [entry["required"] for entry in descriptors] == sorted(
        (entry["required"] for entry in descriptors), reverse=True
    )


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_each_error_number_is_there_once_with_all_its_codes(method: Any) -> None:
    errors = ENTRIES[method.name]["errors"]
    said = {code: error["code"] for error in errors for code in error["data"]["codes"]}
    assert said == {code: CODES[code].number for code in (*COMMON_ERRORS, *method.errors)}
    assert len({error["code"] for error in errors}) == len(errors)
    assert all(error["message"] for error in errors)


def test_kind_and_batch_are_those_of_the_method() -> None:
    assert (ENTRIES["ledger/send"]["x-kind"], ENTRIES["ledger/send"]["x-batch"]) == ("write", True)
    assert (ENTRIES["ledger/pull"]["x-kind"], ENTRIES["ledger/pull"]["x-batch"]) == ("async", False)
    gated = Method(name="a/b", summary="s", params=Odd, result=Result, kind="write", gate=True)
    assert document([gated], version="1")["methods"][0]["x-kind"] == "write+gate"


def test_params_that_refuse_unknown_fields_have_records_that_do_so_too() -> None:
    assert SCHEMAS["Causality"]["additionalProperties"] is False
    assert "SendParams" not in SCHEMAS


# Written apart from the code: what JSON Schema calls the bounds of each kind of rule.
UNBOUNDED: Final = 2**63 - 1


def bounds_of(rule: Rule, base: mi.Type) -> dict[str, object]:
    """What the schema of a value under this rule must say."""
    if rule.kind == "time":
        return {"format": "date-time"}
    if rule.kind == "json":
        return {"x-maxBytes": rule.max}
    least, most = {
        mi.IntType: ("minimum", "maximum"),
        mi.FloatType: ("minimum", "maximum"),
        mi.StrType: ("minLength", "maxLength"),
        mi.ListType: ("minItems", "maxItems"),
        mi.DictType: ("minProperties", "maxProperties"),
    }[type(base)]
    low = max(rule.min, 1) if rule.kind in ("id", "name", "principal") else rule.min
    wanted: dict[str, object] = {least: low} if low or least == "minimum" else {}
    return wanted | ({most: rule.max} if rule.max != UNBOUNDED else {})


def rules_in(info: mi.Type) -> Iterator[tuple[Rule, mi.Type]]:
    """Every rule of a field's type with the type that it is about, structs left out."""
    match info:
        case mi.Metadata(type=inner, extra=extra):
            if extra and "rule" in extra:
                yield extra["rule"], inner
            yield from rules_in(inner)
        case mi.UnionType(types=types):
            for inner in types:
                yield from rules_in(inner)
        case mi.CollectionType(item_type=item):
            yield from rules_in(item)
        case mi.DictType(key_type=key, value_type=value):
            yield from rules_in(key)
            yield from rules_in(value)
        case _:
            return


def structs_in(info: mi.Type) -> Iterator[mi.StructType]:
    """Every struct in a type."""
    match info:
        case mi.StructType(fields=fields):
            yield info
            for field in fields:
                yield from structs_in(field.type)
        case mi.Metadata(type=inner):
            yield from structs_in(inner)
        case mi.UnionType(types=types):
            for inner in types:
                yield from structs_in(inner)
        case mi.CollectionType(item_type=item):
            yield from structs_in(item)
        case mi.DictType(value_type=value):
            yield from structs_in(value)
        case _:
            return


def properties_of(cls: type, method: Any) -> dict[str, Any]:
    """The schemas of a struct's fields: a method's own params are in its entry, all else in the components."""
    if cls is method.params and cls.__name__ not in SCHEMAS:
        return {entry["name"]: entry["schema"] for entry in ENTRIES[method.name]["params"]}
    found: dict[str, Any] = SCHEMAS[cls.__name__]["properties"]
    return found


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_bound_of_a_rule_is_in_the_schema_of_its_field(method: Any) -> None:
    missing = []
    for outer in (method.params, method.result):
        for struct in structs_in(mi.type_info(outer)):
            properties = properties_of(struct.cls, method)
            for field in struct.fields:
                parts = list(inside(properties[field.encode_name]))
                for rule, base in rules_in(field.type):
                    wanted = bounds_of(rule, base)
                    if not any(wanted.items() <= part.items() for part in map(hashable, parts)):
                        missing.append(f"{struct.cls.__name__}.{field.name}: {wanted}")
    assert missing == []


def hashable(part: dict[str, Any]) -> dict[str, object]:
    """The members of a schema that are bounds."""
    return {name: value for name, value in part.items() if isinstance(value, int | str)}


class Odd(Params, frozen=True, kw_only=True):
    """Rules whose bounds are written nowhere but in the rule."""

    keys: dict[Annotated[str, Meta(extra={"rule": Rule(kind="name", max=5)})], int] = {}
    ids: Annotated[
        list[Annotated[str, Meta(extra={"rule": Rule(kind="id", max=9)})]] | None,
        Meta(extra={"rule": Rule(kind="list", min=2, max=3)}),
    ] = None
    plain: Annotated[int, Meta(extra={"rule": Rule(kind="limit", min=2, max=3)})] = 2
    shown: Id = "a"
    name: Name | None = None  # fmt: skip


def test_a_bound_that_only_the_rule_knows_is_shown_as_well() -> None:
    entry = document([Method(name="a/b", summary="s", params=Odd, result=Odd, kind="read")], version="1")
    schemas = {field["name"]: field["schema"] for field in entry["methods"][0]["params"]}
    assert schemas["keys"]["propertyNames"] == {"minLength": 1, "maxLength": 5}
    assert schemas["ids"]["anyOf"][0] == {
        "type": "array",
        "items": {"type": "string", "minLength": 1, "maxLength": 9},
        "minItems": 2,
        "maxItems": 3,
    }
    assert schemas["plain"] == {"type": "integer", "minimum": 2, "maximum": 3, "default": 2}
    assert entry["components"]["schemas"].keys() == {"Odd"}
