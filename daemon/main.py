"""`interlockd`: settings, logs, one run of the loop, one exit code (contract daemon 4.1)."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Callable

from interlock.stores.errors import StoreUnusable

from . import config, logs, stdio
from .app import App
from .places import StartError
from .settings import Settings

EXIT_SCHEMA = 6
EXIT_FAILED = 70


def main() -> None:
    """The entry point of `interlockd`."""
    sys.exit(run(sys.argv[1:]))


def run(argv: list[str]) -> int:
    """Serve as the arguments say; the exit code. Its last line on stderr says why it is not 0."""
    stdio.open_standard_descriptors()
    try:
        settings = config.load(argv, os.environ).settings
    except StartError as error:
        return _failed(error.exit_code, str(error))
    wire = stdio.take() if settings.stdio else None
    logs.configure(settings.log_level)
    try:
        return _serve(settings, wire)
    except StartError as error:
        return _failed(error.exit_code, str(error))
    except StoreUnusable as error:
        return _failed(EXIT_SCHEMA, str(error))
    except Exception as error:
        logs.get_logger("interlock").exception("failed")
        return _failed(EXIT_FAILED, f"failed inside: {error!r}")


def _serve(settings: Settings, wire: stdio.Wire | None) -> int:
    async def serve() -> None:
        app = App(settings, wire)  # made inside the loop: its parts belong to it
        app.listen_to_signals()
        await app.run(_spare_collector)
        logs.get_logger("interlock").info("stopped", why=app.why)

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve())
    return 0


def _spare_collector() -> None:
    """What the start has made stays: looking at it again and again takes a sixth of a loaded loop."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed: it makes a durable send a fifth cheaper (DESIGN 4.2)."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _failed(code: int, why: str) -> int:
    sys.stderr.write(f"interlockd: {why}\n")
    return code
