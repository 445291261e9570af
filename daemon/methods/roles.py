"""`ledger/role/*` and `ledger/fault/*`."""

from __future__ import annotations

from operator import itemgetter

from msgspec import UNSET, structs

from interlock.lifecycle.mail import DAEMON
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.roles import Caller, Role
from interlock.protocol import ledger_roles as contract
from interlock.protocol import paging
from interlock.stores import faults, ops, roles
from interlock.stores.tx import Snapshot, Tx

from ..dispatch import Call, content, op_role, reads, writes, writes_once


@writes(contract.ROLE_UPSERT)
def upsert(tx: Tx, call: Call, params: contract.RoleUpsertParams) -> contract.RoleUpsertResult:
    _named(params.name, "/name")
    known = roles.find(tx, params.name)
    role = Role(name=params.name) if known is None else known.role
    default = Role(name=params.name)
    given = {name: value for name in params.__struct_fields__ if (value := getattr(params, name)) is not UNSET}
    cleared = {name: getattr(default, name) if value is None else value for name, value in given.items()}
    role = structs.replace(role, **cleared)
    return contract.RoleUpsertResult(role=role, changed=roles.put(tx, role))


@reads(contract.ROLE_LIST)
def list_roles(snap: Snapshot, call: Call, params: contract.RoleListParams) -> contract.RoleListResult:
    limit = paging.limit_of(params)
    after = paging.key_of(contract.ROLE_LIST.name, params, str) or ""
    found = roles.page(snap, after, limit + 1)
    page, key = paging.page(found, limit, lambda info: info, lambda info: info.role.name)
    return contract.RoleListResult(
        roles=page,
        as_of_seq=snap.head(),
        **paging.tail(contract.ROLE_LIST.name, params, key),
    )


@writes(contract.ROLE_SYNC)
def sync(tx: Tx, call: Call, params: contract.RoleSyncParams) -> contract.RoleSyncResult:
    seen: set[str] = set()
    for n, role in enumerate(params.roles):
        _named(role.name, f"/roles/{n}/name")
        if role.name in seen:
            raise Refusal(
                "invalid_params", f"{role.name} is there twice", path=f"/roles/{n}/name", expected="a new name"
            )
        seen.add(role.name)
    upserted, removed = roles.sync(tx, params.roles)
    return contract.RoleSyncResult(upserted=upserted, removed=removed)


def _named(name: str, path: str) -> None:
    if name == DAEMON:
        raise Refusal("invalid_params", f"no role may be named {DAEMON}", path=path, expected="another name")


@writes_once(contract.FAULT_RECORD)
def record(tx: Tx, call: Call, params: contract.FaultRecordParams, raw: bytes) -> contract.FaultRecordResult:
    """Its op id lives as long as the fault, so it is kept here and not by the dispatcher."""
    subject = params.task_id or params.msg_id or params.session_id or params.role
    if subject is None:
        raise Refusal(
            "invalid_params",
            "say what it is about",
            path="",
            expected="task_id, msg_id, session_id or role",
        )

    def run() -> tuple[contract.FaultRecordResult, str | None]:
        role = _fault_role(tx, call.caller, params.role)
        about = {
            name: getattr(params, name)
            for name in ("task_id", "msg_id", "session_id", "generation", "seq", "detail", "op_id")
        }
        fault, changed = faults.record(tx, params.kind, params.reason, subject=subject, role=role, **about)
        return contract.FaultRecordResult(fault=fault, changed=changed), fault.fault_id if changed else None

    return ops.once(
        tx,
        params.op_id,
        contract.FAULT_RECORD.name,
        lambda: ops.fingerprint(contract.FAULT_RECORD.name, content(raw), op_role(call.caller, params)),
        contract.FaultRecordResult,
        run,
    )


def _fault_role(tx: Tx, caller: Caller, named: str | None) -> str | None:
    """Whose fault it is: the named role, else the caller's only one. Raises `not_found`, `not_owner`."""
    if named is None:
        return caller.roles[0] if len(caller.roles) == 1 else None
    roles.need(tx, named, "/role")
    if not caller.operator and named not in caller.roles:
        raise Refusal("not_owner", f"this connection is not attached to {named}", role=named)
    return named


@reads(contract.FAULT_LIST)
def list_faults(snap: Snapshot, call: Call, params: contract.FaultListParams) -> contract.FaultListResult:
    limit = paging.limit_of(params)
    after = paging.key_of(contract.FAULT_LIST.name, params, int) or 0
    about = {name: getattr(params, name) for name in ("task_id", "session_id", "role", "kind", "state")}
    found = faults.page(snap, after=after, limit=limit + 1, **about)
    page, key = paging.page(found, limit, itemgetter(1), itemgetter(0))
    return contract.FaultListResult(
        faults=page,
        as_of_seq=snap.head(),
        **paging.tail(contract.FAULT_LIST.name, params, key),
    )


@writes(contract.FAULT_ACK)
def ack(tx: Tx, call: Call, params: contract.FaultAckParams) -> contract.FaultResult:
    fault, changed = faults.ack(tx, params.fault_id, params.reason)
    return contract.FaultResult(fault=fault, changed=changed)


@writes(contract.FAULT_MOVE)
def move(tx: Tx, call: Call, params: contract.FaultMoveParams) -> contract.FaultMoveResult:
    if params.state == "open":
        raise Refusal("invalid_params", "a fault cannot be moved to open", path="/state", expected="any other state")
    return contract.FaultMoveResult(moved=faults.move_task(tx, params.task_id, params.state, params.reason))
