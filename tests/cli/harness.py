"""A home of its own for every test: state directory, sockets, logs; and `interlock` run in it as a program."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from interlock.daemon.cli import stopping
from interlock.daemon.cli.failures import Failed
from interlock.daemon.cli.main import main
from interlock.daemon.cli.where import Where, resolve
from interlock.daemon.places import StartError

SECONDS = 30
"""No verb of a test takes longer; a hang fails the test instead of stopping the run."""


class Ran(NamedTuple):
    """How a run of `interlock` ended."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        """Its output as the JSON value that it is."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """Its last line on stderr as the error object that it is."""
        return json.loads(self.err.splitlines()[-1])


class Home(NamedTuple):
    """A home directory below a short path, since a socket path has 107 bytes at most."""

    root: Path

    @property
    def state(self) -> Path:
        """The state directory that everything in this home agrees on."""
        return self.root / "data" / "interlock"

    @property
    def env(self) -> dict[str, str]:
        """The environment of a program in this home."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "COVERAGE_PROCESS_START") if name in os.environ}
        places = {"XDG_DATA_HOME": "data", "XDG_STATE_HOME": "log", "XDG_RUNTIME_DIR": "run", "XDG_CONFIG_HOME": "cfg"}
        return kept | {"HOME": str(self.root)} | {name: str(self.root / path) for name, path in places.items()}

    @property
    def where(self) -> Where:
        """What the command line resolves here."""
        return resolve(None, None, self.env)

    @property
    def log(self) -> Path:
        """Where the stderr of started daemons goes."""
        return self.root / "log" / "interlock" / "interlockd.log"

    def run(self, *arguments: str, stdin: bytes = b"") -> Ran:
        """Run `interlock` to its end, in this process: only the start of Python is left out."""
        streams = [TextIOWrapper(BytesIO(content), "utf-8") for content in (stdin, b"", b"")]
        with self.entered(), streamed(*streams):
            code = main(arguments)
        out, err = (stream.buffer.getvalue().decode() for stream in streams[1:])
        return Ran(code, out, err)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """This process's own environment, replaced by that of the home."""
        outside = dict(os.environ)
        os.environ.clear()
        os.environ.update(self.env)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(outside)

    def program(self, *arguments: str, stdin: bytes | None = None, **env: str) -> Ran:
        """Run `interlock` to its end as the program that it is."""
        done = subprocess.run(
            command(arguments), input=stdin, env=self.env | env, capture_output=True, timeout=SECONDS, check=False
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    def spawn(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start `interlock` with pipes to all three of its streams."""
        pipe = subprocess.PIPE
        return subprocess.Popen(command(arguments), env=self.env, stdin=pipe, stdout=pipe, stderr=pipe)


@contextmanager
def streamed(stdin: TextIO, stdout: TextIO, stderr: TextIO) -> Iterator[None]:
    """This process's standard streams, replaced."""
    outside = sys.stdin
    sys.stdin = stdin
    try:
        with redirect_stdout(stdout), redirect_stderr(stderr):
            yield
    finally:
        sys.stdin = outside


def command(arguments: Sequence[str]) -> list[str]:
    """The program as `python -m` runs it, so that no installed script is needed."""
    return [sys.executable, "-m", "interlock.daemon.cli", *arguments]


def on_a_terminal(home: Home, *arguments: str, **env: str) -> str:
    """What `interlock` writes to stdout when that is a terminal."""
    master, terminal = pty.openpty()
    with os.fdopen(master, "rb", buffering=0) as screen:
        environment = home.env | {"COLUMNS": "160", "TERM": "xterm-256color"} | env
        with subprocess.Popen(
            command(arguments), env=environment, stdin=subprocess.DEVNULL, stdout=terminal
        ) as running:
            os.close(terminal)
            written = b""
            while chunk := read_some(screen.fileno()):
                written += chunk
            running.wait()
    return written.decode().replace("\r\n", "\n")


def read_some(fd: int) -> bytes:
    """A piece of what a terminal shows; nothing at its end, which it reports as an error."""
    try:
        return os.read(fd, 65536)
    except OSError:
        return b""


@contextmanager
def new_home() -> Iterator[Home]:
    """A home that goes away with the daemon in it."""
    root = Path(tempfile.mkdtemp(prefix="il-"))
    home = Home(root)
    for name in ("run", "data", "log", "cfg"):
        (root / name).mkdir(mode=0o700)
    try:
        yield home
    finally:
        with suppress(Failed, StartError):  # a test may leave a home that cannot be resolved
            stopping.stop(home.where, drain_ms=0)
        shutil.rmtree(root, ignore_errors=True)
