"""`workgraph/attention/*`: who attends to what."""

from __future__ import annotations

from typing import Final, get_args

from interlock.admission import targets
from interlock.admission.targets import Canonical
from interlock.lifecycle import authority
from interlock.lifecycle.attention import IdentityTarget, OwnerTarget, Projection, SessionTarget, Target
from interlock.lifecycle.projection import render
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.roles import Caller
from interlock.lifecycle.times import as_ms
from interlock.protocol import paging
from interlock.protocol import workgraph_attention as contract
from interlock.protocol.words import listed
from interlock.protocol.workgraph import BindingOpParams, BindingParams
from interlock.stores.tx import Snapshot, Tx
from interlock.stores.workgraph import attending, attention, bindings, members, registering, rows
from interlock.stores.workgraph.attending import Forced
from interlock.stores.workgraph.attention import FIRST, Filter, Wanted
from interlock.stores.workgraph.bindings import Binding
from interlock.stores.workgraph.members import Told

from ..admitting import by_target, by_who
from ..dispatch import Call, reads, writes
from .work import LIST_KEY, check_guard, scope_of, wrong

STATUSES: Final[tuple[Wanted, ...]] = get_args(contract.StateWord)


def _result(tx: Tx | Snapshot, row: Binding) -> contract.AttentionResult:
    return contract.AttentionResult(attention=bindings.record(tx, row))


def canonical(snap: Tx | Snapshot, target: Target, realm_id: str, told: Told, path: str = "/target") -> Canonical:
    """What a target is, for a read: nothing is recorded. Raises `invalid_params`, `too_large`."""
    return targets.canonical(target, realm_id, lambda session: members.member_of(snap, session, told), path)


@reads(contract.ATTENTION_LIST, sessions=by_target)
def list_attention(snap: Snapshot, call: Call, params: contract.AttentionListParams) -> contract.AttentionPage:
    limit = paging.limit_of(params)
    after = paging.key_of(contract.ATTENTION_LIST.name, params, LIST_KEY) or FIRST
    status = _status(params.status)
    target = None if params.target is None else canonical(snap, params.target, params.realm_id, call.told).key
    scanned = attention.page(snap, scope_of(params), Filter(status, target, params.item_id), after, limit)
    page, key = paging.page(scanned.bindings, limit, lambda row: bindings.record(snap, row), attention.key_of)
    return contract.AttentionPage(
        attention=page,
        as_of_seq=snap.head(),
        **paging.tail(contract.ATTENTION_LIST.name, params, scanned.next_key if key is None else key),
    )


def _status(given: contract.StateGiven | str | None) -> Wanted | None:
    word = given.state if isinstance(given, contract.StateGiven) else given
    for known in STATUSES:
        if known == word:
            return known
    if word is None:
        return None
    raise wrong("/status", f"no binding is {word[:40]}", f"one of {listed(STATUSES)}")


@reads(contract.ATTENTION_GET)
def get(snap: Snapshot, call: Call, params: BindingParams) -> contract.AttentionResult:
    return _result(snap, bindings.find(snap, scope_of(params), params.binding_id))


def who(params: contract.WhoParams) -> Target:
    """The target that exactly one of the params names. Raises `invalid_params`."""
    fields = ("session_id", "identity", "owner_key")
    given = [name for name in fields if getattr(params, name) is not None]
    if len(given) != 1:
        raise wrong("", f"say of whom, by exactly one of {listed(fields)}", f"exactly one of {listed(fields)}")
    if params.mob_id is not None and params.identity is None:
        raise wrong("/mob_id", "mob_id goes with identity", "no mob_id, or an identity")
    if params.session_id is not None:
        return SessionTarget(session_id=params.session_id)
    if params.identity is not None:
        return IdentityTarget(identity=params.identity, mob_id=params.mob_id)
    assert params.owner_key is not None
    return OwnerTarget(owner_key=params.owner_key)


@reads(contract.CURRENT, sessions=by_who)
def current(snap: Snapshot, call: Call, params: contract.WhoParams) -> contract.CurrentResult:
    target = who(params)
    found = canonical(snap, target, params.realm_id, call.told, "")
    superseded_by = _other_session(snap, found, targets.session_of(target))
    if superseded_by is not None:
        return contract.CurrentResult(
            target_key=found.key, starved=[], superseded_session=superseded_by, as_of_seq=snap.head()
        )
    ranked = attention.attending(snap, scope_of(params), found.key)
    records = [bindings.record(snap, row) for row in ranked]
    return contract.CurrentResult(
        target_key=found.key,
        attention=records[0] if records else None,
        item=rows.record(snap, rows.by_n(snap, ranked[0].item)) if ranked else None,
        starved=records[1:],
        as_of_seq=snap.head(),
    )


def _other_session(snap: Snapshot, found: Canonical, session: str | None) -> str | None:
    """The current session of the member that a session maps to, where it is another one."""
    member = None if session is None or found.member is None else members.find(snap, found.member)
    return None if member is None or member.session_id == session else member.session_id


@reads(contract.PROJECTION)
def projection(snap: Snapshot, call: Call, params: contract.ProjectionParams) -> contract.ProjectionResult:
    row = bindings.find(snap, scope_of(params), params.binding_id)
    bindings.check_eligible(row, snap.now)
    item = rows.by_n(snap, row.item)
    parents = attention.parents_of(snap, item) if row.include_parent_context else []
    granted = authority.authority(row.mode, row.delegated_authority)
    wanted = row.max_text_chars if params.max_text_chars is None else params.max_text_chars
    text = render(
        binding_id=row.binding_id,
        binding_revision=row.revision,
        mode=row.mode,
        authority=granted,
        item=attention.subject(snap, item),
        parents=(attention.subject(snap, parent) for parent in parents),
        max_chars=min(row.max_text_chars, wanted),
    )
    return contract.ProjectionResult(
        projection=Projection(
            binding_id=row.binding_id,
            work_ref=attention.ref(item),
            mode=row.mode,
            binding_revision=row.revision,
            item_revision=item.revision,
            parent_refs=[attention.ref(parent) for parent in parents],
            parent_context=[attention.context(parent) for parent in parents],
            evidence_refs=rows.evidence_of(snap, item),
            authority=granted,
            text=text,
        )
    )


@writes(contract.PAUSE)
def pause(tx: Tx, call: Call, params: contract.PauseParams) -> contract.AttentionResult:
    until = as_ms(params.until)
    scope = scope_of(params)
    return _result(tx, attending.pause(tx, scope, params.binding_id, params.expected_revision, until, call.caller))


@writes(contract.RESUME)
def resume(tx: Tx, call: Call, params: BindingOpParams) -> contract.AttentionResult:
    scope = scope_of(params)
    return _result(tx, attending.resume(tx, scope, params.binding_id, params.expected_revision, call.caller))


def _move(tx: Tx, call: Call, params: contract.ReassignParams, why: str | None = None) -> contract.MovedResult:
    scope = scope_of(params)
    canonical(tx, params.target, params.realm_id, call.told)
    forced = None if why is None else Forced(_vouched_for(call.caller), why)
    row = attending.judge(tx, scope, params.binding_id, params.expected_revision, "reassign")
    key = registering.lowered(tx, scope, params.target, call.told, call.caller).key
    row = bindings.by_n(tx, row.n)  # it may have come to that key just now, one revision later
    previous, successor = attending.reassign(tx, row, key, call.caller, params.op_id, forced)
    return contract.MovedResult(previous=bindings.record(tx, previous), attention=bindings.record(tx, successor))


def _successor(result: contract.MovedResult) -> str:
    return result.attention.binding_id


@writes(contract.REASSIGN, creates=_successor, sessions=by_target)
def reassign(tx: Tx, call: Call, params: contract.ReassignParams) -> contract.MovedResult:
    return _move(tx, call, params)


@writes(contract.BREAK_GLASS, check=check_guard, creates=_successor, sessions=by_target)
def break_glass(tx: Tx, call: Call, params: contract.BreakGlassParams) -> contract.MovedResult:
    return _move(tx, call, params, params.reason)


def _vouched_for(caller: Caller) -> str:
    """Whom the kernel says the operator is. Raises `authority_missing`."""
    if caller.principal is None:
        raise Refusal(
            "authority_missing",
            "nobody vouches for who this is: break glass needs a trusted principal",
            capability=authority.TRUSTED_PRINCIPAL,
            remedy="call it over the Unix socket, unattached",
        )
    return caller.principal


@writes(contract.STOP, check=check_guard)
def stop(tx: Tx, call: Call, params: contract.StopParams) -> contract.AttentionResult:
    scope, revision = scope_of(params), params.expected_revision
    return _result(tx, attending.stop(tx, scope, params.binding_id, revision, params.reason, call.caller))


@writes(contract.PRUNE)
def prune(tx: Tx, call: Call, params: contract.PruneParams) -> contract.AttentionPruneResult:
    pruned, more = attending.prune(tx, scope_of(params), as_ms(params.updated_before), call.caller)
    return contract.AttentionPruneResult(pruned=pruned, has_more=more)
