"""The folders, the import names and the wheel stay one thing (DESIGN 2, docs/decisions)."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parent.parent
FOLDERS: Final = ("admission", "daemon", "lifecycle", "protocol", "stores")
MODULE_LINES: Final = 500


def setuptools_table() -> dict[str, Any]:
    """`[tool.setuptools]` of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    return table


def packages_on_disk() -> dict[str, str]:
    """Import name to folder of every package, the import root included."""
    inner = [init.parent.relative_to(ROOT) for name in FOLDERS for init in (ROOT / name).rglob("__init__.py")]
    return {"interlock": "interlock"} | {f"interlock.{'.'.join(path.parts)}": path.as_posix() for path in inner}


def shipped_files() -> set[str]:
    """Path in the wheel of every file of the folders: all of them ship, data as well as modules."""
    found = {"interlock/__init__.py", "interlock/py.typed"}
    for name in FOLDERS:
        for path in (ROOT / name).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                found.add(f"interlock/{path.relative_to(ROOT).as_posix()}")
    return found


def python_files(*folders: str) -> list[Path]:
    """Our modules below these folders of the root, without what npm and pip brought to tests/clients."""
    paths = (path for name in folders for path in sorted((ROOT / name).rglob("*.py")))
    return [path for path in paths if not {"node_modules", ".venv"} & {*path.parts}]


def test_the_import_root_holds_exactly_one_relative_link_per_folder() -> None:
    links = {path.name: path.readlink() for path in (ROOT / "interlock").iterdir() if path.is_symlink()}
    others = {path.name for path in (ROOT / "interlock").iterdir() if not path.is_symlink()}
    assert links == {name: Path("..") / name for name in FOLDERS}
    assert others - {"__pycache__"} == {"__init__.py", "py.typed"}


def test_pyproject_lists_every_package_on_disk_and_maps_each_to_its_folder() -> None:
    table = setuptools_table()
    assert sorted(table["packages"]) == sorted(packages_on_disk())
    assert table["package-dir"] == packages_on_disk()


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for path in python_files(*FOLDERS)}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_no_module_is_longer_than_a_person_can_hold_in_mind() -> None:
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in python_files(*FOLDERS, "scripts", "tests")}
    assert [f"{path.relative_to(ROOT)}: {n} lines" for path, n in lengths.items() if n > MODULE_LINES] == []


def test_importing_everything_claims_no_plain_name_and_warns_of_nothing() -> None:
    # In a process of its own, from the root, where the plain names could be found.
    script = f"""
import importlib, pkgutil, sys
import interlock
for module in pkgutil.walk_packages(interlock.__path__, "interlock."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(*sorted(name for name in sys.modules if name.partition(".")[0] in {FOLDERS!r}))
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")


def test_no_test_of_this_run_has_imported_a_plain_name() -> None:
    assert [name for name in sys.modules if name.partition(".")[0] in FOLDERS] == []


def plain_imports(path: Path) -> Iterator[str]:
    """The absolute imports in `path` that use a folder's name without `interlock.`."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Import(names=names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), level=0):
                modules = [module]
            case _:
                continue
        yield from (f"{path.relative_to(ROOT)}: {m}" for m in modules if m.partition(".")[0] in FOLDERS)


def test_no_source_imports_a_plain_name() -> None:
    # `daemon` is python-daemon's, and ours under that name would be a second module beside `interlock.daemon`.
    assert [found for path in python_files(*FOLDERS, "scripts", "tests") for found in plain_imports(path)] == []


def copy_of_the_tree(target: Path) -> Path:
    """What a clone holds of the package, links as links."""
    ignore = shutil.ignore_patterns("__pycache__")
    for name in (*FOLDERS, "interlock"):
        shutil.copytree(ROOT / name, target / name, symlinks=True, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", target)
    readme = ROOT / "README.md"
    if readme.exists():
        shutil.copy(readme, target)
    return target


def build_wheel(tree: Path) -> set[str]:
    """Build `tree` with the backend that pip calls; the names of the wheel's files, its metadata left out."""
    script = "import setuptools.build_meta as backend; print(backend.build_wheel('dist'))"
    done = subprocess.run([sys.executable, "-c", script], cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (tree / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.mark.parametrize("links", ["kept", "lost", "turned into text files"])
def test_the_wheel_holds_every_file_of_the_folders_whatever_became_of_the_links(tmp_path: Path, links: str) -> None:
    tree = copy_of_the_tree(tmp_path)
    for name in FOLDERS if links != "kept" else ():
        link = tree / "interlock" / name
        target = str(link.readlink())
        link.unlink()
        if links == "turned into text files":  # what git makes of them with core.symlinks=false
            link.write_text(target, "utf-8")
    assert build_wheel(tree) == shipped_files()


def test_a_tree_that_lacks_a_listed_package_does_not_build(tmp_path: Path) -> None:
    tree = copy_of_the_tree(tmp_path)
    shutil.rmtree(tree / "stores")
    with pytest.raises(AssertionError, match="stores"):
        build_wheel(tree)
