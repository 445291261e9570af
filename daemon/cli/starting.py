"""Starting a daemon when none serves, exactly once however many ask (field 2.6, C01, C07, C15)."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from .. import places
from .client import Client, NoDaemon, RpcFailure, TimedOut
from .failures import INTERNAL, TRY_AGAIN, UNREACHABLE, Failed
from .where import Where, connect

if TYPE_CHECKING:
    import subprocess

START_SECONDS: Final = 5.0
"""How long a start may take before the starter gives up waiting; the daemon itself may go on."""
PROBE_SECONDS: Final = 1.0
"""How long a probe waits: a status answers within 100 ms even while the writer is held (contract daemon 3)."""
LOG_BYTES: Final = 16 << 20
"""Above this the log of started daemons is set aside at the next start; one old file is kept."""
DAEMON_CODES: Final = frozenset({2, 6, 69, 70, 75})
"""The exit codes of a daemon that could not start (contract daemon 4.1); any other is a crash."""
_FIRST_PAUSE: Final = 0.005
_LAST_PAUSE: Final = 0.05
_RESPAWN_PAUSE: Final = 0.25


class Started(NamedTuple):
    """The status of the daemon that serves now, and whether this call started it."""

    status: dict[str, Any]
    spawned: bool


class StartFailed(Failed):
    """The daemon did not become ready. `exit_code` is the daemon's own where it ended."""


def probe(where: Where) -> dict[str, Any] | None:
    """The status of the daemon that serves `where`, or None when nobody answers."""
    try:
        with connect(where, PROBE_SECONDS) as client:
            status = client.call("daemon/status", timeout=PROBE_SECONDS)
    except (NoDaemon, TimedOut, RpcFailure):
        return None
    return status if isinstance(status, dict) else None


def start(where: Where, env: Mapping[str, str], options: Sequence[str] = (), seconds: float = START_SECONDS) -> Started:
    """Return once a daemon is ready, started if nobody serves, with `options` of `interlockd`. Raises StartFailed."""
    status = probe(where)
    if _is_ready(status):
        return Started(status or {}, spawned=False)
    if where.socket is None:
        raise StartFailed("a daemon with the socket none cannot be reached: name a socket", UNREACHABLE)
    with StartLock(where, env) as lock:
        return _Start(where, env, options, lock).wait(time.monotonic() + seconds)


def open_client(where: Where, env: Mapping[str, str], *, spawn: bool) -> Client:
    """A connection to the daemon, started first if it is absent and `spawn` says so. Raises NoDaemon, StartFailed."""
    try:
        return connect(where)
    except NoDaemon:
        if not spawn:
            raise
    try:
        start(where, env)
    except StartFailed as failure:
        # For a verb that only wanted to call, whatever the daemon's own reason: none could be started.
        raise StartFailed(failure.message, UNREACHABLE, **failure.data) from failure
    return connect(where)


class StartLock:
    """Elects one starter per state directory; the others wait for what it starts."""

    def __init__(self, where: Where, env: Mapping[str, str]) -> None:
        folder = places.log_file(env).parent
        places.make_private_dir(folder)
        digest = sha256(os.fsencode(os.path.realpath(where.state_dir))).hexdigest()[:8]
        self._fd = os.open(folder / f"{digest}.start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.held = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def take(self) -> bool:
        """Try once. True when this call got it."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self.held = True
        return True


class _Start:
    """One attempt: waits for ready, and spawns as soon as it holds the lock and nobody answers."""

    def __init__(self, where: Where, env: Mapping[str, str], options: Sequence[str], lock: StartLock) -> None:
        self._where = where
        self._env = env
        self._log = places.log_file(env)
        self._options = options
        self._lock = lock
        self._child: subprocess.Popen[bytes] | None = None
        self._log_offset = 0
        self._spawned = False
        self._not_before = 0.0

    def wait(self, deadline: float) -> Started:
        pause = _FIRST_PAUSE
        while True:
            status = probe(self._where)
            if _is_ready(status):
                return self._done(status or {})
            if status is not None and status.get("state") == "failed":
                raise StartFailed(str(status.get("reason", "the daemon failed")), INTERNAL, pid=status.get("pid"))
            if not self._lock.held:
                # The one that held it may have just become ready: look once more before spawning.
                if self._lock.take():
                    continue
            elif self._child is not None:
                self._check_child()
            elif status is None and time.monotonic() >= self._not_before:
                self._spawn()
            if time.monotonic() >= deadline:
                raise self._too_late(status)
            time.sleep(pause)
            pause = min(pause * 1.5, _LAST_PAUSE)

    def _done(self, status: dict[str, Any]) -> Started:
        ours = self._child is not None and status.get("pid") == self._child.pid
        self._let_go()
        return Started(status, ours)

    def _spawn(self) -> None:
        import subprocess  # most verbs find a daemon

        places.make_private_dir(self._log.parent)
        _set_aside(self._log)
        command = [sys.executable, "-m", "interlock.daemon", "--state-dir", str(self._where.state_dir)]
        command += ["--socket", str(self._where.socket), *self._options]
        with open(self._log, "ab", opener=_private) as log:
            self._log_offset = log.tell()
            # Its own session, and no folder of ours: it outlives the terminal and the directory it was called in.
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=self._env,
                start_new_session=True,
            )
        self._spawned = True

    def _check_child(self) -> None:
        code = self._child.poll() if self._child else None
        if code is None:
            return
        self._child = None
        if code != TRY_AGAIN:
            reason = self._last_line() or f"interlockd ended with exit code {code} and gave no reason"
            raise StartFailed(reason, code if code in DAEMON_CODES else INTERNAL, log=str(self._log))
        # Somebody else leads: a daemon that is still stopping, or one that is about to listen. Either passes.
        self._not_before = time.monotonic() + _RESPAWN_PAUSE

    def _too_late(self, status: dict[str, Any] | None) -> StartFailed:
        child = self._child
        self._let_go()
        if status is not None:
            state = status.get("state")
            return StartFailed(f"the daemon (pid {status.get('pid')}) is still {state}", TRY_AGAIN, log=str(self._log))
        if child is not None:
            text = f"interlockd (pid {child.pid}) does not answer yet and goes on starting; its log is {self._log}"
            return StartFailed(text, UNREACHABLE, log=str(self._log))
        if self._spawned:
            return StartFailed(
                self._last_line() or "another process leads this directory", TRY_AGAIN, log=str(self._log)
            )
        return StartFailed("another process is starting a daemon and has not finished", TRY_AGAIN, log=str(self._log))

    def _let_go(self) -> None:
        if self._child is not None:
            # It lives on by design; without this, Popen would warn that it was never waited for.
            self._child.returncode = 0
            self._child = None

    def _last_line(self) -> str:
        with open(self._log, "rb") as log:
            log.seek(self._log_offset)
            lines = [line for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return lines[-1].strip() if lines else ""


def _is_ready(status: Mapping[str, Any] | None) -> bool:
    return status is not None and status.get("state") == "ready"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _set_aside(log: Path) -> None:
    if log.exists() and log.stat().st_size > LOG_BYTES:
        os.replace(log, log.with_name(log.name + ".1"))
