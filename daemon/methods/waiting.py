"""`daemon/wait`: one wait for everything. A condition is a look at the store and the events that may make it hold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from interlock.lifecycle.events import Event
from interlock.lifecycle.refusal import Refusal
from interlock.protocol import daemon as contract
from interlock.stores import feed, moves, pull, roles
from interlock.stores.feed import FeedFilter
from interlock.stores.pull import Wanted
from interlock.stores.tx import Snapshot

from ..dispatch import Call, on_loop
from ..hub import Waiter
from .delivery import OFFERS
from .feed import feed_filter


class Watched(NamedTuple):
    """A wait, ready to look: what to ask the store, and which events make another look worth it."""

    look: Callable[[Snapshot, int | None], contract.WaitResult]
    wakes: Callable[[Event], bool]


@on_loop(contract.WAIT)
async def wait(call: Call, params: contract.WaitParams) -> contract.WaitResult:
    watched = _watched(call, params)
    loop = asyncio.get_running_loop()
    end = loop.time() + params.timeout_ms / 1000
    waiter = Waiter(watched.wakes)
    after, hub = params.after_seq, call.services.hub
    with call.connection.waiting(call), hub.listening(waiter), hub.marking() as mark:
        while True:
            waiter.clear()
            if params.after_seq is None and after is not None:
                after = mark.not_after(after)
            start = after
            result = await call.services.database.read(lambda snap: watched.look(snap, start))  # noqa: B023
            if result.matched or loop.time() >= end:
                return result
            call.in_flight.check()
            # Nothing above `after` up to here matched, so the next look begins here.
            after = result.as_of_seq
            try:
                async with asyncio.timeout_at(end):
                    await waiter.wait()
            except TimeoutError:
                continue


def _watched(call: Call, params: contract.WaitParams) -> Watched:
    wanted = params.filter
    if wanted == contract.WaitFilter():
        raise Refusal("invalid_params", "name at least one condition", path="/filter", expected=" or ".join(CONDITIONS))
    events = None if wanted.events is None else feed_filter(wanted.events, "/filter/events")
    mail = wanted.mail

    def wakes(event: Event) -> bool:
        if mail is not None and event.role == mail.role and event.type in OFFERS:
            return True
        return events is not None and events.matches(event)

    def look(snap: Snapshot, after: int | None) -> contract.WaitResult:
        head = snap.head()
        found = None if events is None else _first_event(snap, head if after is None else after, events)
        matched = ["events"] if found is not None else []
        if mail is not None and _has_mail(snap, call, mail):
            matched = ["mail", *matched]
        return contract.WaitResult(matched=matched, as_of_seq=head, event=found)

    return Watched(look, wakes)


CONDITIONS: Final = contract.WaitFilter.__struct_fields__


def _first_event(snap: Snapshot, after: int, wanted: FeedFilter) -> Event | None:
    """The lowest event above `after` that matches."""
    while True:
        page = feed.events_since(snap, after, wanted, 1)
        if page.events:
            return page.events[0]
        if not page.has_more:
            return None
        after = page.scanned_seq


def _has_mail(snap: Snapshot, call: Call, mail: contract.MailCondition) -> bool:
    known = roles.need(snap, mail.role, "/filter/mail/role")
    wanted = Wanted(mail.role, mail.session, tuple(dict.fromkeys(mail.kinds or moves.KINDS)), 1)
    return bool(pull.select(snap, known.role, wanted, pull.stale_before(snap, known, call.services.policy)).rows)
