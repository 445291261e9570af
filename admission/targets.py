"""Canonical targets: every spelling of one session, member or owner is one key (contract workgraph 5.1). Pure.

Who a session belongs to is known to the store alone; it is given, as the member that the session maps to or None.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, assert_never, cast

from interlock.lifecycle.attention import (
    IdentityTarget,
    LoweredTarget,
    OwnerTarget,
    SessionTarget,
    StoredTarget,
    Target,
    TargetOwner,
)
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.types import NAME_BYTES
from interlock.lifecycle.work import OwnerKey, OwnerKind

from .runtime import MemberId

MOB_REALM: Final = "mob."
"""A realm spelled like this belongs to the mob that is named behind it."""
_KEY: Final = re.compile(r"mob/([^/]+)/agent/([^/]+)", re.DOTALL)
_UUID: Final = r"([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})"
_HYPHENS: Final = frozenset({0, 4})
_SESSION: Final = re.compile(rf"(?:session_)?(?:{_UUID}|\{{{_UUID}\}}|urn:uuid:{_UUID})", re.ASCII | re.IGNORECASE)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_WHITE: Final = re.compile(r"\s")


class Canonical(NamedTuple):
    """A target as it is compared and stored. `member` is the one that the key names, registered or not."""

    key: str
    target: StoredTarget
    member: MemberId | None = None


MemberOf = Callable[[str], MemberId | None]
"""From a canonical session id to the member that it maps to."""


def canonical(target: Target, realm_id: str, member_of: MemberOf, path: str = "/target") -> Canonical:
    """What a target is in a realm. Raises `invalid_params` and `too_large`, at `path` or below it."""
    match target:
        case IdentityTarget(identity=identity, mob_id=mob_id):
            return of_member(*names(identity, mob_id, realm_id, path), realm_id=realm_id, path=path)
        case SessionTarget(session_id=spelled):
            return _of_session(session_id(spelled, f"{path}/session_id"), realm_id, member_of, path)
        case OwnerTarget(owner_key=given) | LoweredTarget(owner_key=given):
            trimmed = _trimmed(given.id, f"{path}/owner_key/id")
            if given.kind == "session":
                return _of_session(session_id(trimmed, f"{path}/owner_key/id"), realm_id, member_of, path)
            return _of_owner(OwnerKey(kind=given.kind, id=trimmed), realm_id, path)
        case _:
            assert_never(target)


def session_of(target: Target) -> str | None:
    """The canonical id of the session that a target spells; None where it names somebody else. Raises as above."""
    match target:
        case SessionTarget(session_id=spelled):
            return session_id(spelled, "/target/session_id")
        case OwnerTarget(owner_key=given) | LoweredTarget(owner_key=given) if given.kind == "session":
            return session_id(given.id.strip(), "/target/owner_key/id")
        case _:
            return None


def names(identity: str, mob_id: str | None, realm_id: str, path: str) -> MemberId:
    """A member by its names; the mob is that of the realm by default. Raises `invalid_params`, `too_large`."""
    mob = _name(mob_of(realm_id), "/realm_id") if mob_id is None else _name(mob_id, f"{path}/mob_id")
    member = MemberId(mob, _name(identity, f"{path}/identity"))
    if len(member_id(*member).encode()) > NAME_BYTES:
        raise Refusal(
            "too_large",
            f"`mob_id` and `identity` are too long: the owner key of the member is at most {NAME_BYTES} bytes",
            path=f"{path}/identity",
            max=max(1, NAME_BYTES - len(member_id(mob, "").encode())),
        )
    return member


def mob_of(realm_id: str) -> str:
    """The mob of a realm: what follows `mob.`, else the realm itself."""
    return realm_id.removeprefix(MOB_REALM)


def member_id(mob_id: str, identity: str) -> str:
    """The id of a member's owner key, of kind agent."""
    return f"mob/{mob_id}/agent/{identity}"


def member_key(mob_id: str, identity: str) -> str:
    """The target key of a member."""
    return f"owner:agent:{member_id(mob_id, identity)}"


def session_key(session: str) -> str:
    """The target key of a session, by its canonical id, that belongs to no member."""
    return f"session:{session}"


def of_member(mob_id: str, identity: str, *, realm_id: str, path: str = "") -> Canonical:
    """The target that a member is. Raises `invalid_params` for a foreign mob."""
    return _of_owner(OwnerKey(kind="agent", id=member_id(mob_id, identity)), realm_id, path)


def target_of(key: str) -> StoredTarget:
    """The stored target of a target key."""
    what, _, rest = key.partition(":")
    if what == "session":
        return SessionTarget(session_id=rest)
    kind, _, id_ = rest.partition(":")
    return LoweredTarget(owner_key=TargetOwner(kind=cast(OwnerKind, kind), id=id_))


def session_id(spelled: str, path: str) -> str:
    """The canonical form of a session id. Raises `invalid_params`."""
    match = _SESSION.fullmatch(spelled)
    parts = () if match is None else tuple(part for part in match.groups() if part is not None)
    if not parts or spelled.count("-") not in _HYPHENS:
        raise Refusal(
            "invalid_params",
            f"`{_field(path)}` is no session id: it must be a UUID, with or without `session_` before it",
            path=path,
            expected="a UUID such as 0199c3a2-7c11-7d4e-8a51-3f1d2b6c9e07",
        )
    return "-".join(parts).lower()


def _of_session(session: str, realm_id: str, member_of: MemberOf, path: str) -> Canonical:
    member = member_of(session)
    if member is None:
        return Canonical(session_key(session), SessionTarget(session_id=session))
    return of_member(*member, realm_id=realm_id, path=path)


def _of_owner(owner: OwnerKey, realm_id: str, path: str) -> Canonical:
    member = None
    if owner.kind == "agent" and (match := _KEY.fullmatch(owner.id)):
        member = MemberId(match[1], match[2])
        if realm_id.startswith(MOB_REALM) and member.mob_id != mob_of(realm_id):
            raise _foreign(owner, member.mob_id, realm_id, path)
    stored = LoweredTarget(owner_key=TargetOwner(kind=owner.kind, id=owner.id))
    return Canonical(f"owner:{owner}", stored, member)


def _foreign(owner: OwnerKey, mob_id: str, realm_id: str, path: str) -> Refusal:
    required = f"{MOB_REALM}{mob_id}"
    return Refusal(
        "invalid_params",
        f"{owner} is a member of mob {mob_id}, whose realm is {required}: it cannot be a target in {realm_id}",
        path=path,
        expected=f"a target of mob {mob_of(realm_id)}, or realm_id {required}",
        reason="attention_target_realm_mismatch",
        owner_key=owner,
        mob_id=mob_id,
        required_realm_id=required,
        realm_id=realm_id,
    )


def _name(text: str, path: str) -> str:
    if not text or "/" in text or _WHITE.search(text) or _CONTROL.search(text):
        raise Refusal(
            "invalid_params",
            f"`{_field(path)}` must be a name without white space and without `/`",
            path=path,
            expected=f"a name without white space, control characters and `/`, 1 to {NAME_BYTES} bytes",
        )
    return text


def _trimmed(text: str, path: str) -> str:
    trimmed = text.strip()
    if not trimmed or _CONTROL.search(trimmed):
        raise Refusal(
            "invalid_params",
            f"`{_field(path)}` must be text without control characters, and not blank",
            path=path,
            expected=f"text without control characters, 1 to {NAME_BYTES} bytes",
        )
    return trimmed


def _field(path: str) -> str:
    return path.removeprefix("/").replace("/", ".")
