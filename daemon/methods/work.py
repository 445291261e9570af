"""What the methods of `workgraph/` share: whose work it is, checks of params alone, how a write is admitted."""

from __future__ import annotations

from typing import Annotated, Any, Final, Protocol

from msgspec import Meta

from interlock.lifecycle.items import Input
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.work import CONFIRMATIONS, Evidence, OwnerGiven
from interlock.protocol.workgraph import GuardParams
from interlock.stores.tx import Tx
from interlock.stores.workgraph import rows
from interlock.stores.workgraph.judging import Admitted, Guard, admit
from interlock.stores.workgraph.scope import Scope

from ..dispatch import Call

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""A number of a page cursor: somebody may have made the cursor up."""
LIST_KEY: Final = tuple[Int64, str]


class InScope(Protocol):
    """Params of one scope."""

    @property
    def realm_id(self) -> str: ...
    @property
    def namespace(self) -> str: ...


class OfItem(InScope, Protocol):
    """Params that name an item, at a revision that was read."""

    @property
    def id(self) -> str: ...
    @property
    def expected_revision(self) -> int | None: ...


def scope_of(params: InScope) -> Scope:
    """Whose work the params are about."""
    return Scope(params.realm_id, params.namespace)


def wrong(path: str, message: str, expected: str) -> Refusal:
    """The refusal of params that are well formed one by one."""
    return Refusal("invalid_params", message, path=path, expected=expected)


# -- checks of params alone, made before anything else of a call. Each raises `invalid_params`.


def check_title(title: str) -> None:
    """A title is not blank."""
    if not title.strip():
        raise wrong("/title", "a title may not be blank", "some text")


def check_guard(params: Any) -> None:
    """A reason is not blank."""
    if params.reason is not None and not params.reason.strip():
        raise wrong("/reason", "a reason may not be blank", "why")


def check_evidence(evidence: Evidence, path: str) -> None:
    """Evidence that anybody may give has a kind, and none that is reserved."""
    kind = evidence.kind.strip()
    if not kind:
        raise wrong(f"{path}/kind", "a kind may not be blank", "a word for what it is")
    if kind in CONFIRMATIONS:
        message = f"{kind} is reserved: workgraph/goal/confirm writes it"
        raise wrong(f"{path}/kind", message, "another kind")


def check_all_evidence(evidence_refs: list[Evidence]) -> None:
    """The same of each piece."""
    for n, evidence in enumerate(evidence_refs):
        check_evidence(evidence, f"/evidence_refs/{n}")


def check_owner(given: OwnerGiven) -> None:
    """An owner comes in one of its two forms."""
    nested = given.key is not None and given.kind is None and given.id is None
    flat = given.key is None and given.kind is not None and given.id is not None
    if not (nested or flat):
        raise wrong("/owner", "an owner is a key, or a kind and an id", "{key: {kind, id}} or {kind, id}")


def check_lease(params: Any) -> None:
    """How long a lease is comes in one of its two forms."""
    if params.lease_seconds is not None and params.lease_expires_at is not None:
        raise wrong("/lease_expires_at", "say when a lease ends, or how long it is, not both", "one of the two")


def check_claim(params: Any) -> None:
    """Its owner and its lease come each in one form."""
    check_lease(params)
    check_owner(params.owner)


# -- how a write comes to its item


def guard_of(call: Call, params: GuardParams, capability: str | None) -> Guard:
    """What the caller brings to touch a claimed item; `capability` None: to close it."""
    return Guard(params.fence, params.reason, params.binding_id, capability, call.alias)


def admitted(tx: Tx, call: Call, params: OfItem, given: Input, guard: Guard | None = None) -> Admitted:
    """The item that the params name, where `given` is admitted. Raises `not_found`, and as `judging.admit`."""
    item = rows.find(tx, scope_of(params), params.id)
    return admit(tx, item, call.caller, given, expected=params.expected_revision, guard=guard)
