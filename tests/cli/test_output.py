"""What a person sees on a terminal, and that nothing of what agents wrote is obeyed by it."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.daemon.cli.feed import event_line
from interlock.daemon.cli.output import one_line, plain, show_error
from interlock.daemon.cli.tables import cell, show_table

from .graphs import NOW, claim, item
from .harness import Home, on_a_terminal


def shown(value: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """A result as its table on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "200")
    show_table(value, color=False)
    return capsys.readouterr().out


def test_a_list_is_a_table_of_what_a_person_wants_to_see(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {
        "msg_id": "msg_1",
        "kind": "task",
        "from": {"role": {"role": "boss"}},
        "to": {"role": {"role": "worker", "session": "s1"}},
        "admin": True,
        "head": "fix it",
        "state": "queued",
        "enqueued_at": "2026-12-01T12:00:00.000Z",
        "deliveries": 0,
    }
    text = shown({"rows": [row], "has_more": True, "next_cursor": "abc", "as_of_seq": 9}, capsys, monkeypatch)
    header, _, line, *rest = text.splitlines()
    assert header.split() == ["msg_id", "kind", "from", "to", "state", "head", "enqueued_at"]
    assert line.split() == ["msg_1", "task", "boss", "worker#s1", "queued", "fix", "it", "2026-12-01T12:00:00.000Z"]
    assert rest == ["as_of_seq 9 · there is more: --cursor abc"]


def test_a_list_that_nobody_thought_of_shows_its_first_fields(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shown({"things": [{"a": 1, "b": {"c": None}}, {"a": 2, "d": False}]}, capsys, monkeypatch)
    assert [line.split() for line in text.splitlines() if "─" not in line] == [
        ["a", "b", "d"],
        ["1", '{"c":null}'],
        ["2", "no"],
    ]


def test_an_empty_list_says_that_there_is_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown({"rows": [], "has_more": False, "as_of_seq": 4}, capsys, monkeypatch) == "no rows\nas_of_seq 4\n"


def test_a_record_is_names_and_values(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown({"state": "ready", "messages": {"queued": 1}, "roles": ["a", "b"]}, capsys, monkeypatch)
    assert [line.rstrip() for line in text.splitlines()] == [
        "state            ready",
        "messages.queued  1",
        "roles            a, b",
    ]


def test_text_that_is_made_to_be_read_is_printed_as_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shown({"content_type": "text/plain", "text": "# HELP a\na 1\n"}, capsys, monkeypatch) == "# HELP a\na 1\n"


def test_items_of_work_are_a_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [item("work_1", "Build", **claim("agent:a", NOW)), item("work_2", "Test", unresolved_blockers=1)]
    text = shown({"items": rows, "has_more": False, "as_of_seq": 3}, capsys, monkeypatch)
    header, _, first, second, _ = text.splitlines()
    assert header.split() == [
        *("id", "title", "status", "priority", "owner", "unresolved_blockers", "revision"),
    ]
    assert first.split() == ["work_1", "Build", "in_progress", "medium", "agent:a", "0", "1"]
    assert second.split() == ["work_2", "Test", "open", "medium", "1", "1"]


def test_an_id_stays_in_one_piece_where_there_is_room_for_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    made = f"work_{'0' * 36}"
    show_table({"items": [item(made, "a title of more words than fit beside it", due_at=NOW)]}, color=False)
    assert made in capsys.readouterr().out


def test_lists_beside_a_record_have_their_names_above(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    value = {
        "item_id": "work_1",
        "totals": {"unresolved_blockers": 1},
        "waits": [{"kind": "gate", "text": "not before", "remedy": "update"}],
        "attention": [],
    }
    assert [line.split() for line in shown(value, capsys, monkeypatch).splitlines() if "─" not in line] == [
        ["item_id", "work_1"],
        ["totals.unresolved_blockers", "1"],
        ["waits"],
        ["kind", "text", "remedy"],
        ["gate", "not", "before", "update"],
        ["no", "attention"],
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *[(None, ""), (True, "yes"), ([], ""), ({}, "{}"), (1.5, "1.5"), ("[b]x", "[b]x")],
        ({"key": {"kind": "agent", "id": "a"}, "display_name": "A"}, "agent:a"),
        ({"kind": "label", "id": "\x1b"}, "label:\\x1b"),
        ({"kind": "host_confirmed"}, "host_confirmed"),
        ({"kind": "reviewer_quorum", "threshold": 2}, "reviewer_quorum:2"),
        ({"kind": "lowered_owner", "owner_key": {"kind": "agent", "id": "a"}}, "lowered_owner:agent:a"),
        ({"state": "active"}, "active"),
        ({"state": "paused", "until": NOW}, f"paused until {NOW}"),
        ({"state": "active", "pid": 1}, '{"state":"active","pid":1}'),
        ({"kind": "task", "id": "a", "url": "b"}, '{"kind":"task","id":"a","url":"b"}'),
    ],
)
def test_a_value_is_one_cell(value: Any, text: str) -> None:
    assert cell(value) == text


def test_control_sequences_in_what_agents_wrote_are_shown_not_obeyed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = "\x1b]0;owned\x07\x9b2J[red]x"
    assert plain(evil) == "\\x1b]0;owned\\x07\\x9b2J[red]x"
    assert one_line("a\nb\tc") == "a\\nb\\tc"
    assert one_line("\u2028\u202e\u2066ü") == "\\u2028\\u202e\\u2066ü"
    text = shown({"rows": [{"msg_id": "m", "head": evil}]}, capsys, monkeypatch)
    text += event_line({"seq": 1, "at": "t", "family": "f", "type": "x", "subject": evil, "data": {"a": evil}})
    show_error({"code": -32000, "message": evil, "data": {"code": "x", "near": [evil]}}, json_wanted=False)
    text += capsys.readouterr().err
    assert not set(text) & {"\x1b", "\x07", "\x9b"}
    assert "[red]" in text


def test_an_error_for_a_person_is_its_message_and_what_it_knows(capsys: pytest.CaptureFixture[str]) -> None:
    data = {"code": "busy", "retryable": True, "retry_after_ms": 50, "near": ["a", "b"]}
    show_error({"code": -32006, "message": "the queue is full", "data": data}, json_wanted=False)
    assert capsys.readouterr().err.splitlines() == [
        "error: the queue is full",
        "  code: busy (try again)",
        "  retry after ms: 50",
        '  near: ["a","b"]',
    ]


def test_a_terminal_gets_tables_and_json_only_when_asked(home: Home) -> None:
    home.run("ledger", "role", "upsert", "worker")
    table = on_a_terminal(home, "ledger", "role", "list", NO_COLOR="1")
    assert "max_sessions" in table
    assert not table.startswith("{")
    assert "\x1b[3" not in table
    assert on_a_terminal(home, "ledger", "role", "list", "--json").startswith('{\n  "')
    assert on_a_terminal(home, "ledger", "role", "list", "--quiet") == ""
    assert "role_changed" in on_a_terminal(home, "events", "--types", "role_changed")
