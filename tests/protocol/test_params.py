"""Decoding of params: what is accepted, what is refused, which of several faults is answered (contract daemon 1.1)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET

from interlock.lifecycle.mail import Causality, Principal, RoleRef
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.types import Seq
from interlock.protocol.contract import Params
from interlock.protocol.daemon import BatchParams, InitializeParams, NoParams, ShutdownParams, WaitParams
from interlock.protocol.diagnose import first_problem
from interlock.protocol.ledger_mail import AttachParams, PullParams, QueryParams, SendParams
from interlock.protocol.ledger_roles import RoleUpsertParams
from interlock.protocol.methods import METHODS
from interlock.protocol.params import Decoder, plain_decode
from interlock.protocol.shapes import shape_of
from interlock.protocol.workgraph_attention import ReassignParams

from .kinds import A_NAME, A_TIME, AN_ID, EveryKind, decode, refusal


class Exact(Params, frozen=True, kw_only=True):
    """All of one thing is required."""

    member: RoleRef
    since: Seq


def test_a_message_with_everything_in_it_is_decoded() -> None:
    value = {
        "kind": "task",
        "to": "builder#s-17",
        "from": {"role": {"role": "planner"}},
        "op_id": "op_1",
        "causality": {"task": "task_1", "hop_budget": 8, "labels": {"area": "wire"}},
        "body": {"text": "Größe\n", "details": {"files": ["a.py"], "share": 0.5}},
        "ts": "2026-12-31T12:00:00.000+01:00",
    }
    params = decode(SendParams, value)
    assert (params.to, params.from_) == ("builder#s-17", Principal(role=RoleRef(role="planner")))
    assert params.causality == Causality(task="task_1", hop_budget=8, labels={"area": "wire"})
    assert (params.body.text, params.body.details) == ("Größe\n", {"files": ["a.py"], "share": 0.5})
    assert params.ts == "2026-12-31T12:00:00.000+01:00"


def test_absent_and_null_are_told_apart_where_a_patch_needs_it() -> None:
    params = decode(RoleUpsertParams, {"name": "a", "admin": None})
    assert (params.admin, params.note_queue) == (None, UNSET)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_method_refuses_a_field_that_it_does_not_know_and_takes_meta(method: Any) -> None:
    found = Decoder(method.params)
    if shape_of(method.params).closed:
        with pytest.raises(Refusal) as caught:
            found.decode(b'{"no_such_field_x":1,"_meta":{}}')
        assert (caught.value.code, caught.value.data["path"]) == ("invalid_params", "/no_such_field_x")
    else:
        found.decode(b'{"no_such_field_x":1,"_meta":{}}')


@pytest.mark.parametrize("raw", [b'{"_meta":{"a":[1]}}', b'{"\\u005fmeta":{}}', b'{"_meta":{},"drain_ms":5000}'])
def test_meta_is_accepted_and_ignored(raw: bytes) -> None:
    assert Decoder(ShutdownParams).decode(raw) == ShutdownParams()


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"_meta": 5}, "/_meta"),
        ({"_meta": None, "no": 1}, "/_meta"),
        ({"filter": {"_meta": {}}}, "/filter/_meta"),
        (b'{"_meta":{"n":9223372036854775808}}', "/_meta/n"),
    ],
)
def test_meta_is_an_object_of_the_outermost_object_without_bad_values(value: object, path: str) -> None:
    assert (refusal(WaitParams, value).code, refusal(WaitParams, value).data["path"]) == ("invalid_params", path)


def test_initialize_takes_any_object_but_no_bad_value() -> None:
    assert decode(InitializeParams, {"clientInfo": {"name": "x"}, "_meta": 5}) == InitializeParams()
    assert refusal(InitializeParams, b'{"a":[9223372036854775808]}').data["path"] == "/a/0"
    assert refusal(InitializeParams, []).data["path"] == ""


BAD_VALUES = [
    (EveryKind, b'{"text":"\\ud800"}', "/text"),
    (EveryKind, b'{"text":"a\\u0000"}', "/text"),
    (EveryKind, b'{"anything":{"a~/b":[1,{"c":9223372036854775808}]}}', "/anything/a~0~1b/1/c"),
    (EveryKind, b'{"thing":{"n":-9223372036854775809}}', "/thing/n"),
    (EveryKind, b'{"number":9223372036854775808}', "/number"),
    (EveryKind, b'{"seq":99999999999999999999}', "/seq"),
    (EveryKind, b'{"share":10000000000000000000}', "/share"),
    (EveryKind, b'{"numbers":{"n":9223372036854775808}}', "/numbers/n"),
    (EveryKind, b'{"no_such":1,"word":"blue","anything":"\\udfff"}', "/anything"),
]


@pytest.mark.parametrize(("params_type", "raw", "path"), BAD_VALUES)
def test_lone_surrogates_nul_and_long_integers_come_first(
    params_type: type[msgspec.Struct], raw: bytes, path: str
) -> None:
    found = refusal(params_type, raw)
    assert (found.code, found.data["path"]) == ("invalid_params", path)


def labelled(labels: object) -> dict[str, object]:
    """A task with these labels."""
    return {"kind": "task", "to": "a", "causality": {"labels": labels}}


TO: dict[str, object] = {"binding_id": "b", "expected_revision": 1}
"""Whom a binding goes to is not said yet."""
KINDS = "`identity`, `session`, `owner`, `lowered_owner`"

# Params, what is refused, its path, and what is expected there.
MALFORMED: list[tuple[type[msgspec.Struct], object, str, str]] = [
    (EveryKind, [], "", "an object"),
    (EveryKind, None, "", "an object"),
    (EveryKind, {"nmae": "a"}, "/nmae", "name"),
    (EveryKind, {"waitMs": 1}, "/waitMs", "wait_ms"),
    (NoParams, {"a": 1}, "/a", "no field"),
    (WaitParams, {"filter": {"mail": {"rloe": "a"}}}, "/filter/mail/rloe", "role"),
    (Exact, {"member": {"role": "a"}}, "/since", "an integer of at least 0"),
    (Exact, {"member": {}, "since": 1}, "/member/role", A_NAME),
    (EveryKind, {"word": "gren"}, "/word", "green"),
    (EveryKind, {"word": "GREEN"}, "/word", "green"),
    (EveryKind, {"word": 1}, "/word", "one of `green`, `red`"),
    (EveryKind, {"flag": 1}, "/flag", "true or false"),
    (EveryKind, {"number": True}, "/number", "an integer"),
    (EveryKind, {"number": 1.5}, "/number", "an integer"),
    (EveryKind, {"number": None}, "/number", "an integer"),
    (EveryKind, {"share": "x"}, "/share", "a number from 0 to 1"),
    (EveryKind, {"text": 5}, "/text", "text of at most 64 bytes"),
    (EveryKind, {"some_text": "ab"}, "/some_text", "text of 3 to 9 bytes"),
    (EveryKind, {"names": "a"}, "/names", "a list of 1 to 3 entries"),
    (EveryKind, {"names": []}, "/names", "a list of 1 to 3 entries"),
    (EveryKind, {"names": ["a", "b c"]}, "/names/1", A_NAME),
    (EveryKind, {"numbers": {"a/b": "1"}}, "/numbers/a~1b", "an integer"),
    (EveryKind, {"thing": [1]}, "/thing", "an object"),
    (SendParams, labelled([]), "/causality/labels", "an object of at most 8 entries"),
    (EveryKind, {"seq": -1}, "/seq", "an integer of at least 0"),
    (EveryKind, {"id": ""}, "/id", AN_ID),
    (EveryKind, {"id": " a"}, "/id", AN_ID),
    (EveryKind, {"id": "a\u2003"}, "/id", AN_ID),
    (EveryKind, {"id": "a\nb"}, "/id", AN_ID),
    (EveryKind, {"id": "a\x7fb"}, "/id", AN_ID),
    (EveryKind, {"id": "a\x85b"}, "/id", AN_ID),
    (EveryKind, {"name": "a b"}, "/name", A_NAME),
    (EveryKind, {"name": "a\u00a0b"}, "/name", A_NAME),
    (EveryKind, {"at": "yesterday"}, "/at", A_TIME),
    (EveryKind, {"at": "2026-02-29T12:00:00Z"}, "/at", A_TIME),
    (EveryKind, {"at": "2026-12-01T12:00:00"}, "/at", A_TIME),
    (EveryKind, {"drawn": 5}, "/drawn", "an object whose `shape` is one of `circle`, `square`"),
    (EveryKind, {"drawn": "circle"}, "/drawn", "an object whose `shape` is one of `circle`, `square`"),
    (ReassignParams, TO, "/target", f"an object whose `kind` is one of {KINDS}"),
    (ReassignParams, {**TO, "target": "a"}, "/target", f"an object whose `kind` is one of {KINDS}"),
    (ReassignParams, {**TO, "target": {}}, "/target/kind", f"one of {KINDS}"),
    (ReassignParams, {**TO, "target": {"kind": "sesion"}}, "/target/kind", "session"),
    (EveryKind, {"drawn": {"radius": 1}}, "/drawn/shape", "one of `circle`, `square`"),
    (EveryKind, {"drawn": {"shape": "sqare"}}, "/drawn/shape", "square"),
    (EveryKind, {"drawn": {"shape": "square", "side": 0}}, "/drawn/side", "an integer from 1 to 9"),
    (EveryKind, {"drawn": {"shape": "circle", "side": 1}}, "/drawn/side", "radius"),
    (EveryKind, {"round": {"radius": 1, "x": 1}}, "/round/x", "radius"),
    (EveryKind, {"round": {"shape": "square"}}, "/round/shape", "circle"),
    (EveryKind, {"one_or_more": 5}, "/one_or_more", f"{A_NAME} or a list of at most 2 entries"),
    (EveryKind, {"one_or_more": ["a", "b c"]}, "/one_or_more/1", A_NAME),
    (EveryKind, {"one_or_named": {"a": -1}}, "/one_or_named/a", "an integer of at least 0"),
    (EveryKind, {"one_or_named": {"a b": 1}}, "/one_or_named/a b", A_NAME),
    (EveryKind, {"evens": [2, 3]}, "/evens/1", "Expected `int` that's a multiple of 2"),
    (EveryKind, {"even": 3}, "/even", "Expected `int` that's a multiple of 2"),
    (SendParams, {"kind": "task", "to": "a#"}, "/to", "text `role` or `role#session`"),
    (SendParams, {"kind": "task", "to": "#a"}, "/to", "text `role` or `role#session`"),
    (SendParams, {"kind": "task", "to": "a#b c"}, "/to", "text `role` or `role#session`"),
    (SendParams, {"kind": "task", "to": {"role": "a"}}, "/to/role", "an object with `role`, `session`"),
    (SendParams, {"kind": "task", "to": 5}, "/to", "text `role` or `role#session` or an object with `role`"),
    (SendParams, labelled({"": "x"}), "/causality/labels/", "text of 1 to 32 bytes"),
    (SendParams, {"to": "a", "from_": "b", "kind": "task"}, "/from_", "from"),
    (BatchParams, {"steps": [{"method": 1}]}, "/steps/0/method", "text"),
]  # fmt: skip


@pytest.mark.parametrize(("params_type", "value", "path", "expected"), MALFORMED)
def test_what_is_malformed_is_refused_with_its_place_and_what_belongs_there(
    params_type: type[msgspec.Struct], value: object, path: str, expected: str
) -> None:
    found = refusal(params_type, value)
    assert (found.code, found.data["path"], found.data["expected"]) == ("invalid_params", path, expected)


OUTSIZED: list[tuple[type[msgspec.Struct], object, str, int]] = [
    (EveryKind, {"text": "x" * 65}, "/text", 64),
    (EveryKind, {"text": "é" * 33}, "/text", 64),
    (EveryKind, {"id": "x" * 257}, "/id", 256),
    (EveryKind, {"name": "é" * 129}, "/name", 256),
    (EveryKind, {"names": ["a", "b", "c", "d"]}, "/names", 3),
    (EveryKind, {"one_or_more": ["a", "b", "c"]}, "/one_or_more", 2),
    (EveryKind, {"anything": "x" * 65535}, "/anything", 65536),
    (EveryKind, {"thing": {"a": "x" * 65536}}, "/thing", 65536),
    (SendParams, {"kind": "task", "to": "x" * 600}, "/to", 256),
    (SendParams, {"kind": "task", "to": f"a#{'x' * 257}"}, "/to", 256),
    (SendParams, labelled({"k" * 33: "v"}), f"/causality/labels/{'k' * 33}", 32),
    (SendParams, labelled(dict.fromkeys("abcdefghi", "v")), "/causality/labels", 8),
    (AttachParams, {"role": "a", "holds": ["m"] * 501}, "/holds", 500),
    (BatchParams, {"steps": [{"method": "m"}] * 65}, "/steps", 64),
]  # fmt: skip


@pytest.mark.parametrize(("params_type", "value", "path", "most"), OUTSIZED)
def test_what_is_larger_than_its_bound_is_too_large(
    params_type: type[msgspec.Struct], value: object, path: str, most: int
) -> None:
    found = refusal(params_type, value)
    assert (found.code, found.data) == ("too_large", {"path": path, "max": most})


@pytest.mark.parametrize(
    ("params_type", "value", "data"),
    [
        (EveryKind, {"wait_ms": 60001}, {"path": "/wait_ms", "max": 60000}),
        (EveryKind, {"wait_ms": -1}, {"path": "/wait_ms", "max": 60000, "min": 0}),
        (EveryKind, {"some_ms": 4}, {"path": "/some_ms", "max": 9, "min": 5}),
        (PullParams, {"limit": 101}, {"path": "/limit", "max": 100}),
        (PullParams, {"limit": 0}, {"path": "/limit", "max": 100, "min": 1}),
        (QueryParams, {"limit": 501}, {"path": "/limit", "max": 500}),
    ],
)
def test_a_limit_or_a_wait_outside_its_bounds_says_the_bounds(
    params_type: type[msgspec.Struct], value: object, data: dict[str, object]
) -> None:
    found = refusal(params_type, value)
    assert (found.code, found.data) == ("limit_out_of_range", data)


ACCEPTED: list[dict[str, object]] = [
    {"text": "é" * 32},
    {"id": "x" * 256},
    {"id": "a b"},
    {"id": "é" * 128},
    {"name": "名" * 85},
    {"some_text": "é" * 4},
    {"anything": "x" * 65534},
    {"anything": [1.5, True, None, {"a": -(2**63)}]},
    {"at": "2026-12-31 23:59:60Z"},
    {"at": "2024-02-29t12:00:00.123456+05:30"},
    {"share": 1},
    {"number": -(2**63)},
    {"seq": 2**63 - 1},
    {"names": ["a", "b", "c"]},
    {"drawn": {"shape": "square", "side": 9}},
    {"round": {"radius": 1}, "id": "a\u00e9" * 70},
    {"one_or_more": ["a", "b"], "one_or_named": {"a": 1}, "evens": [2]},
    {"patched": None},
    {"patched": "x"},
    {"some_ms": 9},
]


@pytest.mark.parametrize("value", ACCEPTED)
def test_what_just_fits_is_accepted(value: dict[str, object]) -> None:
    assert decode(EveryKind, value) == msgspec.convert(value, EveryKind)


def test_white_space_does_not_count_towards_the_size_of_json() -> None:
    spaced = json.dumps({"anything": [1] * 32767}, indent=8).encode()
    assert len(decode(EveryKind, json.loads(spaced)).anything) == 32767
    assert len(Decoder(EveryKind).decode(spaced).anything) == 32767


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"wait_ms": 70000, "text": "x" * 65, "word": "blue"}, "/word"),
        ({"wait_ms": 70000, "text": "x" * 65}, "/text"),
        ({"text": "x" * 65, "names": ["a"] * 4}, "/text"),
        ({"names": ["a"] * 4, "text": "x" * 65}, "/names"),
        ({"flag": 1, "zzz": 1}, "/flag"),
        ({"zzz": 1, "flag": 1}, "/zzz"),
        ({"names": ["a", "b", "c", "d", "e f"]}, "/names"),
        ({"names": ["a", "b c", "d", "e"]}, "/names/1"),
    ],
)
def test_a_format_comes_before_a_size_before_a_range_and_then_the_first_in_the_document(
    value: dict[str, object], path: str
) -> None:
    assert refusal(EveryKind, value).data["path"] == path


def test_entries_beyond_the_bound_of_a_list_are_not_looked_at() -> None:
    assert refusal(EveryKind, {"names": ["a", "b", "c", 5]}).code == "too_large"
    assert refusal(EveryKind, {"names": ["a", "b", 5, "d"]}).code == "invalid_params"


def test_a_decoder_survives_a_refusal_and_says_the_same_again() -> None:
    decoder = Decoder(EveryKind)
    said = []
    for _ in range(2):
        with pytest.raises(Refusal) as caught:
            decoder.decode(b'{"name":"a b"}')
        said.append((caught.value.code, caught.value.message, caught.value.data))
    assert said[0] == said[1]
    assert decoder.decode(b'{"name":"ab"}').name == "ab"


def test_plain_values_are_decoded_as_their_json_would_be() -> None:
    assert plain_decode(PullParams, {"role": "a", "limit": 5}) == PullParams(role="a", limit=5)
    with pytest.raises(Refusal) as caught:
        plain_decode(PullParams, {"limit": 0, "_meta": {}})
    assert (caught.value.code, caught.value.data["path"]) == ("limit_out_of_range", "/limit")


def test_a_type_that_the_wire_does_not_use_is_refused_when_it_is_first_used() -> None:
    with pytest.raises(TypeError, match="has no place on the wire"):
        Decoder(Odd).decode(b"{}")


class Odd(Params, frozen=True, kw_only=True):
    """A field type that JSON has no value for."""

    data: bytes = b""


# Small pieces that are often just right and often just wrong.
TEXTS = st.sampled_from(
    ["", "a", " a", "a b", "é" * 20, "é" * 40, "x" * 64, "x" * 65, "x" * 257, "a\n", "a#b", "名", "red"]
)
TIMES = st.sampled_from(["2026-12-01T12:00:00.000Z", "2026-12-31t12:00:00+01:00", "2026-02-30T12:00:00Z", "noon"])
NUMBERS = st.sampled_from([-1, 0, 1, 4, 5, 9, 10, 60000, 60001, 2**63 - 1, 0.5, 1.0])
LEAVES = TEXTS | TIMES | NUMBERS | st.none() | st.booleans()
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=4
)
DRAWN = st.fixed_dictionaries(
    {}, optional={"shape": st.sampled_from(["circle", "square", "x"]), "radius": NUMBERS, "side": NUMBERS}
)
FIELDS = [name for name in shape_of(EveryKind).fields if name not in ("even", "secret_even", "evens", "drawn", "round")]


@given(st.dictionaries(st.sampled_from([*FIELDS, "other"]), VALUES, max_size=5), DRAWN | st.none())
@example({"at": "2026-12-01T12:00:00.000Z"}, None)
def test_the_quick_half_and_the_exact_half_agree_on_every_value(value: dict[str, Any], drawn: object) -> None:
    value = {**value, "drawn": drawn}
    problem = first_problem(shape_of(EveryKind), value)
    if problem is None:
        assert decode(EveryKind, value) == msgspec.convert(value, EveryKind)
    else:
        assert refusal(EveryKind, value).code == problem.code


def follow(value: object, tokens: list[str]) -> object:
    """What is at these tokens of a pointer."""
    for token in tokens:
        name = token.replace("~1", "/").replace("~0", "~")
        value = value[int(name)] if isinstance(value, list) else value[name]  # type: ignore[index]
    return value


@given(st.dictionaries(st.sampled_from([*FIELDS, "o/t~her"]), VALUES, min_size=1, max_size=3))
def test_a_path_leads_to_what_is_wrong(value: dict[str, Any]) -> None:
    try:
        decode(EveryKind, value)
    except Refusal as found:
        follow(value, str(found.data["path"]).split("/")[1:])
