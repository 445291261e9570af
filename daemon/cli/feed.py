"""Following the event feed and waiting, over as many calls as it takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, Final

from .client import Client, NoDaemon, RpcFailure
from .output import as_json, one_line
from .settings import Settings

PAGE: Final = 500
WAIT_MS: Final = 60_000
"""The longest that one `daemon/wait` may take."""
ANSWER_SECONDS: Final = 15.0
"""How much later than asked an answer may come before it counts as lost."""
RECONNECT_SECONDS: Final = 10.0
"""How long a follower looks for the daemon again after it went away."""
_PAUSE: Final = 0.1

Event = dict[str, Any]
Filter = Mapping[str, Any]


class Stopped(Exception):
    """The feed cannot be followed any longer. `after` is where to resume."""

    def __init__(self, cause: NoDaemon, after: int | None) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.after = after


def kept(settings: Settings, wanted: Filter, after: int | None) -> Iterator[Event]:
    """Every matching event above `after` (none: the oldest kept) that is there now, page by page."""
    with settings.connect(spawn=True) as client:
        while True:
            params = {**wanted, "limit": PAGE} | ({} if after is None else {"after_seq": after})
            page = client.call("ledger/events/since", params, ANSWER_SECONDS)
            yield from page["events"]
            after = page["scanned_seq"]
            if not page["has_more"]:
                return


class Follower:
    """Every matching event above `after` (none: from now on), as they come, for ever.

    Goes on after `events/lagged`, and after a restart of the daemon; `after` is always where to resume.
    """

    def __init__(self, settings: Settings, wanted: Filter, after: int | None) -> None:
        self.after = after
        self._settings = settings
        self._wanted = wanted

    def events(self) -> Generator[Event]:
        """The events. Raises Stopped when the daemon goes away and does not come back."""
        client = self._settings.connect(spawn=True)
        while True:
            try:
                with client:
                    yield from self._events_of(client)
            except NoDaemon:
                pass  # it went away; what was missed is in the feed
            client = self._reconnect()

    def _events_of(self, client: Client) -> Iterator[Event]:
        """What one connection brings; ends when the daemon closes the subscription, or the connection."""
        subscription = self._subscribe(client)
        for method, params in client.notifications():
            if params.pop("subscription", None) != subscription:
                continue
            if method == "events/event":
                self.after = params["seq"]
                yield params
            elif method == "events/lagged":
                self.after = params["after_seq"]
                subscription = self._subscribe(client)
            elif method == "events/closed":
                self.after = params["after_seq"]
                return

    def _subscribe(self, client: Client) -> str:
        params = {**self._wanted} | ({} if self.after is None else {"after_seq": self.after})
        answer = client.call("ledger/events/subscribe", params, ANSWER_SECONDS)
        self.after = answer["after_seq"]
        return str(answer["subscription"])

    def _reconnect(self) -> Client:
        deadline = time.monotonic() + RECONNECT_SECONDS
        while True:
            try:
                return _ready_client(self._settings)
            except NoDaemon as error:
                if time.monotonic() >= deadline:
                    raise Stopped(error, self.after) from error
            time.sleep(_PAUSE)


def _ready_client(settings: Settings) -> Client:
    """A connection to a daemon that takes requests; one that starts or stops counts as none. Raises NoDaemon."""
    client = settings.connect(spawn=False)
    try:
        client.call("ledger/events/head", timeout=ANSWER_SECONDS)
    except RpcFailure as failure:
        client.close()
        if failure.retryable:
            raise NoDaemon(client.address, str(failure)) from failure
        raise
    except BaseException:
        client.close()
        raise
    return client


def wait(
    settings: Settings, wanted: Filter, after: int | None, seconds: float, clock: Callable[[], float] = time.monotonic
) -> dict[str, Any]:
    """The answer of `daemon/wait`, asked again until something matched or `seconds` are over (empty `matched`)."""
    deadline = clock() + seconds
    with settings.connect(spawn=True) as client:
        while True:
            left = max(0, round((deadline - clock()) * 1000))
            params: dict[str, Any] = {"filter": wanted, "timeout_ms": min(left, WAIT_MS)}
            if after is not None:
                params["after_seq"] = after
            answer: dict[str, Any] = client.call("daemon/wait", params, WAIT_MS / 1000 + ANSWER_SECONDS)
            if answer["matched"] or left <= WAIT_MS:
                return answer
            after = answer["as_of_seq"]


def event_line(event: Event) -> str:
    """One event as one line for a person."""
    about = [event["subject"]] + ([f"role {event['role']}"] if event.get("role") else [])
    head = f"{event['seq']:>8}  {event['at']}  {event['family']}/{event['type']}"
    return one_line(f"{head}  {'  '.join(about)}  {as_json(event.get('data'), indent=False)}")
