"""`ledger/send get query task depth` and what is done with one message."""

from __future__ import annotations

import binascii
from operator import attrgetter
from typing import Any, Final

from interlock.lifecycle.mail import Presence
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.times import as_text, parse_rfc3339, rfc3339
from interlock.protocol import ledger_mail as contract
from interlock.protocol import paging
from interlock.protocol.limits import IMAGE_BYTES
from interlock.stores import listing, messages, moves, ops, send, sweep
from interlock.stores.messages import Mail
from interlock.stores.presence import need_attached
from interlock.stores.tx import Snapshot, Tx

from ..dispatch import Call, content, reads, writes, writes_once

ROW_ID: Final = attrgetter("id")


@writes_once(contract.SEND)
def send_message(tx: Tx, call: Call, params: contract.SendParams, raw: bytes) -> contract.SendResult:
    """Its op id's content is its own (contract ledger 4) and lives as long as the row."""
    check_shape(params)
    who = send.sender(tx, call.caller, params.from_)

    def run() -> tuple[contract.SendResult, str | None]:
        mail, presence = send.send(tx, who, params)
        return _receipt(mail, presence), mail.msg_id

    return ops.once(
        tx,
        params.op_id,
        contract.SEND.name,
        lambda: ops.fingerprint(contract.SEND.name, sent_content(raw), who.role, who.admin),
        contract.SendResult,
        run,
    )


def _receipt(mail: Mail, presence: Presence) -> contract.SendResult:
    return contract.SendResult(
        msg_id=mail.msg_id,
        op_id=mail.op_id,
        kind=mail.kind,
        task=mail.task,
        state=mail.state,
        enqueued_at=rfc3339(mail.enqueued_at),
        presence=presence,
    )


def sent_content(raw: bytes) -> dict[str, Any]:
    """What an op id of a send stands for: the params as given, without what may differ when it is said again."""
    said = content(raw)
    for name in ("msg_id", "ts", "from"):
        said.pop(name, None)
    causality = said.get("causality")
    if isinstance(causality, dict) and "attempt" in causality:
        del causality["attempt"]
        if not causality:
            del said["causality"]  # who counts his attempts from the second on had said nothing the first time
    return said


def check_shape(params: contract.SendParams) -> None:
    """What a kind requires and refuses (contract ledger 1.1). Raises `invalid_params`, `too_large`."""
    kind, causality = params.kind, params.causality
    if kind == "completion" and (causality is None or causality.task is None):
        raise _shape("/causality/task" if causality else "/causality", "a completion names its task", "the task's id")
    if (params.outcome is not None) != (kind == "completion"):
        raise _shape("/outcome", "exactly a completion has an outcome", "done, failed, cancelled or blocked")
    if (params.control is not None) != (kind == "control"):
        raise _shape("/control", "exactly a control has a control", "{op, task_id}")
    if params.ttl_ms is not None and kind != "note":
        raise _shape("/ttl_ms", "only notes have a ttl", "nothing")
    if params.body is None and kind != "control":
        raise _shape("/body", f"a {kind} has a body", "{text} or {image}")
    if params.body is not None and params.body.text is None and params.body.image is None:
        raise _shape("/body", "a body has a text or an image", "{text} or {image}")
    if params.body is not None and params.body.image is not None:
        _check_image(params.body.image.data)


def _shape(path: str, message: str, expected: str) -> Refusal:
    return Refusal("invalid_params", message, path=path, expected=expected)


def _check_image(data: str) -> None:
    path = "/body/image/data"
    if len(data) > (IMAGE_BYTES + 2) // 3 * 4:
        raise Refusal("too_large", "the image is larger than 2 MiB", path=path, max=IMAGE_BYTES)
    try:
        size = len(binascii.a2b_base64(data.encode("ascii"), strict_mode=True))
    except (binascii.Error, UnicodeEncodeError):
        raise _shape(path, "the image is no base64", "base64 of RFC 4648 with padding") from None
    if size > IMAGE_BYTES:
        raise Refusal("too_large", "the image is larger than 2 MiB", path=path, max=IMAGE_BYTES)


@reads(contract.GET)
def get(snap: Snapshot, call: Call, params: contract.MsgParams) -> contract.GetResult:
    mail = messages.find(snap, params.msg_id)
    return contract.GetResult(row=messages.record(mail), envelope=messages.envelope(snap, mail))


@reads(contract.QUERY)
def query(snap: Snapshot, call: Call, params: contract.QueryParams) -> contract.QueryResult:
    limit = paging.limit_of(params)
    before = paging.key_of(contract.QUERY.name, params, int)
    wanted = listing.Filter(**{name: getattr(params, name) for name in listing.Filter._fields})
    found = listing.query(snap, wanted, before, limit)
    rows, key = paging.page(found.rows, limit, messages.record, ROW_ID)
    if key is None:
        key = found.next_before
    return contract.QueryResult(
        rows=rows,
        as_of_seq=snap.head(),
        **paging.tail(contract.QUERY.name, params, key),
    )


@reads(contract.TASK)
def task(snap: Snapshot, call: Call, params: contract.TaskParams) -> contract.TaskResult:
    limit = paging.limit_of(params)
    after = paging.key_of(contract.TASK.name, params, int) or 0
    found, verdict = listing.of_task(snap, params.task, after, limit + 1)
    rows, key = paging.page(found, limit, messages.record, ROW_ID)
    return contract.TaskResult(
        rows=rows,
        verdict=verdict,
        as_of_seq=snap.head(),
        **paging.tail(contract.TASK.name, params, key),
    )


@reads(contract.DEPTH)
def depth(snap: Snapshot, call: Call, params: contract.DepthParams) -> contract.DepthResult:
    limit = paging.limit_of(params)
    after = paging.key_of(contract.DEPTH.name, params, str) or ""
    found = [listing.depth(snap, params.role)] if params.role else listing.depths(snap, after, limit + 1)
    page, key = paging.page(found, limit, _depth, attrgetter("role"))
    return contract.DepthResult(
        depths=page,
        as_of_seq=snap.head(),
        **paging.tail(contract.DEPTH.name, params, key),
    )


def _depth(one: listing.DepthOf) -> contract.Depth:
    return contract.Depth(**one._replace(oldest_queued_at=as_text(one.oldest_queued_at))._asdict())  # type: ignore[arg-type]


def _row(moved: tuple[Mail, bool]) -> contract.RowResult:
    return contract.RowResult(row=messages.record(moved[0]), changed=moved[1])


@writes(contract.ACK)
def ack(tx: Tx, call: Call, params: contract.MsgReasonParams) -> contract.RowResult:
    return _row(moves.settle(tx, call.caller, params.msg_id, "acked", params.reason))


@writes(contract.REJECT)
def reject(tx: Tx, call: Call, params: contract.MsgReasonParams) -> contract.RowResult:
    reason = "rejected" if params.reason is None else params.reason
    return _row(moves.settle(tx, call.caller, params.msg_id, "rejected", reason))


@writes(contract.SURFACED)
def surfaced(tx: Tx, call: Call, params: contract.MsgParams) -> contract.RowResult:
    return _row(moves.surfaced(tx, call.caller, params.msg_id))


@writes(contract.REQUEUE)
def requeue(tx: Tx, call: Call, params: contract.RequeueParams) -> contract.RequeueResult:
    reason = "requeued" if params.reason is None else params.reason
    mail, changed = moves.requeue(tx, call.caller, params.msg_id, reason, call.services.policy)
    return contract.RequeueResult(row=messages.record(mail), changed=changed)


@writes(contract.EXPIRE)
def expire(tx: Tx, call: Call, params: contract.ExpireParams) -> contract.ExpireResult:
    if params.msg_id is not None:
        if params.role is not None or params.before is not None:
            raise _shape("/msg_id", "either msg_id, or role with before", "one of the two forms")
        mail, changed = moves.settle(tx, call.caller, params.msg_id, "expired", params.reason)
        return contract.ExpireResult(row=messages.record(mail), changed=changed)
    if params.before is None:
        raise _shape("/before", "either msg_id, or role with before", "an instant")
    if params.role is None and call.caller.operator:
        raise _shape("/role", "either msg_id, or role with before", "the name of a role")
    role = need_attached(call.caller, params.role)
    before = parse_rfc3339(params.before)
    expired, more = moves.expire_before(tx, call.caller, role, before, params.limit, params.reason)
    return contract.ExpireResult(expired=expired, has_more=more)


@writes(contract.FAIL)
def fail(tx: Tx, call: Call, params: contract.FailParams) -> contract.RowResult:
    return _row(moves.settle(tx, call.caller, params.msg_id, "rejected", params.reason))


@writes(contract.PRUNE)
def prune(tx: Tx, call: Call, params: contract.PruneParams) -> contract.PruneResult:
    take: Any = sweep.prune_bodies if params.what == "bodies" else sweep.prune_events
    pruned, more = take(tx, parse_rfc3339(params.before), params.limit)
    return contract.PruneResult(pruned=pruned, has_more=more)
