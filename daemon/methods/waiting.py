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
from interlock.stores.workgraph import leases, queue
from interlock.stores.workgraph.scope import Scope

from ..dispatch import Call, on_loop
from ..hub import Waiter
from .delivery import OFFERS
from .feed import feed_filter


class Seen(NamedTuple):
    """What one look found of one condition: whether it holds, and when, ms, time alone may make it hold."""

    holds: bool
    next_at: int | None = None


class Looked(NamedTuple):
    """The answer as it stands, and in how many seconds time alone may change it; None where it cannot."""

    result: contract.WaitResult
    again_s: float | None


class Watched(NamedTuple):
    """A wait, ready to look: what to ask the store, and which events make another look worth it."""

    look: Callable[[Snapshot, int | None], Looked]
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
            looked = await call.services.database.read(lambda snap: watched.look(snap, start))  # noqa: B023
            if looked.result.matched or loop.time() >= end:
                return looked.result
            call.in_flight.check()
            # Nothing above `after` up to here matched, so the next look begins here.
            after = looked.result.as_of_seq
            until = end if looked.again_s is None else min(end, loop.time() + looked.again_s)
            try:
                async with asyncio.timeout_at(until):
                    await waiter.wait()
            except TimeoutError:
                continue


CONDITIONS: Final = contract.WaitFilter.__struct_fields__
AGAIN_S: Final = 0.01
"""A look that time makes worth it comes this much later: clocks differ by less."""
BRING_READY: Final = ("item_ready", "item_updated")
"""An update may give an item that is ready already a label, or bring its gate nearer."""
JUMPS: Final = ("suspend", "clock_step")
"""What time alone makes hold may do so now: the loop's own clock did not see the time that passed."""


def _watched(call: Call, params: contract.WaitParams) -> Watched:
    wanted = params.filter
    if wanted == contract.WaitFilter():
        raise Refusal("invalid_params", "name at least one condition", path="/filter", expected=" or ".join(CONDITIONS))
    events = None if wanted.events is None else feed_filter(wanted.events, "/filter/events")

    def look(snap: Snapshot, after: int | None) -> Looked:
        head = snap.head()
        found = None if events is None else _first_event(snap, head if after is None else after, events)
        seen = {"events": Seen(found is not None), **_seen(snap, call, wanted)}
        result = contract.WaitResult(
            matched=[name for name in CONDITIONS if name in seen and seen[name].holds], as_of_seq=head, event=found
        )
        instants = [one.next_at for one in seen.values() if one.next_at is not None]
        return Looked(result, max(0, min(instants) - snap.now) / 1000 + AGAIN_S if instants else None)

    return Watched(look, lambda event: _wakes(wanted, events, event))


def _wakes(wanted: contract.WaitFilter, events: FeedFilter | None, event: Event) -> bool:
    """Whether another look is worth it."""
    mail, ready, ending = wanted.mail, wanted.item_ready, wanted.lease_ending
    if mail is not None and event.role == mail.role and event.type in OFFERS:
        return True
    if ready is not None and event.type in BRING_READY and _of(ready, event):
        return True
    if ending is not None and event.type in ("item_claimed", "lease_renewed") and _of(ending, event):
        return True
    if event.type in JUMPS and (ready is not None or ending is not None):
        return True
    return events is not None and events.matches(event)


def _of(scope: contract.ItemReadyCondition | contract.LeaseEndingCondition, event: Event) -> bool:
    return (scope.realm_id, scope.namespace) == (event.realm_id, event.namespace)


def _seen(snap: Snapshot, call: Call, wanted: contract.WaitFilter) -> dict[str, Seen]:
    """The conditions of the store, by name."""
    seen: dict[str, Seen] = {}
    if wanted.mail is not None:
        seen["mail"] = Seen(_has_mail(snap, call, wanted.mail))
    if wanted.item_ready is not None:
        seen["item_ready"] = _item_ready(snap, wanted.item_ready)
    if wanted.lease_ending is not None:
        seen["lease_ending"] = _lease_ending(snap, wanted.lease_ending)
    return seen


def _item_ready(snap: Snapshot, wanted: contract.ItemReadyCondition) -> Seen:
    scope = Scope(wanted.realm_id, wanted.namespace)
    if queue.first(snap, scope, tuple(dict.fromkeys(wanted.labels))) is not None:
        return Seen(True)
    return Seen(False, queue.next_due(snap, scope))


def _lease_ending(snap: Snapshot, wanted: contract.LeaseEndingCondition) -> Seen:
    ends_at = leases.next_end(snap, Scope(wanted.realm_id, wanted.namespace), wanted.owner)
    if ends_at is None:
        return Seen(False)
    return Seen(ends_at - snap.now <= wanted.within_ms, ends_at - wanted.within_ms)


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
