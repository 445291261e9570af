"""Requests from the daemon to a client (contract daemon 1.5): no id is used twice, few are open, each is bounded."""

from __future__ import annotations

import asyncio

import msgspec

from interlock.lifecycle.refusal import Refusal
from interlock.protocol import envelope
from interlock.protocol.envelope import Response
from interlock.protocol.limits import SERVER_REQUEST_MS, SERVER_REQUESTS

from .output import Output


class ServerCalls:
    """The open server-to-client requests of one connection."""

    def __init__(self, output: Output, timeout_ms: int = SERVER_REQUEST_MS) -> None:
        self._output = output
        self._timeout = timeout_ms / 1000
        self._open: dict[str, asyncio.Future[bytes]] = {}
        self._serial = 0
        self._closed = False

    async def ask(self, method: str, params: object) -> bytes:
        """The client's result as JSON. Raises `unavailable`: no answer in time, an error, or the client has gone."""
        if self._closed:
            raise _gone()
        if len(self._open) >= SERVER_REQUESTS:
            raise Refusal("at_capacity", f"{SERVER_REQUESTS} requests to this client are open", retryable=True)
        self._serial += 1
        request_id = f"srv-{self._serial}"
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._open[request_id] = future
        try:
            self._output.send(envelope.encode_request(request_id, method, params))
            async with asyncio.timeout(self._timeout):
                return await future
        except TimeoutError:
            raise Refusal("unavailable", f"the client did not answer {method} in time") from None
        finally:
            del self._open[request_id]

    def answered(self, response: Response) -> None:
        """Hand an answer to who waits for it; one that nothing waits for is dropped."""
        future = self._open.get(response.id) if isinstance(response.id, str) else None
        if future is None or future.done():
            return
        if response.error is not None:
            future.set_exception(Refusal("unavailable", _message(response.error)))
        else:
            future.set_result(response.result or b"null")

    def close(self) -> None:
        """The client has gone: nobody will answer."""
        self._closed = True
        for future in self._open.values():
            if not future.done():
                future.set_exception(_gone())


def _gone() -> Refusal:
    return Refusal("unavailable", "the client has gone")


def _message(error: bytes) -> str:
    try:
        return f"the client refused: {msgspec.json.decode(error)['message']}"
    except (msgspec.MsgspecError, KeyError, TypeError):
        return "the client refused"
