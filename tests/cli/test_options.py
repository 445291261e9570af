"""What is written after a verb becomes exactly the params of its method."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.daemon.cli.families import CLEARED, SHORTCUTS, method_verb
from interlock.daemon.cli.options import collect, describe, method_parameters, require, with_role
from interlock.daemon.cli.settings import Settings
from interlock.daemon.cli.values import parse_json
from interlock.protocol.methods import BY_NAME


def params(name: str, *arguments: str) -> dict[str, Any]:
    """The params that `arguments` make."""
    method = BY_NAME[name]
    verb = method_verb("verb", method)
    ctx = verb.make_context("verb", list(arguments), obj=Settings())
    made = collect(method, ctx.params)
    shortcut = SHORTCUTS.get(name)
    return shortcut.apply(made, ctx.params) if shortcut else made


def refusal(name: str, *arguments: str) -> str:
    """What the usage error says that `arguments` make."""
    with pytest.raises(click.UsageError) as caught:
        params(name, *arguments)
    assert caught.value.exit_code == 2
    return caught.value.format_message()


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("ledger/get", ["--msg-id", "msg_1"], {"msg_id": "msg_1"}),
        ("ledger/get", ["msg_1"], {"msg_id": "msg_1"}),
        ("ledger/role/list", [], {}),
        ("ledger/role/list", ["--limit", "5"], {"limit": 5}),
        ("ledger/role/upsert", ["a", "--admin"], {"name": "a", "admin": True}),
        ("ledger/role/upsert", ["a", "--no-admin"], {"name": "a", "admin": False}),
        ("ledger/role/upsert", ["a", "--max-sessions", "0"], {"name": "a", "max_sessions": 0}),
        (
            "ledger/role/upsert",
            ["a", "--allowed-senders", "b", "--allowed-senders", "c"],
            {"name": "a", "allowed_senders": ["b", "c"]},
        ),
        ("ledger/role/upsert", ["a", "--params", '{"admin": null}'], {"name": "a", "admin": None}),
        ("ledger/role/upsert", ["--params", '{"name": "x", "admin": true}', "a"], {"name": "a", "admin": True}),
        (
            "ledger/pull",
            ["--kinds", "task", "--kinds", "note", "--role", "w"],
            {"kinds": ["task", "note"], "role": "w"},
        ),
        ("ledger/send", ["--to", "w#s1"], {"to": "w#s1"}),
        ("ledger/send", ["--to", '{"role": {"role": "w"}}'], {"to": {"role": {"role": "w"}}}),
        ("ledger/send", ["--from", "a", "--ttl-ms", "5"], {"from": "a", "ttl_ms": 5}),
        ("ledger/send", ["--body", '{"text": "hi"}'], {"body": {"text": "hi"}}),
        ("ledger/send", ["--text", "hi", "--head", "h"], {"body": {"text": "hi", "head": "h"}}),
        ("ledger/send", ["--text", "hi", "--body", '{"details": 1}'], {"body": {"details": 1, "text": "hi"}}),
        ("ledger/send", ["--task", "t1"], {"causality": {"task": "t1"}}),
        ("ledger/send", ["--text", ""], {"body": {"text": ""}}),
        (
            "ledger/role/sync",
            ["--roles", '[{"name": "a"}]', "--roles", '{"name": "b"}'],
            {"roles": [{"name": "a"}, {"name": "b"}]},
        ),
        ("ledger/events/publish", ["--type", "handoff", "--payload", "[1]"], {"type": "handoff", "payload": [1]}),
        ("ledger/events/publish", ["--type", "handoff", "--payload", "7"], {"type": "handoff", "payload": 7}),
        ("ledger/send", ["task", "--to", "w"], {"kind": "task", "to": "w"}),
        ("ledger/fail", ["m", "too old"], {"msg_id": "m", "reason": "too old"}),
        ("workgraph/link", ["blocks", "a", "b"], {"kind": "blocks", "from_id": "a", "to_id": "b"}),
        ("workgraph/link", ["--kind", "parent", "a", "b"], {"kind": "parent", "from_id": "a", "to_id": "b"}),
        ("workgraph/link", ["blocks", "b", "--from-id", "a"], {"kind": "blocks", "from_id": "a", "to_id": "b"}),
        ("workgraph/create", ["--title", "T"], {"title": "T"}),
        ("workgraph/create", ["T", "--labels", "x", "--labels", "y"], {"title": "T", "labels": ["x", "y"]}),
        (
            "workgraph/claim",
            ["w", "--expected-revision", "1", "--owner", "agent:a"],
            {"id": "w", "expected_revision": 1, "owner": {"kind": "agent", "id": "a"}},
        ),
        (
            "workgraph/claim_next",
            ["--owner", '{"kind": "agent", "id": "a", "display_name": "A"}'],
            {"owner": {"kind": "agent", "id": "a", "display_name": "A"}},
        ),
        ("workgraph/list", ["--owner-key", "label:a:b"], {"owner_key": {"kind": "label", "id": "a:b"}}),
        (
            "workgraph/evidence/add",
            ["w", "--evidence", "commit:1f2e"],
            {"id": "w", "evidence": {"kind": "commit", "id": "1f2e"}},
        ),
        (
            "workgraph/create",
            ["T", "--external-refs", "issue:1", "--external-refs", '[{"kind": "url", "id": "x"}]'],
            {"title": "T", "external_refs": [{"kind": "issue", "id": "1"}, {"kind": "url", "id": "x"}]},
        ),
        (
            "workgraph/update",
            ["w", "--clear", "due_at", "--clear", "labels"],
            {"id": "w", "due_at": None, "labels": None},
        ),
        *(
            ("workgraph/goal/create", ["--target", text], {"target": target})
            for text, target in {
                "identity:builder": {"kind": "identity", "identity": "builder"},
                "session:019f": {"kind": "session", "session_id": "019f"},
                "session:urn:uuid:019f": {"kind": "session", "session_id": "urn:uuid:019f"},
                "owner:agent:a": {"kind": "owner", "owner_key": {"kind": "agent", "id": "a"}},
                "lowered_owner:label:a": {"kind": "lowered_owner", "owner_key": {"kind": "label", "id": "a"}},
                '{"kind": "x"}': {"kind": "x"},
            }.items()
        ),
        *(
            ("workgraph/create", ["T", "--completion-policy", text], {"title": "T", "completion_policy": policy})
            for text, policy in {
                "host_confirmed": {"kind": "host_confirmed"},
                "supervisor:agent:boss": {"kind": "supervisor", "owner_key": {"kind": "agent", "id": "boss"}},
                "reviewer_quorum:2": {"kind": "reviewer_quorum", "threshold": 2},
            }.items()
        ),
        ("daemon/wait", ["--filter", '{"mail": {"role": "w"}}'], {"filter": {"mail": {"role": "w"}}}),
        ("initialize", ["--params", '{"any": "thing"}'], {"any": "thing"}),
    ],
)
def test_options_become_params(name: str, arguments: list[str], expected: dict[str, Any]) -> None:
    assert params(name, *arguments) == expected


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=50).filter(lambda t: t != "-"))
def test_any_text_reaches_the_params_unchanged(text: str) -> None:
    assert params("ledger/send", f"--text={text}") == {"body": {"text": text}}


@given(
    value=st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_any_json_value_reaches_the_params_unchanged(value: Any) -> None:
    made = params("ledger/events/publish", "--type", "handoff", f"--params={json.dumps({'payload': value})}")
    assert made["payload"] == value


def test_a_json_value_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "body.json").write_text('{"text": "ü"}', "utf-8")
    assert params("ledger/send", "--body", f"@{tmp_path / 'body.json'}") == {"body": {"text": "ü"}}


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("ledger/send", ["--tex", "hi"], "No such option '--tex'"),
        ("ledger/send", ["--kind", "tsk"], "'tsk' is not one of"),
        ("ledger/send", ["--ttl-ms", "soon"], "not a valid integer"),
        ("ledger/send", ["--body", "{text: hi}"], "no JSON value"),
        ("ledger/send", ["--body", '{"details": NaN}'], "NaN is no JSON number"),
        ("ledger/send", ["--body", '{"details": 1e999}'], "1e999 is no JSON number"),
        ("ledger/send", ["--body", "@/nobody/has/this"], "No such file"),
        ("ledger/send", ["--to", "{oops"], "no JSON value"),
        ("ledger/send", ["--params", "[1]"], "--params takes a JSON object"),
        ("ledger/get", ["a", "--msg-id", "b"], "--msg-id is given twice"),
        ("ledger/get", ["a", "b"], "unexpected extra argument"),
        ("workgraph/link", ["blokcs", "a", "b"], "'blokcs' is not one of"),
        ("workgraph/link", ["blocks", "a", "b", "--to-id", "c"], "--to-id is given twice"),
        ("workgraph/claim_next", ["--owner", "a"], "'a' is not of the form KIND:ID, such as agent:a"),
        ("workgraph/claim_next", ["--owner", "agent:"], "is not of the form"),
        ("workgraph/claim_next", ["--owner", ":a"], "is not of the form"),
        ("workgraph/claim_next", ["--owner", "{"], "no JSON value"),
        (
            "workgraph/goal/create",
            ["--target", "agent:a"],
            "of the form identity:IDENTITY, session:SESSION_ID, owner:KIND:ID or lowered_owner:KIND:ID",
        ),
        ("workgraph/goal/create", ["--target", "identity:"], "is not of the form"),
        ("workgraph/goal/create", ["--target", "identity"], "is not of the form"),
        ("workgraph/goal/create", ["--target", "owner:a"], "is not of the form KIND:ID"),
        ("workgraph/create", ["T", "--completion-policy", "self_attest:x"], "is not of the form"),
        ("workgraph/create", ["T", "--completion-policy", "reviewer_quorum"], "is not of the form"),
        ("workgraph/create", ["T", "--completion-policy", "reviewer_quorum:two"], "'two' is not a valid integer"),
        ("workgraph/update", ["w", "--clear", "title"], "'title' is not one of"),
    ],
)
def test_what_cannot_be_params_is_a_usage_error(name: str, arguments: list[str], said: str) -> None:
    assert said in refusal(name, *arguments)


def test_a_required_field_that_is_missing_is_named_as_its_option() -> None:
    with pytest.raises(click.UsageError, match="--msg-id"):
        require(BY_NAME["ledger/get"], {})
    require(BY_NAME["ledger/get"], {"msg_id": "x"})


@pytest.mark.parametrize(
    ("name", "given_params", "expected"),
    [
        ("ledger/pull", {}, {"role": "w"}),
        ("ledger/pull", {"role": "own"}, {"role": "own"}),
        ("ledger/send", {}, {"from": "w"}),
        ("ledger/get", {"msg_id": "m"}, {"msg_id": "m"}),
    ],
)
def test_the_role_flag_fills_in_role_or_from_where_there_is_one(
    name: str, given_params: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert with_role(BY_NAME[name], given_params, "w") == expected
    assert with_role(BY_NAME[name], given_params, None) == given_params


def test_the_help_of_an_option_has_type_bounds_and_whether_it_is_required() -> None:
    from msgspec.structs import fields

    said = {f.encode_name: describe(f) for name in ("ledger/send", "ledger/pull") for f in fields(BY_NAME[name].params)}
    assert said["kind"] == "One of task, completion, note, control; required."
    assert said["to"] == "`role` or `role#session`, or as a JSON object; required."
    assert said["ttl_ms"] == "A whole number; at least 1."
    assert said["wait_ms"] == "A whole number; 0..60000; default 0."
    assert said["ts"].startswith("RFC 3339 time")
    assert said["kinds"] == "One of task, completion, note, control; repeatable, at most 4."
    assert "{op, task_id, reason?}" in said["control"]
    said = {f.encode_name: describe(f) for f in fields(BY_NAME["workgraph/goal/create"].params)}
    assert said["external_refs"] == "`KIND:ID`, or a JSON object {kind, id, url?}, @file or -; repeatable, at most 64."
    assert said["completion_policy"].startswith("`self_attest`, `host_confirmed`, `principal_confirmed`, `supervisor:K")
    assert said["target"].endswith("or `lowered_owner:KIND:ID`, or a JSON object, @file or -; required.")


def test_what_update_clears_may_be_null_on_the_wire() -> None:
    from msgspec import UNSET
    from msgspec.structs import fields

    patched = [f for f in fields(BY_NAME["workgraph/update"].params) if f.default is UNSET]
    assert tuple(f.encode_name for f in patched if type(None) in get_args(f.type)) == CLEARED


def test_a_method_without_params_takes_none() -> None:
    assert method_parameters(BY_NAME["daemon/ping"]) == []


def test_json_text_keeps_what_it_says() -> None:
    assert parse_json('{"a": 1.5, "b": 9223372036854775807}') == {"a": 1.5, "b": 2**63 - 1}
