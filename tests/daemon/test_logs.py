"""Logs: one line per record, nothing secret in it, and nothing that stderr does reaches whoever logs."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from interlock.daemon import logs
from interlock.daemon.logs import Repeats, Sink, render_readable
from interlock.daemon.redaction import REDACTED, clean, clean_text, is_secret

HEAD = "from interlock.daemon import logs\nlog = logs.get_logger('test')\n"


def run(script: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a script that logs, in a process of its own; by default with logs at info."""
    command = [sys.executable, "-c", HEAD + script]
    return subprocess.run(
        command, **{"stderr": subprocess.PIPE, "text": True, "timeout": 30, "check": False, **options}
    )


def records(script: str, **options: Any) -> list[dict[str, Any]]:
    """What a script logs that ends well."""
    done = run(script, **options)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stderr.splitlines()]


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe that is closed at the end, as far as the test left it open."""
    ends = os.pipe()
    yield ends
    for fd in ends:
        try:
            os.close(fd)
        except OSError:
            continue


def test_a_record_is_one_line_of_json_with_time_level_event_and_fields() -> None:
    (record,) = records("logs.configure(); log.info('leader', pid=1, path='ä\\n')")
    assert list(record)[:4] == ["time", "monotonic_ms", "level", "event"]
    assert record["time"].endswith("Z")
    assert isinstance(record["monotonic_ms"], int)
    assert (record["level"], record["event"], record["module"]) == ("info", "leader", "test")
    assert (record["pid"], record["path"]) == (1, "ä\n")


@pytest.mark.parametrize(
    ("level", "seen"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
)
def test_the_level_decides_what_is_written(level: str, seen: list[str]) -> None:
    script = f"logs.configure('{level}')\nfor name in 'debug', 'info', 'warning', 'error': getattr(log, name)('x')"
    assert [record["level"] for record in records(script)] == seen


def test_nothing_is_written_to_stdout() -> None:
    done = run("logs.configure(); log.info('x')", stdout=subprocess.PIPE)
    assert done.stdout == ""


def test_an_exception_comes_with_its_traceback_and_without_the_secret_in_its_text() -> None:
    script = "logs.configure()\ntry: raise ValueError('no bearer=abcdef')\n"
    script += "except ValueError: log.exception('bug', error_id='e')"
    (record,) = records(script)
    assert (record["level"], record["error_id"]) == ("error", "e")
    assert record["exception"].startswith("Traceback")
    assert "ValueError: no bearer=[redacted]" in record["exception"]


def test_what_is_bound_to_the_context_is_in_every_record() -> None:
    script = "logs.configure()\nwith logs.structlog.contextvars.bound_contextvars(conn=7): log.info('x')\nlog.info('y')"
    inside, outside = records(script)
    assert inside["conn"] == 7
    assert "conn" not in outside


def test_the_standard_library_and_warnings_are_logged_too() -> None:
    script = """
import logging, warnings
logs.configure()
logging.getLogger('asyncio').error('never %s', 'awaited')
logging.getLogger('asyncio').log(35, 'odd level')
logging.getLogger('asyncio').error('%d', 'wrong')
logging.getLogger('asyncio').info('chatter')
warnings.warn('careful')
"""
    seen = [(record["event"], record["level"], record["message"].split("\n")[0]) for record in records(script)]
    assert seen[:3] == [
        ("asyncio", "error", "never awaited"),
        ("asyncio", "warning", "odd level"),
        ("asyncio", "error", "%d"),
    ]
    assert seen[3][:2] == ("py.warnings", "warning")
    assert "careful" in seen[3][2]


def test_a_value_whose_own_code_fails_costs_its_fields_only() -> None:
    script = """
class Bad:
    def __repr__(self): raise RuntimeError
logs.configure()
log.info('x', bad=Bad())
log.info('y')
"""
    failed, fine = records(script)
    assert (failed["event"], failed["reason"], failed["level"]) == ("log_failed", "RuntimeError", "info")
    assert fine["event"] == "y"


def test_a_terminal_gets_lines_for_people() -> None:
    leader, follower = pty.openpty()
    environ = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    run("logs.configure(); log.warning('clock_step', step_ms=-5)", stderr=follower, env=environ)
    os.close(follower)
    shown = os.read(leader, 4096).decode()
    os.close(leader)
    assert "warning clock_step" in shown.replace("\x1b[33m", "")
    assert "step_ms=-5" in shown
    assert "\x1b[33m" in shown


def test_no_color_is_obeyed_and_what_a_peer_sent_cannot_steer_the_terminal() -> None:
    leader, follower = pty.openpty()
    script = (
        "logs.configure()\ntry: raise ValueError(chr(27) + '[2J')\nexcept ValueError: log.exception('x', v=chr(27))"
    )
    run(script, stderr=follower, env={**os.environ, "NO_COLOR": "1"})
    os.close(follower)
    shown = os.read(leader, 4096).decode()
    os.close(leader)
    assert "ValueError: \\x1b[2J" in shown
    assert "\x1b" not in shown


def test_a_readable_line_has_no_field_that_only_programs_want() -> None:
    event = {"time": "2026-12-01T12:00:00.123Z", "monotonic_ms": 5, "level": "info", "event": "ready", "pid": 3}
    assert render_readable(event, colours=True) == "12:00:00.123 info    ready pid=3"


def test_loading_it_leaves_rich_out_and_does_not_hide_it_afterwards() -> None:
    script = "import sys; print([m for m in ('rich', 'structlog.dev') if m in sys.modules]); import rich.console"
    assert run(script, stdout=subprocess.PIPE).stdout.strip() == "['structlog.dev']"


def test_where_rich_is_loaded_already_it_stays() -> None:
    script = "import sys, rich; from interlock.daemon import logs; print(sys.modules['rich'] is rich)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


# What stderr may do.


@pytest.mark.parametrize(
    "script", ["import os; os.close(2)\n", "import os; os.close(2); os.open('/dev/full', os.O_WRONLY)\n"]
)
def test_a_closed_or_full_stderr_does_not_reach_who_logs(script: str) -> None:
    script += "sink = logs.configure(); log.error('x'); print(sink.dropped)"
    assert run(script, stdout=subprocess.PIPE).stdout == "1\n"


def test_a_reader_that_went_away_does_not_reach_who_logs() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    script = "sink = logs.configure(); log.error('x'); log.error('y'); print(sink.dropped)"
    done = run(script, stdout=subprocess.PIPE, stderr=writer)
    os.close(writer)
    assert done.stdout == "2\n"


@pytest.mark.parametrize("blocking", [True, False])
def test_a_pipe_that_nobody_reads_never_blocks_and_later_tells_how_much_was_lost(
    pipe: tuple[int, int], blocking: bool
) -> None:
    reader, writer = pipe
    os.set_blocking(writer, blocking)
    sink = Sink(writer)
    for number in range(3000):
        sink.write(f"{number} {'x' * 100}")
    lost = sink.dropped
    assert lost > 0
    read = drain(reader)
    for line in "after", "last":
        sink.write(line)
        read += drain(reader)
    *early, note, after, last = read.decode().splitlines()
    assert [line.partition(" ")[0] for line in early] == [str(number) for number in range(3000 - lost)]
    assert json.loads(note) == {"event": "log_dropped", "level": "warning", "count": lost}
    assert (after, last, sink.dropped) == ("after", "last", lost)


def drain(reader: int) -> bytes:
    """All that is in a pipe now."""
    data = b""
    while select.select([reader], [], [], 0)[0] and (more := os.read(reader, 1 << 16)):
        data += more
    return data


def test_a_line_longer_than_a_pipe_holds_arrives_whole(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    sink = Sink(writer)
    sink.write("y" * 200_000)
    read = drain(reader)
    while not read.endswith(b"\n"):
        sink.write("next")
        read += drain(reader)
    assert read.startswith(b"y" * 200_000 + b"\n")


def test_text_that_is_not_utf_8_is_written_with_escapes(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    Sink(writer).write("a\udcff")
    assert drain(reader) == b"a\\udcff\n"


# Repeats.


def passed(repeats: Repeats, name: str, method: str = "info", **fields: object) -> dict[str, Any] | None:
    """The event as it goes on, or None when it was dropped."""
    try:
        return dict(repeats(None, method, {"event": name, **fields}))
    except structlog.DropEvent:
        return None


def test_a_repeated_event_is_counted_and_the_count_comes_with_the_next_record() -> None:
    repeats = Repeats(lambda: 0.0, per_minute=3)
    assert [passed(repeats, "full") is not None for _ in range(10)] == [True] * 3 + [False] * 7
    assert passed(repeats, "other") == {"event": "other", "suppressed": {"full": 7}}
    assert passed(repeats, "other") == {"event": "other"}


def test_a_new_minute_lets_an_event_through_again() -> None:
    now = [100.0]
    repeats = Repeats(lambda: now[0], per_minute=1)
    assert passed(repeats, "full") == {"event": "full"}
    now[0] = 159.9
    assert passed(repeats, "full") is None
    now[0] = 160.0
    assert passed(repeats, "full") == {"event": "full", "suppressed": {"full": 1}}


def test_debug_and_what_must_be_found_again_are_not_limited() -> None:
    repeats = Repeats(lambda: 0.0, per_minute=1)
    assert all(passed(repeats, "request", "debug") for _ in range(5))
    assert all(passed(repeats, "bug", "error", error_id="e") for _ in range(5))


def test_repeats_are_limited_in_what_is_written() -> None:
    script = "logs.configure()\nfor n in range(1000): log.error('full', n=n)\nlog.info('stopped')"
    found = records(script)
    assert len(found) == logs.REPEATS_PER_MINUTE + 1
    assert found[-1]["suppressed"] == {"full": 1000 - logs.REPEATS_PER_MINUTE}


# Redaction.

SECRET = "s3cr3t-value"


@dataclass
class Plain:
    """Something that only has a repr."""

    token: str
    name: str


class Record(msgspec.Struct):
    """A record with a bearer in it."""

    bearer: str
    nested: dict[str, object]


@pytest.mark.parametrize(
    "value",
    [
        {"bearer": SECRET},
        {"Authorization": f"Bearer {SECRET}"},
        {"a": [{"b": ({"recovery_key": SECRET},)}]},
        {"api-key": SECRET, "apikey": SECRET, "db_password": SECRET, "clientSecret": SECRET, "access_token": [SECRET]},
        Record(SECRET, {"recovery_key": SECRET}),
        Plain(SECRET, "n"),
        ValueError(f"bad token: {SECRET}"),
        f'{{"bearer": "{SECRET}", "x": 1}}',
        f"{{'password': '{SECRET} with a blank'}}",
        f'{{\\"recovery_key\\":\\"{SECRET}\\"}}',
        f"Authorization: Bearer {SECRET}",
        f"GET /?token={SECRET}&x=1",
        SECRET.encode(),
        msgspec.Raw(f'{{"bearer": "{SECRET}"}}'.encode()),
        {f"token={SECRET}": 1},
    ],
)
def test_a_secret_is_taken_out_wherever_it_is(value: object) -> None:
    assert SECRET not in json.dumps(clean({"value": value}))


def test_what_looks_like_a_bearer_is_taken_out_without_a_name() -> None:
    assert clean_text(f"attach {'0af9' * 16} failed") == f"attach {REDACTED} failed"
    assert clean_text("0af9" * 15) == "0af9" * 15


def test_what_is_no_secret_stays() -> None:
    value = {"author": "a", "session": "s", "n": 1.5, "none": None, "yes": True, "items": [1, "two"], "token": None}
    assert clean(value) == value


@pytest.mark.parametrize(
    "key", ["bearer", "Token", "client_secret", "passwd", "recovery_key", "AUTHORIZATION", "X-Api-Key"]
)
def test_names_of_secrets_are_known_in_any_spelling(key: str) -> None:
    assert is_secret(key)


keys = st.sampled_from(["a", "b", "items"]) | st.text(max_size=5)
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=5)
nested = st.recursive(
    plain | st.builds(lambda key: {key: SECRET}, st.sampled_from(["bearer", "my_token", "PASSWORD", "recovery_key"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)


@given(nested)
def test_whatever_is_logged_is_one_line_of_json_without_secrets(value: object) -> None:
    line = logs.render_json({"value": clean(value)})
    assert SECRET not in line
    assert "\n" not in line
    json.loads(line)


def test_a_value_that_holds_itself_ends() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert "<list>" in json.dumps(clean(loop))


def test_size_is_bounded_in_every_direction() -> None:
    assert len(clean_text("x" * 1_000_000)) < 17_000
    assert clean_text("a" + "x" * 100_000 + "z").endswith("z")
    assert clean(list(range(1000))) == [*range(100), "and 900 more"]
    many = clean({str(n): n for n in range(1000)})
    assert isinstance(many, dict)
    assert (len(many), many["…"]) == (101, "and 900 more")
    assert clean([2**63, -(2**63)]) == ["9223372036854775808", -(2**63)]


def test_a_planted_secret_is_nowhere_in_a_run(tmp_path: Path) -> None:
    script = f"""
import logging
logs.configure('debug')
key = {SECRET!r}
log.debug('request', params={{'recovery_key': key, 'deep': [{{'bearer': key}}]}}, header='Authorization: Bearer ' + key)
logging.getLogger('x').error('password=%s', key)
try: raise KeyError('token: ' + key)
except KeyError: log.exception('bug', error_id='e')
"""
    path = tmp_path / "log"
    with path.open("wb") as log:
        run(script, stderr=log)
    written = path.read_text("utf-8")
    # The traceback quotes the line of source that raised, which names the variable and not its value.
    assert len(written.splitlines()) == 3
    assert SECRET not in written
