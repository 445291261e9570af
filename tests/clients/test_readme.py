"""The examples of README.md that take programs beyond Python."""

from __future__ import annotations

import pytest

from tests.cli.harness import new_home
from tests.readme import run_page

pytestmark = pytest.mark.needs("nc", "node", "npm")


def test_the_examples_with_netcat_and_an_editor_plugin_run() -> None:
    with new_home() as home:
        ran = list(run_page("README.md", home, {"nc", "node"}))
    assert {name for block in ran for name in block.needs} == {"nc", "node"}
