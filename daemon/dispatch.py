"""From a method's name to its function: one declaration, one function, nothing else is edited (DESIGN 2).

Handlers contain no `try`: they return a result or raise `Refusal`; the connection is the only exception boundary.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import msgspec

from interlock.admission.runtime import MemberId
from interlock.lifecycle.mail import OPERATOR
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.roles import Caller
from interlock.protocol.contract import AnyMethod, Method
from interlock.protocol.params import Decoder
from interlock.stores import ops
from interlock.stores.tx import Snapshot, Tx

from .admitting import Asked, admitted, gated, told

if TYPE_CHECKING:
    from .connection import Connection
    from .in_flight import InFlight
    from .services import Services

P = TypeVar("P", bound=msgspec.Struct)
R = TypeVar("R", bound=msgspec.Struct)
Where = Literal["reader", "writer", "loop"]


@dataclass(slots=True)
class Call:
    """One request on its way: who calls, over what, and what must happen once it is answered."""

    caller: Caller
    services: Services
    connection: Connection
    in_flight: InFlight
    after_reply: list[Callable[[], object]] = field(default_factory=list)
    alias: bool = False
    """It came under a name of MobKit's, whose clients know no fence (contract workgraph 11)."""
    told: Mapping[str, MemberId] = field(default_factory=dict)
    """Whose the sessions in the params are, by canonical id, as far as an external runtime said so (`admitting`)."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A method with its function and its decoder. `own_op`: the function looks its op id up itself.

    `check` refuses params that are well formed one by one and wrong together, before anything else is asked.
    `creates` finds in a result the id of what the call created, if anything: its op id is kept as long as that.
    `sessions` finds in the params the sessions that must be resolved before the function runs.
    """

    method: AnyMethod
    function: Callable[..., Any]
    runs: Where
    decode: Callable[[bytes], Any]
    own_op: bool = False
    creates: Callable[[Any], str | None] | None = None
    sessions: Callable[[Any], Iterable[Asked]] | None = None
    check: Callable[[Any], None] | None = None

    def params_of(self, raw: bytes) -> Any:
        """The params in `raw`. Raises `invalid_params` and its like."""
        params = self.decode(raw)
        if self.check is not None:
            self.check(params)
        return params


Read = Callable[[Snapshot, Call, P], R]
Write = Callable[[Tx, Call, P], R]
WriteOnce = Callable[[Tx, Call, P, bytes], R]
OnLoop = Callable[[Call, P], Awaitable[R]]
Creates = Callable[[R], str | None]
Sessions = Callable[[P], Iterable[Asked]]


def reads(method: Method[P, R], *, sessions: Sessions[P] | None = None) -> Callable[[Read[P, R]], Bound]:
    """The function runs on a reader's snapshot."""
    decode = Decoder(method.params).decode
    return lambda function: Bound(method, function, "reader", decode, sessions=sessions)


def writes(
    method: Method[P, R],
    *,
    check: Callable[[P], None] | None = None,
    creates: Creates[R] | None = None,
    sessions: Sessions[P] | None = None,
) -> Callable[[Write[P, R]], Bound]:
    """The function runs in the writer's transaction, possibly twice: it has no effect but through `tx`."""
    decode = Decoder(method.params).decode
    return lambda function: Bound(method, function, "writer", decode, creates=creates, sessions=sessions, check=check)


def writes_once(method: Method[P, R]) -> Callable[[WriteOnce[P, R]], Bound]:
    """The same for a function that looks its op id up itself. It is given its params as they came, too."""
    return lambda function: Bound(method, function, "writer", Decoder(method.params).decode, own_op=True)


def on_loop(method: Method[P, R]) -> Callable[[OnLoop[P, R]], Bound]:
    """The function is a coroutine of the loop: it waits, or needs no store."""
    return lambda function: Bound(method, function, "loop", Decoder(method.params).decode)


def collect(*modules: ModuleType) -> dict[str, Bound]:
    """Every bound method of the modules by name and alias. Raises ValueError on a double."""
    table: dict[str, Bound] = {}
    for module in modules:
        for bound in vars(module).values():
            if isinstance(bound, Bound):
                for name in (bound.method.name, *bound.method.aliases):
                    if name in table:
                        raise ValueError(f"{name} is bound twice")
                    table[name] = bound
    return table


ATTACHING = frozenset({"ledger/attach", "ledger/detach", "ledger/events/subscribe", "ledger/events/unsubscribe"})
"""What a connection that may not act as the operator can call beside reads and `daemon/` (contract daemon 4.2)."""


def permit(caller: Caller, method: AnyMethod) -> None:
    """Refuse what an unattached connection may not do where the setting `operator` shuts its transport out."""
    if caller.roles or caller.may_operate or method.kind == "read" or method.name in ATTACHING:
        return
    if method.family in ("daemon", "mobkit") and not method.operator_only:
        return  # also a batch, or an alias: each step, or the method that it stands for, is asked for by itself
    raise Refusal("not_admin", f"{method.name}: attach to a role first; only the socket acts as {OPERATOR} here")


async def run(bound: Bound, call: Call, raw: bytes) -> Any:
    """Answer one request: decode its params once, then run its function where it belongs."""
    params = bound.params_of(raw)
    permit(call.caller, bound.method)
    if bound.runs == "writer":
        return await _write(bound, call, params, raw)
    if bound.runs == "reader":
        if bound.sessions is not None and call.services.runtimes:
            call.told = await told(bound, call, params)
        database = call.services.database
        return await call.connection.paced(lambda: database.read(lambda snap: bound.function(snap, call, params)))
    if bound.method.operator_only and not call.caller.operator:
        raise not_admin(bound.method)
    return await cast(Awaitable[Any], bound.function(call, params))


async def _write(bound: Bound, call: Call, params: Any, raw: bytes) -> Any:
    def write() -> Awaitable[Any]:
        return call.services.database.write(lambda tx: invoke(tx, bound, call, params, raw))

    if not gated(bound, call.services, params):
        return await write()
    return await admitted(bound, call, params, lambda snap: replayed(snap, bound, call, params, raw), write)


def replayed(snap: Snapshot, bound: Bound, call: Call, params: Any, raw: bytes) -> Any:
    """What was answered before under this op id, None where it is new. Raises `op_conflict`."""
    method = bound.method
    return ops.replay(snap, params.op_id, method.name, _mark(bound, call, params, raw), method.result)


def invoke(tx: Tx, bound: Bound, call: Call, params: Any, raw: bytes) -> Any:
    """One write inside a transaction, alone or as a step: the op id first, then the rules (contract daemon 1.6)."""
    op_id = getattr(params, "op_id", None)
    if bound.own_op:
        return bound.function(tx, call, params, raw)
    if op_id is None:
        return _obey(tx, bound, call, params)
    method = bound.method
    return ops.once(
        tx,
        op_id,
        method.name,
        lambda: _mark(bound, call, params, raw),
        method.result,
        lambda: _made(bound, _obey(tx, bound, call, params)),
        call.services.history_ms if method.kept_as_history else 0,
    )


def _mark(bound: Bound, call: Call, params: Any, raw: bytes) -> bytes:
    """What the op id of a call stands for."""
    name = bound.method.name
    return ops.fingerprint(name, content(raw), op_role(call.caller, params))


def _made(bound: Bound, result: Any) -> tuple[Any, str | None]:
    return result, None if bound.creates is None else bound.creates(result)


def _obey(tx: Tx, bound: Bound, call: Call, params: Any) -> Any:
    if bound.method.operator_only and not call.caller.operator:
        raise not_admin(bound.method)
    return bound.function(tx, call, params)


def not_admin(method: AnyMethod) -> Refusal:
    """The refusal of an operator's method to a connection that acts for roles."""
    return Refusal("not_admin", f"{method.name} is for the operator: a connection that is attached to no role")


def content(raw: bytes) -> dict[str, Any]:
    """What an op id stands for: the params without `op_id` and `_meta`."""
    plain: dict[str, Any] = msgspec.json.decode(raw)
    plain.pop("op_id", None)
    plain.pop("_meta", None)
    return plain


def op_role(caller: Caller, params: Any) -> str | None:
    """The caller's role in that content: the one it named, else its first."""
    named = getattr(params, "role", None)
    return named if isinstance(named, str) else caller.op_role
