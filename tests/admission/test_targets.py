"""Every spelling of one target is one key (contract workgraph 5.1)."""

from __future__ import annotations

import uuid
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.admission import targets
from interlock.admission.runtime import MemberId
from interlock.admission.targets import Canonical, canonical
from interlock.lifecycle.attention import (
    IdentityTarget,
    LoweredTarget,
    OwnerTarget,
    SessionTarget,
    Target,
    TargetOwner,
)
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.work import OwnerKey, OwnerKind

SESSION = "0199c3a2-7c11-7d4e-8a51-3f1d2b6c9e07"
MEMBER = "0199c3a2-7c11-7d4e-8a51-3f1d2b6c9e08"
A = MemberId("m", "a")
KEY_OF_A = "owner:agent:mob/m/agent/a"


def owner(kind: OwnerKind, id_: str, *, lowered: bool = False) -> Target:
    key = TargetOwner(kind=kind, id=id_)
    return LoweredTarget(owner_key=key) if lowered else OwnerTarget(owner_key=key)


def of(target: Target, realm: str = "mob.m") -> Canonical:
    return canonical(target, realm, {MEMBER: A}.get)


def refused(target: Target, realm: str = "mob.m") -> Refusal:
    with pytest.raises(Refusal) as caught:
        of(target, realm)
    return caught.value


@pytest.mark.parametrize(
    ("target", "realm", "key"),
    [
        (IdentityTarget(identity="a"), "mob.m", KEY_OF_A),
        (IdentityTarget(identity="a"), "m", KEY_OF_A),
        (IdentityTarget(identity="a", mob_id="m"), "elsewhere", KEY_OF_A),
        (IdentityTarget(identity="a"), "default", "owner:agent:mob/default/agent/a"),
        (SessionTarget(session_id=MEMBER), "mob.m", KEY_OF_A),
        (owner("session", MEMBER), "mob.m", KEY_OF_A),
        (owner("session", MEMBER, lowered=True), "mob.m", KEY_OF_A),
        (owner("agent", "mob/m/agent/a"), "mob.m", KEY_OF_A),
        (owner("agent", " mob/m/agent/a\n", lowered=True), "mob.m", KEY_OF_A),
        (SessionTarget(session_id=SESSION), "mob.m", f"session:{SESSION}"),
        (owner("session", SESSION), "mob.m", f"session:{SESSION}"),
        (owner("session", f" session_{SESSION} ", lowered=True), "mob.m", f"session:{SESSION}"),
        (owner("principal", "ada"), "mob.m", "owner:principal:ada"),
        (owner("agent", "a:b/c"), "mob.m", "owner:agent:a:b/c"),
        (owner("agent", "mob/m/agent/a/b"), "mob.x", "owner:agent:mob/m/agent/a/b"),
        (owner("label", " urgent "), "mob.m", "owner:label:urgent"),
        (owner("label", "mob/x/agent/a"), "mob.m", "owner:label:mob/x/agent/a"),
        (owner("mob", "x"), "mob.m", "owner:mob:x"),
    ],
)
def test_a_target_becomes_its_canonical_key(target: Target, realm: str, key: str) -> None:
    found = of(target, realm)
    assert found.key == key
    assert found.member == (A if key == KEY_OF_A else MemberId("default", "a") if "default" in key else None)


def spellings(session: uuid.UUID) -> list[str]:
    """One session, in every form that is accepted."""
    forms = [str(session), session.hex, f"{{{session}}}", f"{{{session.hex}}}", f"urn:uuid:{session}"]
    prefixed = [f"session_{form}" for form in forms]
    return [cased for form in forms + prefixed for cased in (form, form.upper(), form.title())]


@given(st.uuids())
def test_every_spelling_of_a_session_is_one_key(session: uuid.UUID) -> None:
    ways: list[Any] = [lambda text: SessionTarget(session_id=text)]
    ways += [lambda text: owner("session", text), lambda text: owner("session", text, lowered=True)]
    found = {of(way(text)) for way in ways for text in spellings(session)}
    assert found == {Canonical(f"session:{session}", SessionTarget(session_id=str(session)))}
    assert {targets.session_of(way(text)) for way in ways for text in spellings(session)} == {str(session)}


_IDS = st.text(min_size=1, max_size=40).map(str.strip).filter(lambda text: text and text.isprintable())


@given(st.sampled_from([kind for kind in get_args(OwnerKind) if kind != "session"]), _IDS)
def test_a_key_says_which_target_it_is(kind: OwnerKind, id_: str) -> None:
    found = of(owner(kind, id_), "elsewhere")
    assert found.key == f"owner:{OwnerKey(kind=kind, id=id_)}"
    assert targets.target_of(found.key) == found.target
    assert of(found.target, "elsewhere") == found


@pytest.mark.parametrize("target", [SessionTarget(session_id=SESSION), IdentityTarget(identity="a")])
def test_what_is_returned_can_be_sent_back(target: Target) -> None:
    found = of(target)
    assert targets.target_of(found.key) == found.target
    assert of(found.target) == found


@pytest.mark.parametrize(
    "spelled",
    [
        "",
        "s1",
        f" {SESSION}",
        f"{SESSION}\n",
        SESSION[:-1],
        f"{SESSION}0",
        SESSION.replace("-", "_"),
        SESSION.replace("-", "", 1),
        f"{{{SESSION}",
        f"{SESSION}}}",
        f"uuid:{SESSION}",
        f"session:{SESSION}",
        f"session_session_{SESSION}",
        SESSION.replace("0", "\N{FULLWIDTH DIGIT ZERO}"),
        f"\N{LATIN SMALL LETTER LONG S}ession_{SESSION}",
    ],
)
def test_what_is_no_uuid_is_no_session(spelled: str) -> None:
    for target, path in (
        (SessionTarget(session_id=spelled), "/target/session_id"),
        (owner("session", "x" + spelled), "/target/owner_key/id"),
    ):
        refusal = refused(target)
        assert (refusal.code, refusal.data["path"]) == ("invalid_params", path)
        assert "UUID" in str(refusal.data["expected"])


@pytest.mark.parametrize(
    ("target", "realm", "path"),
    [
        (IdentityTarget(identity=""), "mob.m", "/target/identity"),
        (IdentityTarget(identity=" a"), "mob.m", "/target/identity"),
        (IdentityTarget(identity="a b"), "mob.m", "/target/identity"),
        (IdentityTarget(identity="a/b"), "mob.m", "/target/identity"),
        (IdentityTarget(identity="a\x7f"), "mob.m", "/target/identity"),
        (IdentityTarget(identity="a", mob_id="m/x"), "mob.m", "/target/mob_id"),
        (IdentityTarget(identity="a", mob_id=""), "mob.m", "/target/mob_id"),
        (IdentityTarget(identity="a"), "a realm", "/realm_id"),
        (IdentityTarget(identity="a"), "mob.", "/realm_id"),
        (owner("label", " \n"), "mob.m", "/target/owner_key/id"),
        (owner("label", "a\x00b"), "mob.m", "/target/owner_key/id"),
    ],
)
def test_a_name_that_is_none_is_refused_where_it_stands(target: Target, realm: str, path: str) -> None:
    refusal = refused(target, realm)
    assert (refusal.code, refusal.data["path"]) == ("invalid_params", path)
    assert refusal.data["expected"]


def test_names_that_make_an_owner_key_too_long_are_refused() -> None:
    fits = IdentityTarget(identity="i" * 120, mob_id="m" * (256 - 11 - 120))
    assert len(of(fits, "r").key) == len("owner:agent:") + 256
    refusal = refused(IdentityTarget(identity="i" * 121, mob_id=fits.mob_id), "r")
    assert (refusal.code, refusal.data["path"], refusal.data["max"]) == ("too_large", "/target/identity", 120)


@pytest.mark.parametrize(
    "target",
    [
        IdentityTarget(identity="a", mob_id="m"),
        owner("agent", "mob/m/agent/a"),
        owner("agent", "mob/m/agent/a", lowered=True),
        SessionTarget(session_id=MEMBER),
        owner("session", MEMBER),
    ],
)
def test_a_member_of_another_mob_is_no_target_in_a_realm_of_a_mob(target: Target) -> None:
    refusal = refused(target, "mob.x")
    assert refusal.code == "invalid_params"
    assert refusal.data["reason"] == "attention_target_realm_mismatch"
    assert refusal.data["owner_key"] == OwnerKey(kind="agent", id="mob/m/agent/a")
    assert refusal.data["mob_id"] == "m"
    assert refusal.data["required_realm_id"] == "mob.m"
    assert refusal.data["realm_id"] == "mob.x"
    assert refusal.data["path"] == "/target"
