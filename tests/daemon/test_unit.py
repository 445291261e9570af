"""The systemd user unit that ships: what it asks for is what the daemon does."""

from __future__ import annotations

import configparser
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from interlock.daemon import sdnotify
from interlock.daemon.app import DRAIN_MS
from tests.harness import PATIENCE_S, environment

UNIT: Final = Path(__file__).parent.parent.parent / "daemon" / "systemd" / "interlockd.service"


def unit() -> configparser.ConfigParser:
    """The unit, read as systemd reads it."""
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(UNIT, "utf-8")
    return parser


@contextmanager
def told(folder: Path) -> Iterator[socket.socket]:
    """A supervisor in `folder` that hears what it is told."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(folder / "notify"))
        sock.settimeout(PATIENCE_S)
        yield sock


def test_what_the_unit_starts_says_when_it_is_ready_and_when_it_stops() -> None:
    service = unit()["Service"]
    assert service["Type"] == "notify"
    program, *options = shlex.split(service["ExecStart"])
    assert Path(program).name == "interlockd"
    with tempfile.TemporaryDirectory(prefix="il") as name, told(Path(name)) as supervisor:
        env = environment(Path(name), NOTIFY_SOCKET=f"{name}/notify")
        process = subprocess.Popen(
            [sys.executable, "-m", "interlock.daemon", *options], env=env, stderr=subprocess.DEVNULL, cwd=name
        )
        try:
            assert supervisor.recv(100) == b"READY=1"
            os.kill(process.pid, signal.SIGTERM)  # what systemctl stop sends
            assert supervisor.recv(100) == b"STOPPING=1"
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
            process.wait()


def test_the_times_of_the_unit_leave_the_daemon_the_time_it_takes() -> None:
    service = unit()["Service"]
    assert int(service["TimeoutStopSec"]) * 1000 > DRAIN_MS
    seconds = sdnotify.watchdog_seconds({"WATCHDOG_USEC": f"{service['WatchdogSec']}000000"})
    assert seconds == int(service["WatchdogSec"])


def test_what_no_restart_mends_is_not_restarted() -> None:
    service = unit()["Service"]
    assert service["Restart"] == "on-failure"
    assert service["RestartPreventExitStatus"].split() == ["2", "6"]
