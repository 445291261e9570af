"""`interlock demo`: it ends as it must, by itself, and leaves nothing behind however it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from interlock.daemon.cli.demo_agent import FOLDERS, count_lines, source_files

from .harness import Home, command


def environment(home: Home, temporary: Path, **more: str) -> dict[str, str]:
    temporary.mkdir()
    return home.env | {"TMPDIR": str(temporary)} | more


def processes_below(folder: Path) -> list[str]:
    """Command lines of the processes that were told this folder."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        found += [words] if str(folder) in words else []
    return found


def test_the_demonstration_ends_as_it_must_and_leaves_nothing_behind(home: Home) -> None:
    temporary = home.root / "with a blank"
    done = home.program("demo", stdin=None, **environment(home, temporary))
    assert (done.code, done.err) == (0, "")
    assert len(re.findall(r"(?m)^ok ", done.out)) == 5
    assert "FAILED" not in done.out
    (killed,) = re.findall(r"kill -9: worker-1 and its interlockd are gone, and they held task (\S+)", done.out)
    assert f"task {killed} is queued (connection_lost)" in done.out
    assert f"worker-2  takes task {killed} (delivery 2)" in done.out
    total = sum(count_lines(path) for folder in FOLDERS for path in source_files(folder))
    assert f"planner   has all 4 answers: {total} lines in all" in done.out
    assert list(temporary.iterdir()) == []
    assert processes_below(temporary) == []
    assert not home.state.exists()  # the user's own state directory is not touched


def test_the_demonstration_minds_no_setting_of_the_user(home: Home) -> None:
    (home.root / "cfg" / "interlock").mkdir()
    (home.root / "cfg" / "interlock" / "config.toml").write_text('operator = "socket"\n[ledger]\nno_such_key = 1\n')
    temporary = home.root / ("long" * 30)  # no socket fits below it
    more = {"INTERLOCK_SOCKET": "none", "INTERLOCK_STATE_DIR": str(home.root / "mine")}
    done = home.program("--json", "demo", stdin=None, **environment(home, temporary, **more))
    assert (done.code, done.err) == (0, "")
    said = [json.loads(line) for line in done.out.splitlines()]
    assert [line["who"] for line in said].count("ok") == 5
    assert not (home.root / "mine").exists()


@pytest.mark.parametrize("ending", ["terminated", "interrupted", "not read"])
def test_a_demonstration_that_is_cut_short_leaves_nothing_behind(home: Home, ending: str) -> None:
    temporary = home.root / "t"
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command(["demo"]), env=environment(home, temporary), stdout=pipe, stderr=pipe, start_new_session=True
    )
    assert process.stdout is not None
    while b"worker-1  takes task" not in process.stdout.readline():
        assert process.poll() is None
    if ending == "not read":
        process.stdout.close()
        process.stdout = None
    else:
        os.kill(process.pid, signal.SIGTERM if ending == "terminated" else signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == {"terminated": 143, "interrupted": 130, "not read": 141}[ending]
    assert list(temporary.iterdir()) == []
    assert processes_below(temporary) == []


def test_the_demonstration_takes_no_arguments(home: Home) -> None:
    done = home.run("demo", "everything")
    assert done.code == 2
    assert "takes no arguments: everything" in done.err
