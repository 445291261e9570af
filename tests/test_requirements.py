"""The manifest of what is promised names tests that exist, and leaves no lesson and no method out."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from interlock.protocol import methods
from tests.requirements import ELSEWHERE, LESSONS, METHODS, REQUIREMENTS
from tests.requirements.requirement import Requirement

TESTS = Path(__file__).parent
NUMBERED = {
    *(f"lesson {n}" for n in range(1, 46)),
    *(f"finding {letter}" for letter in "abcdefghijklmnopqrstuvwx"),
    *(f"weakness {n}" for n in range(1, 35)),
    *(f"C{n}" for n in range(26, 91) if n not in (29, 33, 42, 54, 66, 68, 78, 82, 84)),  # the list has gaps
}
"""What went wrong elsewhere, as the lists number it."""
FAMILIES = ("ledger", "workgraph")


@cache
def names_in(file: str) -> tuple[str, ...]:
    """The names of a file's tests, without `test_`."""
    folder, _, name = file.rpartition("/")
    tree = ast.parse((TESTS / folder / f"test_{name}.py").read_text())
    functions = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return tuple(node.name.removeprefix("test_") for node in functions if node.name.startswith("test_"))


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=[requirement.id for requirement in REQUIREMENTS])
def test_a_requirement_is_a_sentence_and_each_test_it_names_is_exactly_one(requirement: Requirement) -> None:
    assert requirement.tests
    assert len(requirement.says.split()) >= 2
    for named in requirement.tests:
        file, _, beginning = named.partition(":")
        assert len([name for name in names_in(file) if name.startswith(beginning)]) == 1, named


def test_an_id_is_there_once_and_no_test_twice_under_one_id() -> None:
    assert [id_ for id_, n in Counter(requirement.id for requirement in REQUIREMENTS).items() if n > 1] == []
    assert [one.id for one in REQUIREMENTS if len(set(one.tests)) < len(one.tests)] == []


def test_every_lesson_finding_and_failure_is_proved_or_is_somebody_elses() -> None:
    proved = {requirement.id for requirement in REQUIREMENTS if requirement.id in NUMBERED}
    others = [id_ for ids in ELSEWHERE.values() for id_ in ids]
    assert len(set(others)) == len(others)
    assert proved | set(others) == NUMBERED
    assert proved & set(others) == set()
    assert {requirement.id for requirement in LESSONS} <= NUMBERED


def test_every_method_of_the_families_has_an_entry() -> None:
    declared = {method.name for method in methods.METHODS if method.family in FAMILIES}
    named = {requirement.id.removeprefix("method ") for requirement in METHODS}
    assert named == declared | {"daemon/wait", "daemon/batch"}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_file_of_a_familys_tests_proves_something(family: str) -> None:
    named = {test.partition(":")[0] for requirement in REQUIREMENTS for test in requirement.tests}
    files = {f"{family}/{path.stem.removeprefix('test_')}" for path in (TESTS / family).glob("test_*.py")}
    assert files - named == set()


def test_a_failure_that_a_test_mentions_is_in_the_lists() -> None:
    known = NUMBERED | {f"C{n:02}" for n in (*range(1, 26), *range(91, 110))}
    for path in TESTS.rglob("test_*.py"):
        if not {"node_modules", ".venv"} & {*path.parts}:
            assert set(re.findall(r"\bC\d\d\d?\b", path.read_text())) <= known, path
