"""`ledger/attach detach pull`: what belongs to a connection, and the wait for mail."""

from __future__ import annotations

import asyncio
from typing import Final

from interlock.lifecycle.mail import Delivery
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.times import as_text
from interlock.protocol import ledger_mail as contract
from interlock.stores import messages, moves, presence, pull
from interlock.stores.pull import Wanted
from interlock.stores.tx import Tx

from .. import instances
from ..dispatch import Call, on_loop
from ..hub import Waiter
from ..services import Services

OFFERS: Final = frozenset({"ledger_state", "role_changed", "role_presence"})


@on_loop(contract.ATTACH)
async def attach(call: Call, params: contract.AttachParams) -> contract.AttachResult:
    services, connection = call.services, call.connection
    dead = await _dead(services) if params.holds else frozenset()
    caller = call.caller
    connection.attached = True  # before the transaction: whatever comes of it, the end of the connection looks after it
    done = await services.database.write(lambda tx: presence.attach(tx, caller, params.role, params.holds, dead))
    if params.role not in connection.caller.roles:
        connection.act_for((*connection.caller.roles, params.role))
    return contract.AttachResult(role=done.role, held=done.held, lost=done.lost, as_of_seq=done.head)


async def _dead(services: Services) -> frozenset[str]:
    """Processes that died with mail in hand and were not noticed yet: a returning consumer may still take it up."""
    known = await services.database.read(presence.instances)
    found = await asyncio.to_thread(instances.dead_instances, services.settings.state_dir, known)
    return frozenset(found)


@on_loop(contract.DETACH)
async def detach(call: Call, params: contract.DetachParams) -> contract.DetachResult:
    role = presence.need_attached(call.caller, params.role)
    if role not in call.connection.caller.roles:
        return contract.DetachResult(role=role, requeued=0)
    # From here on nothing new is taken for the role; what is held goes back page by page.
    call.connection.act_for(tuple(name for name in call.connection.caller.roles if name != role))
    attached = True
    try:
        requeued = await let_go(call.services, role, call.caller.holder, "detached")
        attached = False
    finally:
        if attached and role not in call.connection.caller.roles:  # refused or cancelled: it can be asked for again
            call.connection.act_for((*call.connection.caller.roles, role))
    return contract.DetachResult(role=role, requeued=requeued)


async def let_go(services: Services, role: str, holder: str, cause: str) -> int:
    """Detach a holder from a role; how many rows it had."""
    total, complete = 0, False
    while not complete:
        done, complete = await services.database.write(
            lambda tx: presence.detach_step(tx, role, holder, cause, services.policy)
        )
        total += done
    return total


@on_loop(contract.PULL)
async def take(call: Call, params: contract.PullParams) -> contract.PullResult:
    role = presence.need_attached(call.caller, params.role)
    kinds = tuple(dict.fromkeys(params.kinds or moves.KINDS))
    wanted = Wanted(role, params.session, kinds, params.limit)
    if params.wait_ms == 0:
        return await _offer(call, wanted)
    waiter = Waiter(lambda event: event.role == role and event.type in OFFERS)
    with call.connection.waiting(call), call.services.hub.listening(waiter):
        return await _offer_when_there(call, wanted, waiter, params.wait_ms)


async def _offer_when_there(call: Call, wanted: Wanted, waiter: Waiter, wait_ms: int) -> contract.PullResult:
    """Look, and wait for a hint to look again. The waiter listens since before the first look: there is no gap."""
    loop = asyncio.get_running_loop()
    end = loop.time() + wait_ms / 1000
    while True:
        waiter.clear()
        result = await _offer(call, wanted)
        if result.deliveries or loop.time() >= end:
            return result
        call.in_flight.check()
        try:
            async with asyncio.timeout_at(end):
                await waiter.wait()
        except TimeoutError:
            continue  # one last look: what came with the time-out is not left behind


async def _offer(call: Call, wanted: Wanted) -> contract.PullResult:
    policy, caller = call.services.policy, call.caller

    def offer(tx: Tx) -> contract.PullResult | None:
        found = pull.pull(tx, caller, wanted, policy)
        if found is None:
            return None
        deliveries = [
            Delivery(
                envelope=messages.envelope(tx, mail),
                deliveries=mail.deliveries,
                requeued=mail.requeued,
                surfaced_at=as_text(mail.surfaced_at),
            )
            for mail in found.rows
        ]
        return contract.PullResult(deliveries=deliveries, as_of_seq=tx.head(), at_capacity=found.at_capacity)

    result = await call.connection.paced(lambda: call.services.database.write(offer), writes=True)
    if result is None:
        raise Refusal("cancelled", f"the connection is no longer attached to {wanted.role}")
    return result
