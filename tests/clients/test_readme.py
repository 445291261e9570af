"""The examples of README.md that take programs or packages beyond Python."""

from __future__ import annotations

from typing import Final

import pytest

from tests.cli.harness import new_home
from tests.readme import run_page

NEEDED: Final = {"nc", "node", "meerkat-mobkit"}

pytestmark = pytest.mark.needs("nc", "node", "npm", "meerkat-mobkit")


def test_the_examples_with_netcat_an_editor_plugin_and_an_sdk_run() -> None:
    with new_home() as home:
        ran = list(run_page("README.md", home, NEEDED))
    assert {name for block in ran for name in block.needs} == NEEDED
