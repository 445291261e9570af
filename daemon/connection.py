"""One connection: bytes in, one task per request, answers out; the only place where an exception becomes an error.

Owns the in-flight table, cancellation, back-pressure and batches (contract daemon 1). Deliberately unaware of what the
methods do and of whether the bytes come from a socket or from stdio.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Container, Iterator
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Any, Literal, TypeVar

import msgspec

from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.roles import Caller
from interlock.protocol import envelope
from interlock.protocol.envelope import Batch, Id, Invalid, Notification, Request, Response
from interlock.protocol.framing import BadHeader, Framing, Oversized, Splitter
from interlock.protocol.limits import OUTPUT_BYTES, REQUESTS_IN_FLIGHT, WAITING_CALLS
from interlock.protocol.workgraph import DEFAULT

from . import dispatch
from .calls import ServerCalls
from .dispatch import Bound, Call
from .in_flight import CANCELLED, CLIENT_GONE, DOUBLE, Draining, InFlight, Item, Owed, Reply, another, no_answer
from .output import Output
from .services import Services

T = TypeVar("T")

WAIT_AGAIN_MS = 1000
"""When to try again where too many calls wait: they end by themselves."""
CANCELS = {"$/cancelRequest": "id", "notifications/cancelled": "requestId", "cancel": "request_id"}
"""Notifications that cancel a request, and the param that names it (contract daemon 1.4)."""
IGNORED = frozenset({"initialize", "initialized", "notifications/initialized"})
WHILE_NOT_READY = frozenset(
    {"daemon/ping", "daemon/status", "mobkit/init", "mobkit/status", "mobkit/capabilities", "mobkit/shutdown"}
)
CHANGES_CALLER = frozenset({"ledger/attach", "ledger/detach"})
"""What is read behind one of these begins when it is done: a client may pull, or send, in the same breath."""
WHILE_DRAINING = (WHILE_NOT_READY - {"mobkit/init"}) | {"daemon/shutdown"}
"""A second shutdown can shorten the time."""
LEAVE_S = 5.0
"""How long `mobkit/shutdown` waits for what is in flight before it ends it; its client waits for twice as long."""


class Connection(asyncio.Protocol):
    """A client. `on_gone` is awaited once it has gone and nothing of it runs any more."""

    def __init__(
        self,
        services: Services,
        holder: str,
        transport_kind: Literal["socket", "stdio"],
        *,
        principal: str | None = None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.services = services
        self.caller = Caller(
            instance_id=services.instance_id,
            holder=holder,
            transport=transport_kind,
            may_operate=services.settings.operator == "any" or transport_kind == "socket",
            principal=principal,
        )
        self.output = Output(self._overflow, lambda: bool(len(self._tasks) > len(self._waiting) or self._backlog))
        self.calls = ServerCalls(self.output)
        self.subscriptions: dict[str, Any] = {}
        self.gone = asyncio.Event()
        self.attached = False
        self.realm = DEFAULT
        """Of the names under `mobkit/`, as `mobkit/init` said."""
        self._splitter = Splitter()
        self._backlog: deque[Item] = deque()
        self._tasks: dict[object, InFlight] = {}
        self._waiting: set[InFlight] = set()
        self._changing: InFlight | None = None
        self._left: Refusal | None = None  # why nothing more is taken, once somebody has left
        self._leaving: set[InFlight] = set()  # who asked for it
        self._serial = 0
        self._paused = False
        self._ended = False
        self._closing = False
        self._late = services.state.name == "draining"
        self._deaf = False
        self._reads, self._pulls = asyncio.Lock(), asyncio.Lock()
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()

    # -- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.output.start(self.transport)
        self.services.connections.add(self)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        self._backlog.extend(self._splitter.feed(data))
        self.output.framing = self._splitter.framing or Framing.LINE
        self._advance()

    def eof_received(self) -> bool:
        self._end()
        return True  # what is in flight is still answered

    def pause_writing(self) -> None:
        self.output.pause()

    def resume_writing(self) -> None:
        self.output.resume()
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        self._closing = True
        self._backlog.clear()
        self.output.resume()
        self.cut(CLIENT_GONE)
        self.calls.close()
        self.services.background(self._leave())

    # -- reading

    def _end(self) -> None:
        """The client's side has ended: nothing more is read, waiting calls end at once (contract daemon 1.1)."""
        if self._ended:
            return
        self._ended = True
        self._backlog.extend(self._splitter.end())
        self._end_waiting(CLIENT_GONE)
        self._on_end()
        self._advance()

    def _advance(self) -> None:
        """Start what was read, as long as there is room for it; pause reading while there is none."""
        while self._backlog and self._has_room():
            self._handle(self._backlog.popleft())
        full = bool(self._backlog)
        if full != self._paused and not self._ended and not self.transport.is_closing():
            self._paused = full
            (self.transport.pause_reading if full else self.transport.resume_reading)()
        if self._ended and not self._backlog and not self._tasks:
            self.close()

    def _has_room(self) -> bool:
        return self._changing is None and len(self._tasks) < REQUESTS_IN_FLIGHT and self.output.room.is_set()

    def _handle(self, item: Item) -> None:
        if isinstance(item, Owed):
            self._start(item.message, item.reply)
        elif isinstance(item, bytes):
            message = envelope.decode(item)
            if isinstance(message, Batch):
                self._queue_batch(message)
            else:
                self._start(message, self._reply)
        elif isinstance(item, Oversized):
            self._start(envelope.oversized(item.head), self._reply)
        elif isinstance(item, BadHeader):
            self.output.send(envelope.encode_error(None, Refusal("invalid_request", item.message)))
            self._end()  # there is no way back into step
        else:
            self._late = True

    def _reply(self, answer: bytes) -> None:
        if answer:
            self.output.send(answer)

    def _queue_batch(self, batch: Batch) -> None:
        """Members run concurrently; one array answers when the last is done, nothing when all were notifications.

        They come next, as far as there is room: each of them counts as a request in flight.
        """
        answers: list[bytes] = []
        owed, size = len(batch.members), 0

        def collect(answer: bytes) -> None:
            nonlocal owed, size
            owed -= 1
            size += len(answer)
            if answer:
                answers.append(answer)
            if size > OUTPUT_BYTES:  # it could never be sent
                answers.clear()
                self._overflow()
            elif owed == 0 and answers:
                self.output.send(b"[" + b",".join(answers) + b"]")

        self._backlog.extendleft(Owed(member, collect) for member in reversed(batch.members))

    # -- requests

    def _start(self, message: Request | Notification | Response | Invalid, reply: Reply) -> None:
        """Begin one message. `reply` is called exactly once, with nothing where no answer is owed."""
        if isinstance(message, Request):
            self._start_request(message.id, message.method, message.params, reply)
        elif isinstance(message, Notification):
            reply(b"")
            self._notified(message)
        elif isinstance(message, Response):
            reply(b"")
            self.calls.answered(message)
        else:
            self._refuse_invalid(message, reply)

    def _refuse_invalid(self, message: Invalid, reply: Reply) -> None:
        """Where only the params are wrong, an id in flight and an unknown method come first (contract daemon 1.1)."""
        refusal = message.refusal
        method = message.method or ""
        if message.id is not None and (type(message.id), message.id) in self._tasks:
            refusal, method = DOUBLE, ""
        elif method and method not in self.services.methods:
            refusal = self.services.no_method(method)
        number = message.number if refusal is message.refusal else None
        self.services.metrics.request("", refusal.code, 0.0)
        reply(envelope.encode_error(message.id, refusal, number, method) if message.answer else b"")

    def _start_request(self, request_id: Id, method: str, params: bytes, reply: Reply) -> None:
        key = (type(request_id), request_id)
        if key in self._tasks:
            reply(envelope.encode_error(request_id, DOUBLE))
        else:
            self._run(key, request_id, method, params, reply)

    def _run(self, key: object, request_id: Id | None, method: str, params: bytes, reply: Reply) -> None:
        this = self._tasks[key] = InFlight(self._late)
        if method in CHANGES_CALLER:
            self._changing = this
        this.task = self._loop.create_task(self._answer(this, key, request_id, method, params, reply))

    def _notified(self, message: Notification) -> None:
        if message.method in CANCELS:
            self._cancel(message)
        elif message.method not in IGNORED:
            self._serial += 1
            self._run((None, self._serial), None, message.method, message.params, no_answer)

    def _cancel(self, message: Notification) -> None:
        """Unknown, finished or malformed: ignored (contract daemon 1.4). The id is matched with its type."""
        try:
            request_id = msgspec.json.decode(message.params).get(CANCELS[message.method])
        except (msgspec.MsgspecError, AttributeError, RecursionError):
            return
        if isinstance(request_id, (str, int)) and (type(request_id), request_id) in self._tasks:
            self._tasks[type(request_id), request_id].cancel(CANCELLED)

    async def _answer(
        self, this: InFlight, key: object, request_id: Id | None, name: str, params: bytes, reply: Reply
    ) -> None:
        this.started = True
        started = perf_counter()
        call = Call(self.caller, self.services, self, this)
        code = "ok"
        try:
            this.check()
            result = await dispatch.run(self._lookup(name, this.late), call, params)
            answer = b"" if request_id is None else envelope.encode_result(request_id, result)
        except Refusal as refused:
            code, answer = self._refuse(request_id, refused, name)
        except asyncio.CancelledError:
            code, answer = self._refuse(request_id, this.why or CANCELLED, name)
        except Exception:
            code, answer = self._refuse(request_id, self.services.bug(name), name)
        del self._tasks[key]
        if self._changing is this:
            self._changing = None
        self.services.metrics.request(name if code != "method_not_found" else "", code, perf_counter() - started)
        if not self._closing:
            reply(answer)
            for after in call.after_reply:
                after()
            if self._backlog or self._ended:
                self._advance()

    def _refuse(self, request_id: Id | None, refusal: Refusal, name: str) -> tuple[str, bytes]:
        return refusal.code, b"" if request_id is None else envelope.encode_error(request_id, refusal, method=name)

    def _lookup(self, name: str, late: bool) -> Bound:
        """The method, unless it is not answered now (contract daemon 1.7). What was read before the drain is."""
        bound = self.services.methods.get(name)
        if bound is None:
            raise self.services.no_method(name)
        state = self.services.state.name
        ending = state == "draining" or self._left is not None
        served = state in ("ready", "draining") and not (ending and late)
        if not served and bound.method.name not in (WHILE_DRAINING if ending else WHILE_NOT_READY):
            raise self._not_now()
        return bound

    def _not_now(self) -> Refusal:
        return self.services.not_ready() if self._left is None else another(self._left)

    # -- for the methods

    async def paced(self, read: Callable[[], Awaitable[T]], *, writes: bool = False) -> T:
        """Make an answer that may be large, and send it when the client has room for it.

        A client that pipelines large pages but does read is thus slowed, not cut off; one that does not read stops.
        One at a time: reads side by side only wait for each other's interpreter (64 pages of 50 rows in flight: 570/s
        in a line, 310/s two or more at once). What `writes` begins only when there is room, since mail that is taken
        must be told; it waits in a line of its own, so that a read is answered while a write is held (DESIGN 4.3).
        """
        if writes:
            async with self._pulls:
                await self.output.roomy()
                return await read()
        async with self._reads:
            answer = await read()
            await self.output.roomy()
            return answer

    @contextmanager
    def waiting(self, call: Call) -> Iterator[None]:
        """The call waits: at most 128 do, and the end of input ends them. Raises `at_capacity`."""
        if self._ended:
            raise another(CLIENT_GONE)
        if self.services.state.name == "draining" or self._left is not None:
            raise self._not_now()
        if len(self._waiting) >= WAITING_CALLS:
            says = f"{WAITING_CALLS} calls of this connection wait already"
            raise Refusal("at_capacity", says, retryable=True, retry_after_ms=WAIT_AGAIN_MS)
        self._waiting.add(call.in_flight)
        try:
            yield
        finally:
            self._waiting.discard(call.in_flight)

    def begin_to_drain(self, why: Refusal) -> None:
        """End what waits with this; what is read from now on is late."""
        self._backlog.append(Draining())
        self._end_waiting(why)
        self._advance()

    def _end_waiting(self, why: Refusal) -> None:
        for waiting in list(self._waiting):
            waiting.cancel(why)

    def act_for(self, roles: tuple[str, ...]) -> None:
        """From the next request on the connection acts for these roles."""
        self.caller = msgspec.structs.replace(self.caller, roles=roles)

    @property
    def requests_in_flight(self) -> int:
        """Requests and notifications that have begun and are not done."""
        return len(self._tasks)

    # -- ending

    async def leave(self, this: InFlight) -> None:
        """Refuse what is read from now on, and return once all that was read before is done (contract workgraph 11).

        `this` is who asks. The connection stays: its client is answered and ends it.
        """
        self._left = self._left or Refusal("draining", "this connection was shut down by mobkit/shutdown")
        self._leaving.add(this)
        try:
            self.begin_to_drain(self._left)
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await self.drained(self._leaving)
            self._late = True  # also what was read and could not begin in that time
            for begun in self._tasks.values():
                if not begun.late and begun not in self._leaving:
                    begun.cancel(self._left)
            self._advance()
            await self.drained(self._leaving)
        finally:
            self._leaving.discard(this)
        self.close_subscriptions("draining")

    async def drained(self, but: Container[InFlight] = ()) -> None:
        """Until everything that was read before the drain is done. Late ones do not count: they could come for ever."""
        while True:
            begun = [one for one in self._tasks.values() if not one.late and one not in but]
            if owed := [one.task for one in begun if one.task is not None]:
                await asyncio.wait(owed, return_when=asyncio.FIRST_COMPLETED)
            elif self._late or self._closing:
                return
            else:
                await self.output.room.wait()  # it goes on when there is room

    def cut(self, why: Refusal) -> None:
        """Answer everything that was read and is not done with this, and read no more."""
        self._late = self._deaf = True
        for begun in list(self._tasks.values()):
            begun.cancel(why)
        self._advance()

    def close_subscriptions(self, reason: str) -> None:
        """End the subscriptions with a word. One whose request still runs is none yet."""
        for subscription in [found for found in self.subscriptions.values() if found is not None]:
            subscription.close(reason)

    async def settled(self) -> None:
        """Until nothing is in flight."""
        while tasks := [begun.task for begun in self._tasks.values() if begun.task is not None]:
            await asyncio.wait(tasks)

    def close(self) -> None:
        """Send what is queued, then close."""
        self._closing = self._closing or not self._tasks
        self.output.flush()
        self.transport.close()

    def _overflow(self) -> None:
        if self._closing:
            return
        self.services.log.warning("slow_client_closed", holder=self.caller.holder)
        self._closing = True
        self.transport.abort()

    async def _leave(self) -> None:
        try:
            await self.settled()
            for subscription in list(self.subscriptions.values()):
                subscription.stop()
            await self.services.connection_gone(self)
        finally:
            self.services.connections.discard(self)
            self.gone.set()  # whatever failed: the end of the process waits for this
