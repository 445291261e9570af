"""Makes `.venv` what pyproject.toml and constraints.txt ask for. Called by scripts/setup; standard library only.

Does nothing when the environment is current, so every script can afford to call it. Two at once: the second waits for
the first. Killed half way: a mark inside the environment says so, and the next call starts it over.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
MIN_PYTHON: Final = (3, 11)
INPUTS: Final = ("pyproject.toml", "constraints.txt", "scripts/make_venv.py")
ABOUT: Final = (
    "import sys; print(*sys.version_info[:3], sys.implementation.cache_tag, sys.prefix != sys.base_prefix); import pip"
)


class SetupError(Exception):
    """The environment cannot be made; the message says what to do about it."""


def say(text: str) -> None:
    """Progress goes to stderr: stdout belongs to what runs afterwards."""
    print(f"setup: {text}", file=sys.stderr, flush=True)


class Venv:
    """The environment in `root/.venv`. `lock` is an open file that our children keep locked until they end too."""

    def __init__(self, root: Path, lock: int) -> None:
        self.root = root
        self.path = root / ".venv"
        self.python = self.path / "bin" / "python"
        self.stamp = self.path / ".interlock-installed"
        self.unfinished = self.path / ".interlock-unfinished"
        self._lock = lock

    def about(self) -> str | None:
        """The version of the environment's interpreter; None when none works, has pip and is new enough."""
        command = [str(self.python), "-c", ABOUT]
        try:
            about = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            return None
        major, minor, *_, inside = about.split()
        return about if (int(major), int(minor)) >= MIN_PYTHON and inside == "True" else None

    def state(self, about: str) -> str:
        """What the stamp holds when all is done: the place, since entry points hold absolute paths, and the inputs."""
        digest = hashlib.sha256(about.encode())
        # An editable install made with the links in place needs them; one made without them does not.
        links = sorted(path.name for path in (self.root / "interlock").glob("*") if path.is_symlink())
        digest.update(repr(links).encode())
        for name in INPUTS:
            digest.update((self.root / name).read_bytes())
        return f"{self.root}\n{digest.hexdigest()}\n"

    def stamped(self) -> str:
        """What the stamp holds now; empty when there is none."""
        try:
            return self.stamp.read_text("utf-8")
        except FileNotFoundError:
            return ""

    def is_current(self) -> bool:
        """Whether the environment was finished, in this place, from these inputs."""
        about = self.about()
        return about is not None and not self.unfinished.exists() and self.stamped() == self.state(about)

    def create(self) -> None:
        """Start over when what is there cannot be built upon: broken, half made, too old, or moved from elsewhere."""
        stamped = self.stamped()
        moved = bool(stamped) and not stamped.startswith(f"{self.root}\n")
        if self.about() is not None and not self.unfinished.exists() and not moved:
            return
        say(f"making {self.path} with Python {sys.version.split()[0]}")
        if self.path.exists():
            shutil.rmtree(self.path)
        self.path.mkdir()
        self.unfinished.touch()
        self._run([base_python(), "-m", "venv", str(self.path)], "python -m venv failed")

    def install(self) -> None:
        """Install the project, editable, with its tools, at the versions of constraints.txt."""
        self.unfinished.touch()
        say("installing what pyproject.toml lists, at the versions of constraints.txt")
        self._pip("setuptools")
        try:
            self._pip("--only-binary=uvloop", "--no-build-isolation", "--editable", ".[fast,dev]")
        except SetupError as error:
            self._install_without_uvloop(error)
        about = self.about()
        if about is None:
            raise SetupError(f"{self.python} does not run")
        self.stamp.write_text(self.state(about), "utf-8")
        self.unfinished.unlink()

    def _install_without_uvloop(self, first: SetupError) -> None:
        """A machine for which there is no uvloop goes without: it only makes the daemon faster."""
        try:
            self._pip("--no-build-isolation", "--editable", ".[dev]")
        except SetupError:
            raise first from None
        say("there is no uvloop for this machine: the daemon runs on asyncio's own loop")

    def _pip(self, *arguments: str) -> None:
        options = ["--quiet", "--disable-pip-version-check", "--no-input", "--constraint", "constraints.txt"]
        command = [str(self.python), "-m", "pip", "install", *options, *arguments]
        self._run(
            command, "the packages could not be installed (it takes a package index within reach, the first time)"
        )

    def _run(self, command: list[str], failed: str) -> None:
        done = subprocess.run(
            command, cwd=self.root, capture_output=True, text=True, check=False, pass_fds=(self._lock,)
        )
        if done.returncode != 0:
            raise SetupError(f"{failed}:\n{(done.stdout + done.stderr).strip()}")


def base_python() -> str:
    """The interpreter outside of any environment: ours may be active, and is about to be replaced."""
    outside = Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    return str(outside) if sys.prefix != sys.base_prefix and outside.exists() else sys.executable


def main() -> int:
    """Bring the environment up to date. 0 when it is; 1 with the reason on stderr when it cannot be."""
    # The lock is on a file that is there anyway, so nothing has to be cleaned up. The kernel drops it when the last
    # process that has it open ends, a pip that outlived its parent included.
    with (ROOT / "pyproject.toml").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another set-up of this clone to end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        venv = Venv(ROOT, lock.fileno())
        if venv.is_current():
            return 0
        try:
            venv.create()
            venv.install()
        except KeyboardInterrupt:
            say("interrupted; the next call starts over")
            return 130
        except (SetupError, OSError) as error:
            say(str(error))
            return 1
    say("ready")
    return 0


if __name__ == "__main__":
    sys.exit(main())
