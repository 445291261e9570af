"""Words to the supervisor reach it, and nothing happens without one."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interlock.daemon.sdnotify import notify, watchdog_seconds


@contextmanager
def supervisor(address: str) -> Iterator[socket.socket]:
    """One who listens at this address."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(address)
        sock.settimeout(5)
        yield sock


def test_a_word_arrives_at_a_path() -> None:
    with tempfile.TemporaryDirectory(prefix="il") as folder, supervisor(f"{folder}/notify") as sock:
        assert notify("READY=1\nSTATUS=serving", {"NOTIFY_SOCKET": f"{folder}/notify"}) is True
        assert sock.recv(100) == b"READY=1\nSTATUS=serving"


def test_a_word_arrives_at_an_abstract_address() -> None:
    name = f"interlock-test-{os.getpid()}"
    with supervisor(f"\0{name}") as sock:
        assert notify("STOPPING=1", {"NOTIFY_SOCKET": f"@{name}"}) is True
        assert sock.recv(100) == b"STOPPING=1"


@pytest.mark.parametrize("address", ["", "vsock:2:1", "/nobody/there", "@interlock-nobody", "/" + "x" * 200, "/a\0b"])
def test_nothing_happens_where_nobody_listens(address: str) -> None:
    assert notify("READY=1", {"NOTIFY_SOCKET": address}) is False


def test_nothing_happens_where_nobody_asked() -> None:
    assert notify("READY=1", {}) is False


def test_a_supervisor_that_does_not_read_stops_nobody() -> None:
    with tempfile.TemporaryDirectory(prefix="il") as folder, supervisor(f"{folder}/notify"):
        environ = {"NOTIFY_SOCKET": f"{folder}/notify"}
        while notify("WATCHDOG=1", environ):
            continue
        assert notify("WATCHDOG=1", environ) is False


def test_a_file_that_is_no_socket_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert notify("READY=1", {"NOTIFY_SOCKET": str(tmp_path / "file")}) is False


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": ""}, 0.5),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
        ({"WATCHDOG_USEC": "often"}, None),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "me"}, None),
    ],
)
def test_the_watchdog_is_fed_only_when_it_is_ours(environ: dict[str, str], seconds: float | None) -> None:
    assert watchdog_seconds(environ) == seconds
