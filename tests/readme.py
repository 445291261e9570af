"""Runs the examples of a page in `docs/` or of README.md, in order, in one home of their own.

A fenced block of `sh`, `python` or `js` is run; a `text` block right behind it is what it prints, where `…` stands for
anything; a `toml` block is a configuration that `interlockd` takes. A comment right above a fence changes that:
`<!-- needs: nc -->` for a block that takes something beyond Python, `<!-- not run: why -->` for one that is not run.
The `sh` blocks of a page share their variables, as in the one shell that a reader has open.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.cli.harness import Home

ROOT: Final = Path(__file__).parent.parent
CLIENTS: Final = ROOT / "tests" / "clients"
PAGES: Final = ("README.md", "docs/operating.md")
RUN: Final = ("sh", "python", "js", "toml")
SECONDS: Final = 40
_FENCE: Final = re.compile(
    r"(?ms)(?:^<!-- (?P<word>needs|not run): (?P<what>[^\n]*) -->\n)?^```(?P<lang>\w+)\n(?P<text>.*?)^```$"
)


class Block(NamedTuple):
    """One example. `needs`: programs, packages; `not_run`: why not; `prints`: what it prints, None if not said."""

    line: int
    language: str
    text: str
    needs: tuple[str, ...]
    not_run: str | None
    prints: str | None


def blocks(page: str) -> list[Block]:
    """Every example of a page that can be run, with what it prints."""
    text = (ROOT / page).read_text("utf-8")
    found: list[Block] = []
    for match in _FENCE.finditer(text):
        language, content = match["lang"], match["text"]
        line = text.count("\n", 0, match.start("text"))
        if language == "text" and found and not text[_end_of(text, found[-1]) : match.start()].strip():
            found[-1] = found[-1]._replace(prints=content)
        elif language in RUN:
            needs = tuple(match["what"].split(", ")) if match["word"] == "needs" else ()
            found.append(
                Block(line, language, content, needs, match["what"] if match["word"] == "not run" else None, None)
            )
    return found


def _end_of(text: str, block: Block) -> int:
    start = sum(map(len, text.splitlines(keepends=True)[: block.line]))
    return start + len(block.text) + len("```\n")


def run_page(page: str, home: Home, programs: Collection[str] = ()) -> Iterator[Block]:
    """Run what there is to run with these programs; the blocks that were. Raises AssertionError with the line."""
    place = _make_clone(home)
    for block in blocks(page):
        if block.not_run is None and set(block.needs) <= set(programs):
            _run(block, f"{page}:{block.line}", home, place)
            yield block


def _make_clone(home: Home) -> Path:
    """A folder that a reader could take for the clone, whose files are read and never written."""
    place = home.root / "a clone"
    if not place.exists():
        place.mkdir()
        for name in ("daemon", "docs", "scripts", "interlock"):
            (place / name).symlink_to(ROOT / name)
        (place / ".venv").mkdir()
        (place / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    return place


def _run(block: Block, where: str, home: Home, place: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = home.env | {"PATH": path, "LANG": "C.UTF-8", "NODE_PATH": str(CLIENTS / "node_modules")}
    done = subprocess.run(
        _command(block, home), env=env, cwd=place, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, f"{where} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    if block.prints is not None:
        pattern = ".*?".join(map(re.escape, block.prints.split("…")))
        assert re.fullmatch(pattern, done.stdout, re.DOTALL), f"{where} printed:\n{done.stdout}"


def _command(block: Block, home: Home) -> list[str]:
    match block.language:
        case "sh":
            kept = f"'{home.root}/variables'"
            return ["sh", "-aeu", "-c", f"test ! -e {kept} || . {kept}\n{block.text}\nexport -p >{kept}"]
        case "python" if "meerkat-mobkit" in block.needs:
            return [str(CLIENTS / ".venv" / "bin" / "python"), "-I", "-c", block.text]
        case "python":  # without site-packages: the standard library is all that the examples may take
            return [sys.executable, "-I", "-S", "-c", block.text]
        case "js":
            return ["node", "-e", block.text]
        case _:
            config = home.root / "example.toml"
            config.write_text(block.text, "utf-8")
            return ["interlockd", "--config", str(config), "--print-config"]
