"""Logs: one record per event, on stderr only (field 2.5). Nothing that happens to stderr reaches whoever logs.

Owns the set-up of structlog and the way of a record: level, repeats (`Repeats`), redaction (`redaction`), text, `Sink`.
Import structlog through this module, never directly: it would load rich, which costs more than all of structlog.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from .redaction import clean

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

if "rich" not in sys.modules:
    # structlog.dev imports rich for tracebacks that we do not use: 80 of its 100 ms. None makes that import fail.
    sys.modules["rich"] = cast("Any", None)
    try:
        import structlog
    finally:
        del sys.modules["rich"]
else:
    import structlog

REPEATS_PER_MINUTE: Final = 60
"""Records with one event name that are written per minute; the rest are counted."""
PENDING_BYTES: Final = 1 << 16
"""What is kept of lines that stderr took in part; beyond that whole lines are dropped, and counted."""
PIPE_ROOM: Final = select.PIPE_BUF
"""A pipe that is ready takes so much without blocking."""
NOTE: Final = b'{"event":"log_dropped"'
COLOURS: Final = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}

Event = MutableMapping[str, Any]


def configure(level: str = "info", *, fd: int = 2, readable: bool | None = None) -> Sink:
    """Send all logs, those of the standard library and warnings too, to `fd`. Once, before the first record.

    `level` is one of debug, info, warning, error; `readable` None means readable on a terminal, else JSON. Returns the
    sink, for those who want to know what was dropped.
    """
    sink = Sink(fd)
    for_people = os.isatty(fd) if readable is None else readable
    colours = for_people and "NO_COLOR" not in os.environ
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            Repeats(time.monotonic),
            _finish(lambda event: render_readable(event, colours=colours) if for_people else render_json(event)),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: sink,
        cache_logger_on_first_use=True,
    )
    _take_over_the_standard_library(level)
    return sink


def get_logger(name: str) -> FilteringBoundLogger:
    """A logger whose records carry `module: name`. May be made before `configure`."""
    return cast("FilteringBoundLogger", structlog.get_logger(module=name))


class Sink:
    """Writes whole lines to a descriptor. Never blocks on a pipe, never raises: what cannot be written is counted.

    `dropped` counts since the start. The next line that fits comes with a `log_dropped` line that tells the count.
    """

    def __init__(self, fd: int) -> None:
        self.dropped = 0
        self._told = 0
        self._fd = fd
        self._pending = b""
        self._lock = threading.Lock()
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def write(self, line: str) -> None:
        """Write one line; the line end is added here."""
        data = line.encode("utf-8", "backslashreplace") + b"\n"
        with self._lock:
            self._flush()
            if self._pending and len(self._pending) + len(data) > PENDING_BYTES:
                self.dropped += 1
                return
            if self._told != self.dropped:
                self._pending += NOTE + b',"level":"warning","count":%d}\n' % self.dropped
                self._told = self.dropped
            self._pending += data
            self._flush()

    debug = info = warning = error = critical = write

    def _flush(self) -> None:
        # Not in one go: a descriptor that blocks takes PIPE_ROOM when it is ready, and may block on one byte more.
        while self._pending:
            try:
                if not self._poll.poll(0):
                    return
                written = os.write(self._fd, self._pending[:PIPE_ROOM])
            except BlockingIOError:
                return
            except OSError:  # nobody reads, or nobody ever will: keep no more of it
                self.dropped += self._pending.count(b"\n") - self._pending.count(NOTE)
                self._told = -1
                self._pending = b""
                return
            self._pending = self._pending[written:]


class Repeats:
    """Lets an event name through so often per minute and counts the rest; the next record carries `suppressed`.

    Not limited are debug, which a person asked for, and records with `error_id`, which must be found in the log.
    """

    def __init__(self, clock: Callable[[], float], per_minute: int = REPEATS_PER_MINUTE) -> None:
        self._clock = clock
        self._per_minute = per_minute
        self._since = clock()
        self._seen: dict[str, int] = {}
        self._suppressed: dict[str, int] = {}

    def __call__(self, _logger: object, method: str, event: Event) -> Event:
        """The event, or structlog.DropEvent."""
        if method == "debug" or "error_id" in event:
            return event
        now = self._clock()
        if now - self._since >= 60.0:
            self._since = now
            self._seen.clear()
        name = str(event.get("event"))
        self._seen[name] = self._seen.get(name, 0) + 1
        if self._seen[name] > self._per_minute:
            self._suppressed[name] = self._suppressed.get(name, 0) + 1
            raise structlog.DropEvent
        if self._suppressed:
            event["suppressed"], self._suppressed = self._suppressed, {}
        return event


def render_json(event: Mapping[str, object]) -> str:
    """One JSON object on one line: time, level, event, then the rest. `event` is clean."""
    return msgspec.json.encode(event).decode()


def render_readable(event: Mapping[str, object], *, colours: bool) -> str:
    """For a person: time of day, level, event, fields; a traceback below."""
    rest = dict(event)
    moment = str(rest.pop("time", ""))[11:23]
    level = str(rest.pop("level", ""))
    name = str(rest.pop("event", ""))
    rest.pop("monotonic_ms", None)
    trace = str(rest.pop("exception", "")).replace("\x1b", "\\x1b")  # it may quote what a peer sent
    fields = " ".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in rest.items())
    colour = COLOURS.get(level, "") if colours else ""
    plain = "\x1b[0m" if colour else ""
    line = f"{moment} {colour}{level:<8}{name}{plain} {fields}".rstrip()
    return f"{line}\n{trace}" if trace else line


def _finish(render: Callable[[Mapping[str, object]], str]) -> Callable[[object, str, Event], str]:
    """The last processor: stamp, redact and render. Whatever is logged, a line comes out."""

    def finish(logger: object, method: str, event: Event) -> str:
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
        head = {"time": stamp, "monotonic_ms": time.monotonic_ns() // 1_000_000, "level": method}
        try:
            event = structlog.processors.format_exc_info(logger, method, event)
            return render(cast("dict[str, object]", clean({**head, "event": event.pop("event", ""), **event})))
        except Exception as error:  # a value's own code may do anything
            return render({**head, "event": "log_failed", "reason": type(error).__name__})

    return finish


class _Forward(logging.Handler):
    """Hands records of the standard library on: asyncio reports there what nobody awaited."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record of logger X as event X with its text as `message`."""
        try:
            text = record.getMessage()
        except Exception:  # the arguments do not fit: its author's mistake, not the reader's loss
            text = str(record.msg)
        level = min(max(record.levelno // 10 * 10, logging.DEBUG), logging.CRITICAL)
        get_logger(record.name).log(level, record.name, message=text, exc_info=record.exc_info)


def _take_over_the_standard_library(level: str) -> None:
    root = logging.getLogger()
    root.addHandler(_Forward())
    root.setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[level.upper()]))
    logging.captureWarnings(True)
