"""What every test gets: which ones run, nothing else. Live things come from `async with` helpers, not from fixtures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

CLIENTS: Final = Path(__file__).resolve().parent / "clients"
LEFT_OUT: Final = pytest.StashKey[list[pytest.Item]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs programs beyond Python, unless asked for by INTERLOCK_CLIENTS=1 or by its path."""
    paths = [config.invocation_params.dir / argument.partition("::")[0] for argument in config.args]
    by_path = any(CLIENTS in (path, *path.parents) for path in map(Path.resolve, paths))
    asked = by_path or os.environ.get("INTERLOCK_CLIENTS") == "1"
    left_out = [] if asked else [item for item in items if CLIENTS in item.path.parents]
    config.stash[LEFT_OUT] = left_out
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if CLIENTS not in item.path.parents]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name each test that was left out, and why, so that a green run claims no more than it did."""
    left_out = config.stash.get(LEFT_OUT, [])
    if not left_out:
        return
    terminalreporter.section("left out: they need programs beyond Python; scripts/test --clients runs them")
    for item in left_out:
        needed = [str(program) for marker in item.iter_markers("needs") for program in marker.args]
        terminalreporter.write_line(f"{item.nodeid}: needs {', '.join(needed) or 'a client of its own'}")
