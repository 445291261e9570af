"""`workgraph/goal/*` and `workgraph/policy/escalate`."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from interlock.lifecycle import completion
from interlock.lifecycle.attention import OCCUPYING
from interlock.lifecycle.authority import TRUSTED_PRINCIPAL
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.roles import Caller
from interlock.lifecycle.work import (
    CompletionPolicy,
    Evidence,
    HostConfirmed,
    OwnerKey,
    PrincipalConfirmed,
    SelfAttest,
    Supervisor,
)
from interlock.protocol import workgraph_goals as contract
from interlock.protocol.workgraph import BindingParams
from interlock.protocol.workgraph_items import ItemFields, ItemResult
from interlock.stores.tx import Snapshot, Tx
from interlock.stores.workgraph import attending, bindings, changes, closing, registering, rows
from interlock.stores.workgraph.attending import Stance
from interlock.stores.workgraph.bindings import Binding
from interlock.stores.workgraph.judging import Admitted, Guard, admit, transition
from interlock.stores.workgraph.occupancy import check_free
from interlock.stores.workgraph.rows import Item

from ..admitting import by_target
from ..dispatch import Call, reads, writes
from .items import check_beginning, ending_of, new_item
from .work import admitted, check_all_evidence, check_evidence, check_guard, check_title, scope_of, wrong

_DEFAULTS: Final = {
    field.name: field.default_factory() if callable(field.default_factory) else field.default
    for field in structs.fields(ItemFields)
    if field.name not in ("op_id", "realm_id", "namespace")
}


def _goal(tx: Tx | Snapshot, item: Item, binding: Binding) -> contract.GoalResult:
    return contract.GoalResult(item=rows.record(tx, item), attention=bindings.record(tx, binding))


def _check_goal(params: contract.GoalCreateParams) -> None:
    """A goal is a new item by its title, or an existing one, which brings its own fields and is bound at a revision."""
    if params.item_id is None:
        if params.title is None:
            raise wrong("/title", "name what is to be done", "title, or item_id with expected_revision")
        if params.expected_revision is not None:
            raise wrong("/expected_revision", "a new item has no revision yet", "a title alone, or item_id with it")
        check_title(params.title)
        check_all_evidence(params.evidence_refs)
        return
    given = ["title"] if params.title is not None else []
    given += [name for name, default in _DEFAULTS.items() if getattr(params, name) != default]
    if given:
        raise wrong(f"/{given[0]}", f"an existing item has its own {given[0]}", "title and its like, or item_id")
    if params.expected_revision is None:
        raise wrong("/expected_revision", "an existing item is bound at a revision", "the revision that was read")


@writes(contract.GOAL_CREATE, check=_check_goal, creates=lambda result: result.item.id, sessions=by_target)
def create(tx: Tx, call: Call, params: contract.GoalCreateParams) -> contract.GoalResult:
    scope, stance = scope_of(params), Stance(params.mode, params.delegated_authority, params.projection_policy)
    key = registering.lowered(tx, scope, params.target, call.told, call.caller).key
    if params.item_id is not None:
        item = rows.find(tx, scope, params.item_id)
        admit(tx, item, call.caller, "bind", expected=params.expected_revision)
        return _goal(tx, item, attending.create(tx, item, key, stance, call.caller))
    assert params.title is not None
    check_beginning(params.status)
    check_free(tx, scope, key, "create the goal")  # before anything is written
    item = changes.create(tx, scope, new_item(params, params.title), call.caller)
    binding = attending.create(tx, item, key, stance, call.caller)
    changes.tell_ready(tx, item, call.caller)
    return _goal(tx, item, binding)


@reads(contract.GOAL_STATUS)
def status(snap: Snapshot, call: Call, params: BindingParams) -> contract.GoalResult:
    binding = bindings.find(snap, scope_of(params), params.binding_id)
    return _goal(snap, rows.by_n(snap, binding.item), binding)


@writes(contract.GOAL_CONFIRM)
def confirm(tx: Tx, call: Call, params: contract.ConfirmParams) -> contract.GoalResult:
    binding = bindings.find(tx, scope_of(params), params.binding_id)
    item = rows.by_n(tx, binding.item)
    found = admit(tx, item, _as_role(call.caller, params.role), "confirm", expected=params.expected_revision)
    bindings.check_eligible(binding, tx.now)
    evidence = _confirmation(tx, found, binding, params)
    return _goal(tx, changes.add_evidence(tx, found, evidence), binding)


def _as_role(caller: Caller, role: str | None) -> Caller:
    """The caller with the one of its roles first that it confirms as, so that evidence and event are by that one."""
    if role is None or role not in caller.roles:
        return caller
    return structs.replace(caller, roles=(role, *(other for other in caller.roles if other != role)))


def _confirmation(tx: Tx, found: Admitted, binding: Binding, params: contract.ConfirmParams) -> Evidence:
    """The evidence that confirms, stamped as the item's policy says. Raises `invalid_params`, and as `_confirmer`."""
    item, given = found.item, params.evidence
    policy = rows.policy_of(item.policy)
    key = _confirmer(found.caller, params.role, policy, binding)
    if isinstance(policy, SelfAttest):
        given = given or Evidence(kind=completion.SELF_ATTEST_KIND, id=params.binding_id)
        check_evidence(given, "/evidence")
        return changes.signed(tx, given, found.caller)
    kind = completion.EVIDENCE_KIND[type(policy)]
    if given is not None and given.kind != kind:
        policy_name = policy.__struct_config__.tag
        raise wrong("/evidence/kind", f"{policy_name} is confirmed by a {kind}, not by {given.kind}", kind)
    signed = changes.signed(tx, given or Evidence(kind=kind, id=params.binding_id), found.caller)
    signed = structs.replace(signed, confirmation_kind=kind, content_revision=item.content_revision)
    if key is None:
        return signed
    return structs.replace(signed, id=str(key), label=str(key), confirming_owner_key=key)


def _confirmer(caller: Caller, role: str | None, policy: CompletionPolicy, binding: Binding) -> OwnerKey | None:
    """Who confirms, where the policy asks for somebody (contract workgraph 7).

    Raises `not_admin`, `authority_missing`.
    """
    if isinstance(policy, SelfAttest):
        return None
    if isinstance(policy, HostConfirmed):
        if not caller.operator:
            raise Refusal("not_admin", "host_confirmed is confirmed by the operator, who is attached to no role")
        return None
    if isinstance(policy, PrincipalConfirmed):
        key = None if caller.roles else caller.principal_key
    else:
        key = _identity(caller, role)
    if key is None or (isinstance(policy, Supervisor) and key != policy.owner_key):
        raise _nobody(policy, key, binding)
    return key


def _identity(caller: Caller, role: str | None) -> OwnerKey | None:
    """The confirming identity of a connection: its role, or its trusted principal where it has none."""
    if not caller.roles:
        return caller.principal_key
    name = role if role is not None else caller.roles[0] if len(caller.roles) == 1 else None
    return OwnerKey(kind="agent", id=name) if name is not None and name in caller.roles else None


def _nobody(policy: CompletionPolicy, key: OwnerKey | None, binding: Binding) -> Refusal:
    wanted = f"{policy.owner_key}" if isinstance(policy, Supervisor) else "somebody whom the daemon knows"
    return Refusal(
        "authority_missing",
        f"{policy.__struct_config__.tag} is confirmed by {wanted}, and this is {key or 'nobody it knows'}",
        binding_id=binding.binding_id,
        mode=binding.mode,
        capability=TRUSTED_PRINCIPAL,
        policy=policy,
        remedy="confirm over the socket, or from a connection that is attached to the role that may",
    )


@writes(contract.GOAL_REQUEST_CLOSE, check=check_guard)
def request_close(tx: Tx, call: Call, params: contract.RequestCloseParams) -> contract.GoalResult:
    binding = bindings.find(tx, scope_of(params), params.binding_id)
    item = rows.by_n(tx, binding.item)
    guard = Guard(params.fence, params.reason, alias=call.alias)
    found = admit(tx, item, call.caller, "close", expected=params.expected_revision, guard=guard)
    if binding.status not in OCCUPYING:
        raise bindings.transition(binding, "binding_terminal", f"it is {binding.status}, for ever")
    closed, _ = closing.close(tx, found, ending_of(call, params, "goal"))
    return _goal(tx, closed, bindings.by_n(tx, binding.n))


@writes(contract.POLICY_ESCALATE)
def escalate(tx: Tx, call: Call, params: contract.EscalateParams) -> ItemResult:
    binding = bindings.find(tx, scope_of(params), params.binding_id)
    found = admitted(tx, call, params, "escalate")
    bindings.check_authority(binding, found.item.n, "can_update", tx.now)
    present = rows.policy_of(found.item.policy)
    if not completion.escalates(present, params.completion_policy):
        names = (policy.__struct_config__.tag for policy in (present, params.completion_policy))
        raise transition(found.item, "not_an_escalation", "{} cannot become {}: not stricter".format(*names))
    item = changes.escalate(tx, found, params.completion_policy, params.binding_id)
    return ItemResult(item=rows.record(tx, item))
