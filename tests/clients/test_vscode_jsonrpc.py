"""`vscode-jsonrpc`, the library of editor plugins, over stdio with `Content-Length`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from interlock.protocol.limits import LIMITS
from tests.harness import environment

HERE: Final = Path(__file__).parent
SECONDS: Final = 50

pytestmark = pytest.mark.needs("node", "npm")


def seen_by_the_client(tmp_path: Path) -> dict[str, Any]:
    """What the client program saw of a daemon of its own."""
    daemon = [sys.executable, "-m", "interlock.daemon", "--stdio", "--socket", "none"]
    done = subprocess.run(
        ["node", "--unhandled-rejections=strict", str(HERE / "vscode_client.js"), *daemon],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def test_an_editor_plugin_does_all_its_work_over_stdio(tmp_path: Path) -> None:
    seen = seen_by_the_client(tmp_path)
    assert seen["strays"] == []
    assert seen["initialize"]["server_info"]["name"] == "interlock"
    assert seen["initialize"]["limits"] == LIMITS

    assert seen["cancelled"]["number"] == -32005
    assert seen["cancelled"]["data"] == {"code": "cancelled", "retryable": False}

    assert seen["sameBody"] is True
    assert seen["delivered"] == seen["receipt"]["msg_id"]
    assert [event["data"]["state"] for event in seen["events"]] == ["queued", "in_flight", "acked"]
    assert {event["subscription"] for event in seen["events"]} == {seen["subscription"]}

    assert (seen["unknown"]["number"], seen["unknown"]["data"]["expected"]) == (-32601, "ledger/send")
    assert (seen["refused"]["number"], seen["refused"]["data"]["near"]) == (-32001, ["wörker"])
    assert (seen["positional"]["number"], seen["positional"]["data"]["path"]) == (-32602, "")
    assert seen["many"] == 300
    assert seen["exit"] == 0
