"""Params of MobKit's names in ours: what is refused, ignored, implied, and what the realm is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.lifecycle.refusal import Refusal
from interlock.protocol import (
    mobkit,
    workgraph_attention,
    workgraph_goals,
    workgraph_graph,
    workgraph_items,
)
from interlock.protocol.contract import AnyMethod
from interlock.protocol.methods import METHODS
from interlock.protocol.mobkit_shapes import KINDS
from interlock.protocol.params import Decoder

ALL = (
    *workgraph_items.METHODS,
    *workgraph_graph.METHODS,
    *workgraph_goals.METHODS,
    *workgraph_attention.METHODS,
)
BY_NAME: dict[str, AnyMethod] = {method.name: method for method in ALL}
ALIASED = [BY_NAME[f"workgraph/{name}"] for name in mobkit.NAMES]


def native(method: AnyMethod, realm: str = "default", /, **given: Any) -> dict[str, Any]:
    """What the params become."""
    found: dict[str, Any] = json.loads(mobkit.to_native(method, json.dumps(given).encode(), realm))
    return found


def test_every_name_stands_for_a_method_and_none_is_in_the_catalogue() -> None:
    assert len(set(mobkit.NAMES)) == 24
    assert len(ALIASED) == 24
    assert [method.name for method in METHODS if method.name.startswith("mobkit/")] == []


@pytest.mark.parametrize("method", ALIASED, ids=lambda method: method.name)
@pytest.mark.parametrize("name", ["realm_id", "authority_projection", "principal"])
def test_what_would_claim_something_is_refused_by_every_method(method: AnyMethod, name: str) -> None:
    with pytest.raises(Refusal) as refused:
        native(method, **{name: "default"})
    assert (refused.value.code, refused.value.data["path"]) == ("invalid_params", f"/{name}")
    assert name not in native(method, **{name: None})


@pytest.mark.parametrize(
    ("name", "value"),
    [("namespace", "other"), ("namespace", 1), ("all_namespaces", True), ("all_namespaces", 0), ("all_namespaces", "")],
)
def test_there_is_one_namespace(name: str, value: object) -> None:
    with pytest.raises(Refusal) as refused:
        native(workgraph_items.LIST, **{name: value})
    assert (refused.value.code, refused.value.data["path"]) == ("invalid_params", f"/{name}")


def test_the_one_namespace_may_be_named_and_is_left_out() -> None:
    assert native(workgraph_items.LIST, namespace="default", all_namespaces=False) == {}


def test_null_means_absent_at_every_depth() -> None:
    assert native(workgraph_items.UPDATE, id="work_1", expected_revision=1, description=None, labels=None) == {
        "id": "work_1",
        "expected_revision": 1,
    }
    owner = {"kind": "agent", "id": "a", "display_name": None}
    assert native(workgraph_items.CLAIM, owner=owner)["owner"] == {"kind": "agent", "id": "a"}
    refs = [{"kind": "k", "id": "1", "url": None}]
    assert native(workgraph_items.CREATE, external_refs=refs)["external_refs"] == [{"kind": "k", "id": "1"}]


def test_unknown_fields_are_left_out_at_every_depth() -> None:
    assert native(workgraph_items.GET, id="work_1", include_history=True, _meta={"trace": 1}) == {"id": "work_1"}
    evidence = {"kind": "note", "id": "1", "execution_binding_id": "x", "summary": "s"}
    assert native(workgraph_items.ADD_EVIDENCE, evidence=evidence)["evidence"] == {
        "kind": "note",
        "id": "1",
        "summary": "s",
    }
    target = {"kind": "session", "session_id": "s", "since": 1}
    assert native(workgraph_attention.REASSIGN, target=target)["target"] == {"kind": "session", "session_id": "s"}
    policy = {"kind": "supervisor", "owner_key": {"kind": "agent", "id": "a", "x": 1}, "y": 2}
    assert native(workgraph_goals.POLICY_ESCALATE, completion_policy=policy)["completion_policy"] == {
        "kind": "supervisor",
        "owner_key": {"kind": "agent", "id": "a"},
    }


@pytest.mark.parametrize("target", [{"kind": "robot", "session_id": "s"}, {"session_id": "s"}, "s", 7, ["s"], {}])
def test_what_is_no_value_of_the_type_is_left_for_its_decoder(target: object) -> None:
    assert native(workgraph_attention.REASSIGN, target=target) == {"target": target}


def test_native_params_pass_through() -> None:
    given = {"id": "work_1", "expected_revision": 2, "fence": 3, "reason": "r", "binding_id": "b", "op_id": "o"}
    assert native(workgraph_items.UPDATE, **given) == given
    page = {"cursor": "c", "limit": 7, "order": "updated_desc", "statuses": ["open"]}
    assert native(workgraph_items.LIST, **page) == page


def test_the_realm_joins_every_call_unless_it_is_the_default() -> None:
    assert native(workgraph_items.GET, "mob.m", id="work_1") == {"id": "work_1", "realm_id": "mob.m"}
    assert native(workgraph_items.GET, "default", id="work_1") == {"id": "work_1"}


def test_the_feed_begins_at_the_oldest_for_0_and_is_narrowed_to_what_has_a_kind() -> None:
    assert native(workgraph_graph.EVENTS, after_seq=0) == {"types": list(KINDS)}
    assert native(workgraph_graph.EVENTS, after_seq=5) == {"types": list(KINDS), "after_seq": 5}
    assert native(workgraph_graph.EVENTS, types=["linked"]) == {"types": ["linked"]}
    assert json.loads(mobkit.after(b'{"after_seq":1,"limit":2}', 9)) == {"after_seq": 9, "limit": 2}


def test_text_that_cannot_be_is_refused_by_the_decoder_with_its_path() -> None:
    raw = b'{"title":"a\\u0000b"}'
    with pytest.raises(Refusal) as refused:
        Decoder(workgraph_items.CREATE.params).decode(mobkit.to_native(workgraph_items.CREATE, raw, "default"))
    assert (refused.value.code, refused.value.data["path"]) == ("invalid_params", "/title")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("abkid", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abkid_", max_size=4), inner, max_size=3),
    max_leaves=12,
)
NAMES = st.sampled_from(sorted({name for method in ALIASED for name in method.params.__struct_fields__} - {"realm_id"}))


def outcome(method: AnyMethod, raw: bytes) -> str:
    """The params that the method would be given, or the code of the refusal."""
    try:
        return str(Decoder(method.params).decode(mobkit.to_native(method, raw, "mob.m")).realm_id)
    except Refusal as refused:
        return refused.code


@given(st.sampled_from(ALIASED), st.dictionaries(NAMES, JSON, max_size=5))
def test_whatever_is_given_becomes_params_of_the_realm_or_is_refused(method: AnyMethod, given: dict[str, Any]) -> None:
    expected = ("mob.m", "invalid_params", "limit_out_of_range", "too_large")
    assert outcome(method, json.dumps(given).encode()) in expected


@pytest.mark.parametrize(
    ("mob_config", "realm"),
    [
        ('[mob]\nid = "crew"\n', "mob.crew"),
        ('[mob]\nid = " crew "\n[profiles.a]\nmodel = "m"\n', "mob.crew"),
        ('mob = { id = "größe" }', "mob.größe"),
        ("[mob]\n", "default"),
        ("[mob]\nid = 7\n", "default"),
        ('[mob]\nid = "  "\n', "default"),
        ('[mob]\nid = "a\\u0007b"\n', "default"),
        (f'[mob]\nid = "{"a" * 253}"\n', "default"),
        ('mob = "crew"', "default"),
        ("not = [toml", "default"),
        ("", "default"),
        ('[mob]\nid = "crew"\n' + ".".join("a" * 20_000) + " = 1", "default"),
        ('[mob]\nid = "crew"\n' + " . ".join(['"a"'] * 20_000) + " = 1", "default"),
        ('[mob]\nid = "crew"\nhint = "' + "." * 1000 + "www.example.com " * 300 + " 1.2.3" * 1000 + '"', "mob.crew"),
        ('[mob]\nid = "crew"\nhint = "' + "y" * 500_000 + '"', "mob.crew"),
        ("x = " + "[" * 100_000, "default"),
        (None, "default"),
        ({"mob": {"id": "crew"}}, "default"),
    ],
)
def test_the_realm_is_the_mob_of_the_configuration(mob_config: object, realm: str) -> None:
    assert mobkit.realm_of(mob_config) == realm


def test_a_configuration_is_text_of_a_mebibyte_at_most() -> None:
    with pytest.raises(Refusal) as refused:
        mobkit.realm_of("#" * (1 << 20) + "\n")
    assert (refused.value.code, refused.value.data["path"]) == ("too_large", "/mob_config")
