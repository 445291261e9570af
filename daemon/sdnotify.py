"""Words to the supervisor: systemd's notification protocol, and nothing where nobody asked for it (field 2.6)."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping


def notify(state: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Send `state` (`READY=1`, `STATUS=...`, lines of them). True when it was sent; never raises, never waits."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):  # absent, or of a kind that only virtual machines have
        return False
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.connect(address)
            sock.send(state.encode())
    except (OSError, ValueError):  # the supervisor is gone, or its name is no address
        return False
    return True


def watchdog_seconds(environ: Mapping[str, str] = os.environ) -> float | None:
    """How often `WATCHDOG=1` is due at the latest; None when it is not wanted from this process. Send at half of it."""
    try:
        seconds = int(environ.get("WATCHDOG_USEC", "0")) / 1_000_000
        wanted_of = int(environ.get("WATCHDOG_PID") or os.getpid())
    except ValueError:
        return None
    return seconds if seconds > 0 and wanted_of == os.getpid() else None
