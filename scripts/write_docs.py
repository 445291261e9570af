"""Writes the pages in docs/ that are made from the code, so that they cannot say anything else. See scripts/docs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from interlock.lifecycle.diagrams import states
from interlock.protocol.docs import reference
from interlock.protocol.methods import METHODS

ROOT: Final = Path(__file__).resolve().parent.parent
PAGES: Final[tuple[tuple[str, Callable[[], str]], ...]] = (
    ("docs/protocol.md", lambda: reference(METHODS)),
    ("docs/states.md", states),
)
"""Each page with the function that gives its text."""


def stale(root: Path) -> list[tuple[Path, str]]:
    """The pages below `root` that are not what the code gives, each with the text that it should have."""
    pages = [(root / name, text()) for name, text in PAGES]
    return [(path, text) for path, text in pages if not path.exists() or path.read_text("utf-8") != text]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """0 when the pages are current, or were written; 1 when `--check` found a stale one."""
    parser = argparse.ArgumentParser(prog="docs", description="Write the pages that are made from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a page is stale")
    check: bool = parser.parse_args(arguments).check
    found = stale(root)
    for path, text in found:
        print(f"docs: {path.relative_to(root)} {'is stale: run scripts/docs' if check else 'written'}", file=sys.stderr)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    return 1 if found and check else 0


if __name__ == "__main__":
    sys.exit(main())
