"""What README.md and docs/operating.md show runs, and what they name is there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest

from interlock.protocol.methods import METHODS
from tests.cli.harness import new_home
from tests.readme import PAGES, ROOT, blocks, run_page

NOT_RUN: Final = {"the clone itself", "systemd"}


def text(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run_in_their_order(page: str) -> None:
    with new_home() as home:
        ran = list(run_page(page, home))
    assert len(ran) >= 5


@pytest.mark.parametrize("page", PAGES)
def test_what_is_not_run_is_run_elsewhere_or_needs_a_machine(page: str) -> None:
    assert {block.not_run for block in blocks(page)} - {None} <= NOT_RUN
    assert {name for block in blocks(page) for name in block.needs} <= {"nc", "node", "meerkat-mobkit"}


def test_the_two_commands_of_the_readme_are_there() -> None:
    first = blocks("README.md")[0]
    assert first.not_run == "the clone itself"
    for line in first.text.splitlines():
        script = ROOT / line.partition("#")[0].strip()
        assert script.stat().st_mode & 0o111, line


@pytest.mark.parametrize("page", PAGES)
def test_every_link_and_every_file_that_a_page_names_is_there(page: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", text(page))
    named = re.findall(r"`((?:daemon|docs|lifecycle|protocol|scripts|stores|tests)/[\w./-]*\w)(?:::\w+)?`", text(page))
    folder = (ROOT / page).parent
    assert [name for name in links if not (folder / name).exists()] == []
    methods = {method.name for method in METHODS}
    assert [name for name in named if not (ROOT / name).exists() and name not in methods] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    for path, name in re.findall(r"`(tests/[\w./-]+)::(\w+)`", text(page)):
        assert f"def {name}(" in text(path), f"{path}::{name}"


@pytest.mark.parametrize("page", PAGES)
def test_every_method_and_json_that_a_page_shows_is_one(page: str) -> None:
    known = {method.name for method in METHODS}
    for name in re.findall(r"`((?:ledger|daemon|workgraph)/[a-z_/]+)`", text(page)):
        assert name in known or (ROOT / name).exists(), name
    for block in re.findall(r"(?ms)^```json\n(.*?)^```$", text(page)):
        json.loads(block)


def test_every_decision_has_a_number_of_its_own_and_is_linked() -> None:
    names = sorted(path.name for path in Path(ROOT, "docs", "decisions").glob("*.md"))
    assert [name[:4] for name in names] == [f"{n:04}" for n in range(1, len(names) + 1)]
    assert [name for name in names if f"decisions/{name}" not in text("README.md")] == []
