"""Descriptors 0, 1 and 2 of a process of its own: the wire is private, and everything else lands in the log."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import anyio

from tests.harness import PATIENCE_S, Client, connect, spawned

from .test_stdio import every_loop, read_all

ECHO: Final = """
import asyncio, os, subprocess, sys
from interlock.daemon.pump import write_all
from interlock.daemon.stdio import open_stdio

class Echo(asyncio.Protocol):
    def connection_made(self, transport): self.transport = transport
    def data_received(self, data): self.transport.write(data)
    def eof_received(self): self.transport.write(b"end"); self.transport.close(); return True
    def connection_lost(self, exc): lost.set()

async def main():
    global lost
    lost = asyncio.Event()
    await open_stdio(Echo())
    print("stray", flush=True)
    os.write(1, b"raw\\n")
    subprocess.run(["echo", "child"], check=True)
    assert sys.stdin.read() == ""
    if os.get_blocking(2): os.write(2, b"blocking\\n")
    await lost.wait()

LOOP.run(main())
"""


def echo(loop: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """A process that echoes its input."""
    setup = "import uvloop; LOOP = uvloop" if loop == "uvloop" else "import asyncio; LOOP = asyncio"
    command = [sys.executable, "-c", f"{setup}\n{ECHO}"]
    return subprocess.run(command, **{"stderr": subprocess.PIPE, "timeout": 30, "check": True, **options})


@every_loop
def test_stray_output_of_any_kind_goes_to_stderr(loop: str) -> None:
    done = echo(loop, input=b"x" * 300_000, stdout=subprocess.PIPE)
    assert done.stdout == b"x" * 300_000 + b"end"
    assert sorted(done.stderr.split()) == [b"blocking", b"child", b"raw", b"stray"]


@every_loop
def test_an_output_that_is_also_stderr_leaves_stderr_blocking(loop: str) -> None:
    done = echo(loop, input=b"x" * 300_000, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.stdout.count(b"x") == 300_000
    for word in (b"stray", b"raw", b"child", b"blocking", b"end"):
        assert word in done.stdout


@every_loop
def test_one_socket_for_all_three_leaves_stderr_blocking(loop: str) -> None:
    near, far = socket.socketpair()
    far.sendall(b"hello")
    far.shutdown(socket.SHUT_WR)
    with near, far:
        echo(loop, stdin=near, stdout=near, stderr=near)
        near.close()
        read = read_all(far.detach())
    for word in (b"hello", b"blocking", b"end"):
        assert word in read


@every_loop
def test_files_for_input_and_output_serve_as_well(loop: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"y" * 300_000)
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as out:
        echo(loop, stdin=source, stdout=out)
    assert (tmp_path / "out").read_bytes() == b"y" * 300_000 + b"end"


def test_descriptors_that_are_closed_at_the_start_are_null_and_no_file_takes_their_place(tmp_path: Path) -> None:
    script = """
import os, sys
from interlock.daemon.pump import write_all
from interlock.daemon.stdio import open_standard_descriptors, take
open_standard_descriptors()
store = open(sys.argv[1], "w")
sys.stderr.write("stray")
print("stray", flush=True)
wire = take()
os.write(1, b"stray")
os.write(2, b"stray")
assert os.read(0, 10) == b""
store.write(" ".join(map(str, (store.fileno(), *wire))))
"""
    shell = 'exec "$0" -c "$1" "$2" <&- >&- 2>&-'
    subprocess.run(["sh", "-c", shell, sys.executable, script, str(tmp_path / "store")], check=True, timeout=30)
    numbers = [int(word) for word in (tmp_path / "store").read_text("utf-8").split()]
    assert len(numbers) == 3
    assert min(numbers) > 2


async def at_once(path: Path) -> Client:
    """A client in the very moment in which somebody listens: the process says that it leads, stdin comes after."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            with suppress(OSError):
                return await connect(path)
            await asyncio.sleep(0)


async def test_a_socket_client_that_is_there_first_does_not_take_the_place_of_the_one_on_stdio(tmp_path: Path) -> None:
    async with spawned(tmp_path, stdio=True) as daemon:
        assert daemon.socket is not None
        first = await at_once(daemon.socket)
        client = daemon.stdio()
        assert (await client.call("daemon/ping"))["instance_id"] == (await first.call("daemon/ping"))["instance_id"]
        await first.close()
        await client.end_input()
        assert await daemon.ended() == 0
