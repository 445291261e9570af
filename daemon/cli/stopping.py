"""Stopping a daemon: it is asked, never signalled, and the answer waits until its lock is free (C09, C10, C22, C23)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from .client import Client, ConnectionLost, NoDaemon, TimedOut
from .failures import TRY_AGAIN, UNREACHABLE, Failed
from .starting import START_SECONDS, Started, StartLock, start
from .where import Where, connect, describe_leader, is_led, lock_record

GRACE_SECONDS: Final = 10.0
"""What stopping may take beyond the drain: closing the stores, a checkpoint."""
_PAUSE: Final = 0.02


def stop(where: Where, drain_ms: int, seconds: float | None = None) -> dict[str, Any] | None:
    """Stop whoever serves `where`; return its last status once its lock is free, None when nobody ran.

    Raises Failed: somebody leads and cannot be reached (69), or did not end in time (75).
    """
    deadline = time.monotonic() + (drain_ms / 1000 + GRACE_SECONDS if seconds is None else seconds)
    try:
        client = connect(where)
    except NoDaemon as error:
        if is_led(where.state_dir):
            leader = describe_leader(where.state_dir)
            raise Failed(
                f"{error.reason} at {error.address}, yet {leader} leads {where.state_dir}", UNREACHABLE
            ) from error
        return None
    with client:
        status = _shut_down(client, drain_ms, deadline)
    _wait_until_free(Path(status.get("state_dir", where.state_dir)), status, deadline)
    return status


def restart(
    where: Where, env: Mapping[str, str], drain_ms: int, options: Sequence[str] = (), seconds: float | None = None
) -> Started:
    """Stop whoever serves, then start; who wants a daemon meanwhile waits for that. Raises Failed, StartFailed."""
    with StartLock(where, env) as lock:
        deadline = time.monotonic() + START_SECONDS
        while not lock.take() and time.monotonic() < deadline:
            time.sleep(_PAUSE)
        stop(where, drain_ms, seconds)
    return start(where, env, options)


def _shut_down(client: Client, drain_ms: int, deadline: float) -> dict[str, Any]:
    left = max(deadline - time.monotonic(), 0.1)
    status: dict[str, Any] = client.call("daemon/status", timeout=left)
    try:
        client.call("daemon/shutdown", {"drain_ms": drain_ms}, timeout=left)
        for _ in client.notifications(timeout=left):
            pass  # until the daemon closes the connection
    except (ConnectionLost, TimedOut):
        pass  # what counts is the lock, and that is looked at next
    return status


def _wait_until_free(state_dir: Path, status: Mapping[str, Any], deadline: float) -> None:
    # Another process may take the lock over at once: then it is not that daemon's any more, and that will do.
    ours = (None, status.get("instance_id"))
    while is_led(state_dir) and lock_record(state_dir).get("instance_id") in ours:
        if time.monotonic() >= deadline:
            raise Failed(f"the daemon (pid {status.get('pid')}) is still stopping", TRY_AGAIN)
        time.sleep(_PAUSE)
