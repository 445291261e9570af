"""`mobkit/*`: the work graph under the names of MobKit's SDK, and what makes a gateway for it (contract workgraph 11).

An alias translates its params, runs the method that it stands for, and translates the result; refusals are translated
where they become errors, by `protocol.mobkit_errors`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from interlock.protocol import mobkit as contract
from interlock.protocol.mobkit_errors import PREFIX
from interlock.protocol.mobkit_shapes import from_native

from .. import dispatch
from ..dispatch import Bound, Call, on_loop

AT_ONCE: Final = 1 << 14
"""Characters of a configuration that are read without holding up anybody else."""
Answer = Callable[[Bound, Call, bytes], Awaitable[dict[str, Any]]]


@on_loop(contract.INIT)
async def init(call: Call, params: contract.InitParams) -> contract.InitResult:
    """Answers once everything is up, so that what follows is not told `starting`."""
    services, connection = call.services, call.connection
    if services.state.name == "starting":
        with connection.waiting(call):
            await services.state.started.wait()
    if services.state.name != "ready":
        raise services.not_ready()
    mob = params.mob_config
    large = isinstance(mob, str) and len(mob) > AT_ONCE
    connection.realm = await asyncio.to_thread(contract.realm_of, mob) if large else contract.realm_of(mob)
    services.log.info("mobkit_init", holder=call.caller.holder, realm=connection.realm)
    return contract.InitResult()


@on_loop(contract.SHUTDOWN)
async def shut_down(call: Call, params: contract.AnyParams) -> contract.ShutdownResult:
    await call.connection.leave(call.in_flight)
    return contract.ShutdownResult()


@on_loop(contract.STATUS)
async def status(call: Call, params: contract.AnyParams) -> contract.StatusResult:
    return contract.StatusResult()


@on_loop(contract.CAPABILITIES)
async def capabilities(call: Call, params: contract.AnyParams) -> contract.CapabilitiesResult:
    names = [name for name in call.services.methods if name.startswith(PREFIX) and _is_here(name, call)]
    return contract.CapabilitiesResult(methods=sorted(names))


def with_aliases(methods: Mapping[str, Bound]) -> dict[str, Bound]:
    """The methods, and those of the work graph under MobKit's names too."""
    named = {f"{PREFIX}workgraph/{name}": methods[f"workgraph/{name}"] for name in contract.NAMES}
    return {**methods, **{name: _alias(name, native) for name, native in named.items()}}


def _alias(name: str, native: Bound) -> Bound:
    """A method of its own to the connection; no step of a batch, and in no catalogue."""
    answer = _SEVERAL.get(native.method.name, _once)

    async def run(call: Call, raw: bytes) -> dict[str, Any]:
        if not _is_here(name, call):
            raise call.services.no_method(name)
        call.alias = True
        return await answer(native, call, contract.to_native(native.method, raw, call.connection.realm))

    method = replace(native.method, name=name, aliases=(), batch=False, operator_only=False)
    return Bound(method, run, "loop", bytes)


def _is_here(name: str, call: Call) -> bool:
    return name != contract.SOCKET_ONLY or call.caller.transport == "socket"


async def _once(native: Bound, call: Call, raw: bytes) -> dict[str, Any]:
    return from_native(await dispatch.run(native, call, raw))


async def _all_pruned(native: Bound, call: Call, raw: bytes) -> dict[str, Any]:
    """One transaction for each share, until nothing is left."""
    pruned, more = 0, True
    while more:
        share = await dispatch.run(native, call, raw)
        pruned, more = pruned + share.pruned, share.has_more
    return {"pruned": pruned, "has_more": False}


async def _first_events(native: Bound, call: Call, raw: bytes) -> dict[str, Any]:
    """A page with something on it, if there is more: its client goes on from the last event, so it must see one."""
    while True:
        page = await dispatch.run(native, call, raw)
        answer = from_native(page)
        if answer["events"] or not page.has_more:
            return answer
        raw = contract.after(raw, page.scanned_seq)


_SEVERAL: Final[dict[str, Answer]] = {
    "workgraph/attention/prune": _all_pruned,
    "workgraph/events": _first_events,
}
