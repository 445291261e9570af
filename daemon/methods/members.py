"""`workgraph/member/*`: who is who, and which session each has now."""

from __future__ import annotations

from typing import Final

from interlock.admission import targets
from interlock.protocol import paging
from interlock.protocol import workgraph_members as contract
from interlock.protocol.workgraph_attention import WhoParams
from interlock.stores.tx import Snapshot, Tx
from interlock.stores.workgraph import bindings, members, registering

from ..dispatch import Call, reads, writes
from .attention import canonical, who
from .work import scope_of

PAGE_KEY: Final = tuple[str, str]


@writes(contract.REGISTER)
def register(tx: Tx, call: Call, params: contract.RegisterParams) -> contract.RegisterResult:
    member = targets.names(params.identity, params.mob_id, params.realm_id, "")
    session_id = targets.session_id(params.session_id, "/session_id")
    done = registering.register(tx, scope_of(params), member, session_id, params.adopt, call.caller)
    return contract.RegisterResult(
        member=members.record(done.row),
        changed=done.changed,
        rekeyed=done.rekeyed,
        duplicates=[bindings.record(tx, row) for row in done.duplicates],
    )


@writes(contract.RETIRE)
def retire(tx: Tx, call: Call, params: contract.RetireParams) -> contract.RetireResult:
    member = targets.names(params.identity, params.mob_id, params.realm_id, "")
    row, changed = registering.retire(tx, scope_of(params), member, params.reason, call.caller)
    left = registering.left_behind(tx, member)
    return contract.RetireResult(
        member=members.record(row), changed=changed, attention=[bindings.record(tx, one) for one in left]
    )


@reads(contract.MEMBER_LIST)
def list_members(snap: Snapshot, call: Call, params: contract.MemberListParams) -> contract.MemberPage:
    limit = paging.limit_of(params)
    after = paging.key_of(contract.MEMBER_LIST.name, params, PAGE_KEY) or ("", "")
    found = members.page(snap, params.mob_id, params.status, after, limit + 1)
    page, key = paging.page(found, limit, members.record, lambda row: row.id)
    return contract.MemberPage(
        members=page,
        as_of_seq=snap.head(),
        **paging.tail(contract.MEMBER_LIST.name, params, key),
    )


@reads(contract.RESOLVE)
def resolve(snap: Snapshot, call: Call, params: WhoParams) -> contract.ResolveResult:
    found = canonical(snap, who(params), params.realm_id, {}, "")
    member = None if found.member is None else members.find(snap, found.member)
    return contract.ResolveResult(
        target_key=found.key,
        target=found.target,
        member=None if member is None else members.record(member),
        sessions=[] if found.member is None else members.sessions_of(snap, found.member),
        as_of_seq=snap.head(),
    )
