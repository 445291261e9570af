"""The folders that decide are pure (DESIGN 1, rule 4): no waiting, clock, entropy or I/O. Statements are constants.

import-linter guards their imports as well, transitively; this test also sees calls, and names the line.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parent.parent
FOLDERS: Final = ("admission", "lifecycle", "protocol")
# The gate waits for its turn and the sidecar locks a file; what they decide with is elsewhere (DESIGN 2).
EXCEPTIONS: Final = ("admission/gate.py", "admission/sidecar.py")

# fmt: off
IMPURE_MODULES: Final = frozenset({
    "aiosqlite", "anyio", "asyncio", "click", "concurrent", "fcntl", "http", "io", "logging", "multiprocessing",
    "os", "pathlib", "queue", "random", "rich", "secrets", "select", "selectors", "shutil", "signal", "socket",
    "sqlite3", "ssl", "structlog", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uvloop",
    "warnings",
})
# fmt: on
IMPURE_BUILTINS: Final = frozenset({"breakpoint", "input", "open", "print"})
# Of modules whose other half is pure: a clock in datetime, entropy in uuid.
IMPURE_ATTRIBUTES: Final = frozenset({"now", "today", "utcnow", "uuid1", "uuid4", "uuid6", "uuid7"})
IMPURE_OWNERS: Final = frozenset({"date", "datetime", "uuid"})


def pure_modules() -> list[Path]:
    """Every module that must be pure."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in paths if path.relative_to(ROOT).as_posix() not in EXCEPTIONS]


def impurities(source: str) -> Iterator[str]:
    """What in this source waits, tells the time, rolls dice or touches the world, each with its line."""
    for node in ast.walk(ast.parse(source)):
        for what in _of_node(node):
            yield f"line {getattr(node, 'lineno', 0)}: {what}"


def _of_node(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.AsyncFunctionDef() | ast.AsyncFor() | ast.AsyncWith() | ast.Await():
            yield "waits"
        case ast.Import(names=names):
            yield from (f"imports {a.name}" for a in names if a.name.partition(".")[0] in IMPURE_MODULES)
        case ast.ImportFrom(module=str(module), level=0, names=names):
            owner = module.partition(".")[0]
            yield from (f"imports {module}.{a.name}" for a in names if owner in IMPURE_MODULES)
            yield from (f"imports {module}.{a.name}" for a in names if owner == "uuid" and a.name in IMPURE_ATTRIBUTES)
        case ast.Call(func=ast.Name(id=name)) if name in IMPURE_BUILTINS:
            yield f"calls {name}"
        case ast.Attribute(attr=attribute, value=ast.Name(id=owner) | ast.Attribute(attr=owner)):
            if attribute in IMPURE_ATTRIBUTES and owner in IMPURE_OWNERS:
                yield f"uses {owner}.{attribute}"
        case _:
            pass


@pytest.mark.parametrize("path", pure_modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_that_decides_neither_waits_nor_looks_at_the_world(path: Path) -> None:
    assert list(impurities(path.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("async def f() -> None: ...", "line 1: waits"),
        ("import os.path", "line 1: imports os.path"),
        ("from time import monotonic", "line 1: imports time.monotonic"),
        ("from uuid import uuid4", "line 1: imports uuid.uuid4"),
        ("import uuid\nx = uuid.uuid4()", "line 2: uses uuid.uuid4"),
        ("import datetime\nx = datetime.datetime.now()", "line 2: uses datetime.now"),
        ("def f() -> None:\n    print(1)", "line 2: calls print"),
    ],
)
def test_the_check_itself_sees_each_kind_of_impurity(source: str, found: str) -> None:
    assert list(impurities(source)) == [found]


def test_the_check_leaves_pure_code_alone() -> None:
    source = "from datetime import datetime, timedelta\nfrom uuid import UUID\nx = datetime.fromisoformat('2026-01-01')"
    assert list(impurities(source)) == []


STATEMENT: Final = re.compile(r"\b(SELECT .*FROM|INSERT (OR \w+ )?INTO|UPDATE .*SET|DELETE FROM)\b", re.DOTALL)


def statements_made_at_run_time(source: str) -> Iterator[str]:
    """The lines of functions that put a statement together. At module level it is a constant made of constants."""
    functions = [
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for node in (inner for function in functions for inner in ast.walk(function)):
        if isinstance(node, ast.JoinedStr | ast.BinOp) and STATEMENT.search("".join(_texts(node))):
            yield f"line {node.lineno}"


def _texts(node: ast.AST) -> Iterator[str]:
    yield from (n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))


@pytest.mark.parametrize("path", sorted((ROOT / "stores").rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_statement_is_put_together_while_running(path: Path) -> None:
    # What a caller sent must never become SQL; it is what S608 guards, which cannot tell a constant from a call.
    assert list(statements_made_at_run_time(path.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    "made", ['f"SELECT * FROM t WHERE x = {x}"', '"DELETE FROM t WHERE x = " + x', '"INSERT INTO t VALUES (%s)" % x']
)
def test_the_check_itself_sees_a_statement_that_is_put_together(made: str) -> None:
    assert list(statements_made_at_run_time(f"def f(x: str) -> str:\n    return {made}")) == ["line 2"]
    assert list(statements_made_at_run_time(f"x: Final = 'c'\nS: Final = {made}")) == []
