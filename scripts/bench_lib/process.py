"""A daemon process to measure or to kill: nothing of the person who runs this is found by it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from .wire import Wire, WireError

PATIENCE_S: Final = 30.0


def environment(home: Path) -> dict[str, str]:
    """The environment of a process that lives in `home` alone."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("INTERLOCK_", "XDG_"))}
    places = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home), "XDG_DATA_HOME": str(home / "data")}
    return {**kept, **places}


class Daemon:
    """A process with its state directory and socket in one folder. `stdio`: the descriptor it serves."""

    def __init__(self, home: Path, *, stdio: int | None = None) -> None:
        self.home = home
        self.socket = home / "s.sock"
        where = ["--state-dir", str(home / "state"), "--socket", str(self.socket)]
        argv = [sys.executable, "-m", "interlock.daemon", *where, *([] if stdio is None else ["--stdio"])]
        pipe = subprocess.DEVNULL if stdio is None else stdio
        with (home / "log").open("ab") as log:
            self.process = subprocess.Popen(
                argv, stdin=pipe, stdout=pipe, stderr=log, env=environment(home), cwd=home, bufsize=0
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def ready(self) -> float:
        """Wait until it answers that it is ready; the seconds that took. Raises RuntimeError when it ends instead."""
        started = time.perf_counter()
        while time.perf_counter() - started < PATIENCE_S:
            try:
                with Wire.connect(self.socket) as wire:
                    if wire.ask("daemon/status")["state"] == "ready":
                        return time.perf_counter() - started
            except (OSError, WireError):
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.001)
        raise RuntimeError(f"the daemon did not get ready:\n{(self.home / 'log').read_text('utf-8')[-2000:]}")

    def kill(self) -> None:
        """End it with SIGKILL and wait until it has gone."""
        self.process.kill()
        self._gone()

    def stop(self) -> None:
        """End it in order, or by force when that takes too long."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._gone()

    def _gone(self) -> None:
        self.process.wait(10)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def memory_mib(self) -> tuple[float, float]:
        """Its proportional and its resident set; not a number where the system does not say."""
        try:
            lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text("ascii").splitlines()
        except OSError:
            return float("nan"), float("nan")
        sizes = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines[1:]}
        return sizes["Pss"], sizes["Rss"]

    def cpu_seconds(self) -> float:
        """The processor time it has used; not a number where the system does not say."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        except OSError:
            return float("nan")
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(home: Path) -> Iterator[Daemon]:
    """A daemon on a fresh state directory in `home`, ready; stopped at the end."""
    home.mkdir(parents=True, exist_ok=True)
    daemon = Daemon(home)
    try:
        daemon.ready()
        yield daemon
    finally:
        daemon.stop()
