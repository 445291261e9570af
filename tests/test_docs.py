"""The pages that are made from the code are current, and say what a reader looks for."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from interlock.lifecycle.diagrams import states
from interlock.protocol.contract import AnyMethod
from interlock.protocol.docs import reference
from interlock.protocol.errors import CODES
from interlock.protocol.ledger_feed import EVENT_TYPES
from interlock.protocol.limits import LIMITS
from interlock.protocol.methods import METHODS

ROOT: Final = Path(__file__).parent.parent
TEXT: Final = reference(METHODS)


def section(heading: str) -> str:
    """What stands under a heading, up to the next of any level."""
    _, _, rest = TEXT.partition(f"\n{heading}\n")
    return re.split(r"\n#+ ", rest)[0]


def test_the_pages_in_docs_are_what_the_code_gives() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "write_docs.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_stale_page_fails_the_check_and_is_put_right_without_it(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "scripts").mkdir(parents=True)
    script = tree / "scripts" / "write_docs.py"
    script.write_bytes((ROOT / "scripts" / "write_docs.py").read_bytes())
    pages = {"docs/protocol.md": TEXT, "docs/states.md": states()}
    for before in (None, "old\n"):
        if before is not None:
            for name in pages:
                (tree / name).write_text(before, "utf-8")
        checked = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
        said = [f"docs: {name} is stale: run scripts/docs" for name in pages]
        assert (checked.returncode, checked.stderr.splitlines()) == (1, said)
        assert {(tree / name).read_text("utf-8") if (tree / name).exists() else None for name in pages} == {before}
        written = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
        assert (written.returncode, written.stderr.splitlines()) == (0, [f"docs: {name} written" for name in pages])
        assert {name: (tree / name).read_text("utf-8") for name in pages} == pages
    assert subprocess.run([sys.executable, script, "--check"], check=False).returncode == 0


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_method_is_described_with_its_params_and_errors(method: AnyMethod) -> None:
    found = section(f"### `{method.name}`")
    assert method.summary in found
    for field in method.params.__struct_encode_fields__:
        assert f"| `{field}` |" in found
    for code in method.errors:
        assert f"| `{code}` | {CODES[code].number} |" in found


def test_defaults_bounds_and_aliases_are_shown() -> None:
    send, pull = section("### `ledger/send`"), section("### `ledger/pull`")
    assert "| `to` | [Principal](#principal) or principal | **required** | at most 513 bytes |" in send
    assert "| `limit` | integer | `1` | from 1 to 100 |" in pull
    assert "| `allowed_senders` | array of name | kept; `null` clears |" in section("### `ledger/role/upsert`")
    assert "at most 8 entries; keys 1 to 32 bytes; values at most 256 bytes" in section("### Causality")
    assert "alias `rpc.discover`" in section("### `daemon/discover`")
    assert "idempotent by op_id" in send
    assert "operator only" in section("### `ledger/prune`")
    assert "No params." in section("### `daemon/ping`")


def test_every_error_limit_and_event_type_is_listed() -> None:
    errors, limits, events = section("## Errors"), section("## Limits"), section("## Event types")
    assert [name for name, code in CODES.items() if f"| `{name}` | {code.number} |" not in errors] == []
    assert [name for name, value in LIMITS.items() if f"| `{name}` | {value} |" not in limits] == []
    assert [name for names in EVENT_TYPES.values() for name in names if f"`{name}`" not in events] == []


def test_every_link_in_the_page_leads_to_a_heading_of_the_page() -> None:
    titles = [line.lstrip("# ") for line in TEXT.splitlines() if line.startswith("#")]
    headings = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([^)]*)\)", TEXT)) - headings == set()


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    cells = 0
    for line in TEXT.splitlines():
        if not line.startswith("|"):
            cells = 0
            continue
        found = len(re.findall(r"(?<!\\)\|", line))
        assert cells in (0, found), line
        cells = found
