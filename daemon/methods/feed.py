"""`ledger/events/*` and `ledger/cursor/*`."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, Final, TypeVar

from interlock.lifecycle.refusal import Refusal
from interlock.protocol import ledger_feed as contract
from interlock.protocol import paging
from interlock.protocol.limits import SUBSCRIPTIONS
from interlock.stores import cursors, feed, moves, roles
from interlock.stores.feed import FeedFilter
from interlock.stores.presence import need_attached
from interlock.stores.tx import Snapshot, Tx

from ..dispatch import Call, on_loop, reads, writes
from ..services import COMPARED
from ..subscriptions import Subscription

Result = TypeVar("Result")
PUBLISHED: Final = ("turn_end_without_complete", "delivery_blocked", "handoff")
TYPES: Final = tuple(name for names in contract.EVENT_TYPES.values() for name in names)


def feed_filter(wanted: contract.EventFilter, prefix: str = "") -> FeedFilter:
    """The store's filter. Raises `invalid_params` with the nearest for an unknown type or family."""
    check_known(wanted.types, TYPES, f"{prefix}/types")
    check_known(wanted.families, tuple(contract.EVENT_TYPES), f"{prefix}/families")
    return FeedFilter(
        types=any_of(wanted.types),
        families=any_of(wanted.families),
        roles=any_of(wanted.roles),
        subjects=any_of(wanted.subjects),
    )


def any_of(values: list[str] | None) -> tuple[str, ...] | None:
    """Values of a filter as the store has them; None is all."""
    return None if values is None else tuple(values)


def check_known(given: list[str] | None, known: tuple[str, ...], path: str) -> None:
    """Raise `invalid_params` with the nearest for a word that is not known."""
    for n, word in enumerate(given or ()):
        if word not in known:
            near = difflib.get_close_matches(word, known, 1, 0) or known
            raise Refusal("invalid_params", f"there is no {word}", path=f"{path}/{n}", expected=near[0])


def events_page(result: Callable[..., Result], snap: Snapshot, params: Any, wanted: FeedFilter) -> Result:
    """A page of the feed above the params' `after_seq`, of which absent is the oldest event kept.

    Raises `cursor_expired`, `cursor_ahead`.
    """
    page = feed.events_since(snap, params.after_seq, wanted, paging.limit_of(params))
    return result(
        events=list(page.events),
        scanned_seq=page.scanned_seq,
        has_more=page.has_more,
        as_of_seq=page.head,
        floor=page.floor,
    )


@reads(contract.SINCE)
def since(snap: Snapshot, call: Call, params: contract.EventsSinceParams) -> contract.EventsSinceResult:
    return events_page(contract.EventsSinceResult, snap, params, feed_filter(params.filter))


@reads(contract.HEAD)
def head(snap: Snapshot, call: Call, params: contract.HeadParams) -> contract.HeadResult:
    return contract.HeadResult(head=snap.head(), floor=snap.floor())


@on_loop(contract.SUBSCRIBE)
async def subscribe(call: Call, params: contract.SubscribeParams) -> contract.SubscribeResult:
    wanted = feed_filter(params.filter)
    connection, services = call.connection, call.services
    if len(connection.subscriptions) >= SUBSCRIPTIONS:
        raise Refusal("at_capacity", f"{SUBSCRIPTIONS} subscriptions on this connection are open")
    subscription_id = services.ids.new("sub", services.clock.now_ms())
    connection.subscriptions[subscription_id] = None  # counted from here on, also while the store is read
    try:
        after = await services.database.read(lambda snap: _start_of(snap, params.after_seq))
    except BaseException:
        del connection.subscriptions[subscription_id]
        raise
    subscription = Subscription(connection, subscription_id, wanted, after)
    connection.subscriptions[subscription_id] = subscription
    call.after_reply.append(subscription.start)
    return contract.SubscribeResult(subscription=subscription_id, after_seq=after)


def _start_of(snap: Snapshot, after: int | None) -> int:
    """Where a subscription begins. Raises `cursor_expired`, `cursor_ahead`."""
    if after is None:
        return snap.head()
    feed.check_cursor(after, snap.head(), snap.floor())
    return after


@on_loop(contract.UNSUBSCRIBE)
async def unsubscribe(call: Call, params: contract.UnsubscribeParams) -> contract.SubscribeResult:
    subscription: Any = call.connection.subscriptions.get(params.subscription)
    if subscription is None:
        raise Refusal("not_found", "this connection has no such subscription", kind="subscription")
    subscription.stop()
    return contract.SubscribeResult(subscription=subscription.id, after_seq=subscription.sent_seq)


@writes(contract.PUBLISH)
def publish(tx: Tx, call: Call, params: contract.PublishParams) -> contract.PublishResult:
    if params.type not in PUBLISHED:
        near = difflib.get_close_matches(params.type[:COMPARED], PUBLISHED, 1, 0) or PUBLISHED
        raise Refusal("invalid_params", "this type cannot be published", path="/type", expected=near[0])
    role = need_attached(call.caller, params.role)
    roles.need(tx, role, "/role")
    moves.own(call.caller, role)
    names = ("session_id", "task_id", "payload")
    data = {name: value for name in names if (value := getattr(params, name)) is not None}
    subject = params.session_id or params.task_id or role
    return contract.PublishResult(seq=tx.emit("ledger", params.type, subject, data, role=role))


@reads(contract.CURSOR_GET)
def get_cursor(snap: Snapshot, call: Call, params: contract.CursorGetParams) -> contract.CursorResult:
    if params.kind == "hook":
        raise cursors.no_hook(params.name)
    cursor, updated_at = cursors.get_inbox(snap, params.name)
    return contract.CursorResult(cursor=cursor, updated_at=updated_at)


@writes(contract.CURSOR_SET)
def set_cursor(tx: Tx, call: Call, params: contract.CursorSetParams) -> contract.CursorResult:
    if params.kind == "hook":
        if params.msg_id is not None:
            raise Refusal("invalid_params", "only an inbox cursor has a message", path="/msg_id", expected="nothing")
        if not call.caller.operator:
            raise Refusal("not_admin", "a hook's cursor is the operator's")
        raise cursors.no_hook(params.name)
    roles.need(tx, params.name, "/name")
    moves.own(call.caller, params.name)
    cursor, updated_at = cursors.set_inbox(tx, params.name, params.seq, params.msg_id)
    return contract.CursorResult(cursor=cursor, updated_at=updated_at)
