"""Every announced bound is one number at one place."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

from interlock import protocol
from interlock.protocol.limits import LIMITS

ROOT = Path(protocol.__file__).resolve().parent.parent
FOLDERS = ("lifecycle", "admission", "stores", "protocol")


def constants(source: str) -> list[str]:
    """The names that a module gives to what it computes from literals alone."""
    found = []
    for node in ast.parse(source).body:
        target: ast.expr | None = None
        if isinstance(node, ast.AnnAssign):
            target = node.target
        elif isinstance(node, ast.Assign):
            target = node.targets[0]
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and isinstance(value, ast.Constant | ast.BinOp):
            found += [target.id]
    return found


def test_no_bound_is_written_twice() -> None:
    places = defaultdict(list)
    for path in sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        for name in constants(path.read_text()):
            if name.lower() in LIMITS:
                places[name].append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
    assert {name.lower() for name in places} == set(LIMITS)


def test_a_bound_that_was_written_twice_would_be_noticed() -> None:
    source = "A: Final = 1\nB = 4 << 20\nC: Final = other.C\nfrom x import D\ndef f() -> None:\n    E = 1\n"
    assert constants(source) == ["A", "B"]
