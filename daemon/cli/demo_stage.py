"""Where the demonstration plays: a temporary state directory with its daemon, the agents' processes, and the feed.

Owns what must be gone afterwards. What is shown, and in which order things happen, is for `demo`.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from .. import places
from .client import Client, NoDaemon
from .failures import INTERNAL, Failed

PATIENCE_S: Final = 30.0
"""How long anything may take before the demonstration gives up. All of it takes a few seconds."""
IDLE_S: Final = 60
"""How long the daemon stays when the demonstration itself was killed."""
EXITED: Final = "exited"
"""The last event of an agent: its process has ended, with `code`."""
_PAUSE: Final = 0.02


class Line(NamedTuple):
    """What somebody said: an agent what it does, or the daemon by an event of the feed."""

    who: str
    event: str
    data: dict[str, Any]


class Stage:
    """A context: on entering the daemon runs and its feed is watched; on leaving every process and file is gone."""

    def __init__(self) -> None:
        self.lines: queue.Queue[Line] = queue.Queue()
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self._exit = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            self.folder = _make_folder()
            undo.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self.state_dir, self.socket, self._log = (self.folder / name for name in ("state", "s.sock", "log"))
            self._stderr = undo.enter_context(self._log.open("ab"))
            started = time.monotonic()
            self.daemon = self._start_daemon()
            undo.callback(_kill, self.daemon)
            self.operator = undo.enter_context(self._connect())
            self.start_ms = round((time.monotonic() - started) * 1000)
            feed = undo.enter_context(self._connect())
            feed.call("ledger/events/subscribe", {"after_seq": 0}, PATIENCE_S)
            self._spawn_thread(self._read_feed, feed)
            undo.callback(self._kill_agents)
            self._exit = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def call(self, method: str, **params: Any) -> Any:
        """One request of the operator, over the socket."""
        return self.operator.call(method, params, PATIENCE_S)

    def start_agent(self, role: str, name: str, *flags: str) -> None:
        """Start an agent, in a process group of its own so that it can be killed with what it spawned."""
        arguments = [role, name, str(self.state_dir), str(self.socket), *flags]
        command = [sys.executable, "-m", "interlock.daemon.cli.demo_agent", *arguments]
        self.agents[name] = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=_environment(),
            start_new_session=True,
        )
        self._spawn_thread(self._read_agent, name, self.agents[name])

    def kill_agent(self, name: str) -> None:
        """End an agent and its `interlockd --stdio` with SIGKILL, at once: neither can say goodbye."""
        _kill(self.agents[name])

    def stop_daemon(self) -> int:
        """Ask the daemon to stop; its exit code."""
        self.call("daemon/shutdown")
        try:
            return self.daemon.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise self.failed("the daemon does not stop") from None

    def next_line(self, deadline: float) -> Line:
        """The next thing that somebody said. Raises Failed when nobody says anything until `deadline` (monotonic)."""
        try:
            return self.lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise self.failed(f"nothing happened for {PATIENCE_S:.0f} s") from None

    def failed(self, why: str) -> Failed:
        """The failure `why`, with the last that the processes logged."""
        self._stderr.flush()
        log = self._log.read_text("utf-8", "replace").splitlines()[-5:]
        return Failed(f"the demonstration failed: {why}", INTERNAL, **({"log": log} if log else {}))

    def _start_daemon(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "interlock.daemon", "--config", os.devnull, "--log-level", "warning"]
        command += ["--state-dir", str(self.state_dir), "--socket", str(self.socket), "--idle-exit", str(IDLE_S)]
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=self._stderr, env=_environment(), start_new_session=True
        )

    def _connect(self) -> Client:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return Client.connect(self.socket)
            except NoDaemon as error:
                if self.daemon.poll() is not None or time.monotonic() >= deadline:
                    raise self.failed(str(error)) from error
            time.sleep(_PAUSE)

    def _kill_agents(self) -> None:
        for process in self.agents.values():
            _kill(process)

    def _spawn_thread(self, target: Callable[..., None], *arguments: Any) -> None:
        threading.Thread(target=target, args=arguments, daemon=True).start()

    def _read_feed(self, feed: Client) -> None:
        for method, params in feed.notifications():
            if method == "events/event":
                self.lines.put(Line("feed", params["type"], params))

    def _read_agent(self, name: str, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                said = json.loads(line)
                self.lines.put(Line(name, said["event"], said))
        self.lines.put(Line(name, EXITED, {"code": process.wait()}))


def _make_folder() -> Path:
    """A private temporary folder in which a socket's path is short enough."""
    for parent in (tempfile.gettempdir(), "/tmp"):  # noqa: S108 (mkdtemp makes it ours alone)
        folder = Path(tempfile.mkdtemp(prefix="interlock-demo-", dir=parent))
        try:
            places.check_socket_length(folder / "s.sock")
        except places.PathTooLong:
            folder.rmdir()
        else:
            return folder
    raise Failed("there is no place for a socket in the temporary folders: their paths are too long", INTERNAL)


def _environment() -> dict[str, str]:
    """Ours without what would set up a daemon: the demonstration's are set up by their options alone."""
    foreign = ("INTERLOCK_", "NOTIFY_", "WATCHDOG_")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and its group with SIGKILL, unless it has ended."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
