"""scripts/setup on the machines that newcomers have: no Python, an old one, one without venv, a second call."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
INPUTS: Final = ("pyproject.toml", "constraints.txt", "scripts/setup", "scripts/make_venv.py")


def bare_machine(folder: Path) -> Path:
    """A folder to be the whole PATH: the one tool that the script calls, and no Python."""
    folder.mkdir()
    dirname = shutil.which("dirname")
    assert dirname is not None
    (folder / "dirname").symlink_to(dirname)
    return folder


def add_python(folder: Path, name: str, but: str) -> None:
    """Put this interpreter on the bare machine as `name`, changed by the statement `but` before it runs anything."""
    wrapper = folder / name
    wrapper.write_text(
        f"#!/bin/sh\nexec '{sys.executable}' -c 'import sys; {but}; exec(sys.argv[2])' \"$@\"\n", "utf-8"
    )
    wrapper.chmod(0o755)


def run_setup(root: Path, path: str) -> subprocess.CompletedProcess[str]:
    """scripts/setup of the clone at `root`, called from elsewhere."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON"} | {"PATH": path}
    command = ["/bin/sh", str(root / "scripts/setup")]
    return subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)


def clone(target: Path) -> Path:
    """The files that set-up reads, in a folder of their own."""
    (target / "scripts").mkdir(parents=True)
    for name in INPUTS:
        shutil.copy(ROOT / name, target / name)
    return target


def load(root: Path) -> ModuleType:
    """The clone's make_venv, as a module."""
    spec = importlib.util.spec_from_file_location("make_venv", root / "scripts/make_venv.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_machine_without_python_is_told_what_to_install(tmp_path: Path) -> None:
    done = run_setup(clone(tmp_path / "clone"), str(bare_machine(tmp_path / "bin")))
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr
    assert "PYTHON=" in done.stderr


def test_an_old_python_is_passed_over(tmp_path: Path) -> None:
    path = bare_machine(tmp_path / "bin")
    add_python(path, "python3", 'sys.version_info = (3, 10, 12, "final", 0)')
    done = run_setup(clone(tmp_path / "clone"), str(path))
    assert done.returncode == 1
    assert "needs Python 3.11 or newer" in done.stderr


def test_a_python_without_venv_is_refused_with_the_package_that_brings_it(tmp_path: Path) -> None:
    path = bare_machine(tmp_path / "bin")
    add_python(path, "python3.11", 'sys.modules["ensurepip"] = None')
    done = run_setup(clone(tmp_path / "clone"), str(path))
    assert done.returncode == 1
    assert f"apt-get install python{sys.version_info[0]}.{sys.version_info[1]}-venv" in done.stderr


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone, in a folder with a blank in its name, whose environment is marked as finished."""
    root = clone(tmp_path_factory.mktemp("set up") / "a clone")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root / ".venv")], check=True)
    pip = importlib.util.find_spec("pip")  # ours, since bringing one along takes seconds
    assert pip is not None
    assert pip.origin is not None
    (packages,) = (root / ".venv/lib").glob("python*/site-packages")
    (packages / "pip").symlink_to(Path(pip.origin).parent)
    venv = load(root).Venv(root, 0)
    venv.stamp.write_text(venv.state(venv.about()), "utf-8")
    return root


def test_a_second_call_has_nothing_to_do_and_says_nothing(finished: Path) -> None:
    done = run_setup(finished, os.environ["PATH"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_an_environment_is_out_of_date_when_what_it_was_made_from_changed(finished: Path, name: str) -> None:
    venv = load(finished).Venv(finished, 0)
    assert venv.is_current()
    before = (finished / name).read_bytes()
    try:
        (finished / name).write_bytes(before + b"\n# changed\n")
        assert not venv.is_current()
    finally:
        (finished / name).write_bytes(before)


def test_an_environment_is_out_of_date_when_the_links_came_or_went(finished: Path) -> None:
    venv = load(finished).Venv(finished, 0)
    link = finished / "interlock/stores"
    link.parent.mkdir()
    link.symlink_to("../stores")
    try:
        assert not venv.is_current()
    finally:
        shutil.rmtree(link.parent)


def test_an_environment_is_out_of_date_when_it_was_left_half_made(finished: Path) -> None:
    venv = load(finished).Venv(finished, 0)
    venv.unfinished.touch()
    try:
        assert not venv.is_current()
    finally:
        venv.unfinished.unlink()


def test_an_environment_is_out_of_date_when_the_clone_was_moved(finished: Path, tmp_path: Path) -> None:
    moved = clone(tmp_path / "elsewhere")
    shutil.copytree(finished / ".venv", moved / ".venv", symlinks=True)
    assert not load(moved).Venv(moved, 0).is_current()
