"""The verbs that use the daemon, on the real one: calls, the feed, waiting, backup and restore."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from interlock.daemon.cli import feed
from interlock.daemon.cli.client import Client, RpcFailure, TimedOut
from interlock.daemon.cli.feed import Follower
from interlock.daemon.cli.settings import Settings
from interlock.daemon.cli.use import conditions, wait

from .harness import Home, new_home


@pytest.fixture(scope="module")
def served() -> Iterator[Home]:
    """A home with a daemon and two roles, for all tests that leave it running. Each sends to a role of its own."""
    with new_home() as home:
        for name in ("worker", "boss"):
            assert home.run("ledger", "role", "upsert", name).code == 0
        yield home


@pytest.fixture
def role(served: Home, request: pytest.FixtureRequest) -> str:
    """A role that only this test uses."""
    name = f"role-{abs(hash(request.node.nodeid))}"
    assert served.run("ledger", "role", "upsert", name).code == 0
    return name


def head_of(home: Home) -> int:
    """The head of the feed."""
    return int(home.run("ledger", "events", "head").value["head"])


def lines(out: str) -> list[Any]:
    """Output of one JSON value per line."""
    return [json.loads(line) for line in out.splitlines()]


def test_mail_goes_its_way_by_verbs_alone(served: Home, role: str) -> None:
    sent = served.run("ledger", "send", "--kind", "task", "--to", role, "--text", "fix ü", "--task", "t1")
    assert (sent.code, sent.err, sent.value["state"]) == (0, "", "queued")
    pulled = served.run("--role", role, "ledger", "pull").value["deliveries"]
    assert pulled[0]["envelope"]["body"] == {"text": "fix ü"}
    assert pulled[0]["envelope"]["causality"]["task"] == "t1"
    acked = served.run("ledger", "ack", sent.value["msg_id"], "--reason", "done")
    assert acked.value["row"]["state"] == "acked"
    assert served.run("ledger", "query", "--state", "acked").value["rows"][0]["msg_id"] == sent.value["msg_id"]


def test_a_long_text_comes_from_standard_input(served: Home, role: str) -> None:
    text = "ü" * 200_000
    sent = served.run("ledger", "send", "--kind", "note", "--to", role, "--text", "-", stdin=text.encode())
    assert served.run("ledger", "get", sent.value["msg_id"]).value["envelope"]["body"]["text"] == text


def test_a_delivery_can_be_sent_on_as_it_arrived(served: Home, role: str) -> None:
    served.run("ledger", "send", "--kind", "note", "--to", role, "--text", "a")
    envelope = served.run("ledger", "pull", "--role", role).value["deliveries"][0]["envelope"]
    again = {key: value for key, value in envelope.items() if key not in ("msg_id", "op_id")}
    assert served.run("ledger", "send", "--params", "-", stdin=json.dumps(again).encode()).code == 0


def test_call_prints_the_result_as_one_value(served: Home) -> None:
    for arguments, stdin in ((['{"name": "x"}'], b""), (["-"], b'{"name": "x"}')):
        done = served.run("call", "ledger/role/upsert", *arguments, stdin=stdin)
        assert (done.code, done.value["role"]["name"]) == (0, "x")
    assert "instance_id" in served.run("call", "daemon/ping").value


def test_call_fills_in_the_role_where_the_method_takes_one(served: Home, role: str) -> None:
    done = served.run("call", "ledger/pull", "--role", role)
    assert (done.code, done.value["deliveries"]) == (0, [])
    assert served.run("call", "daemon/ping", "--role", role).code == 0


@pytest.mark.parametrize(
    ("method", "params", "code", "name"),
    [
        ("ledger/get", '{"msg_id": "msg_none"}', 4, "not_found"),
        ("ledger/get", '{"msg": 1}', 2, "invalid_params"),
        ("ledger/get", "[1]", 2, "invalid_params"),
        ("ledger/gte", "{}", 2, "method_not_found"),
        ("ledger/query", '{"limit": 501}', 2, "limit_out_of_range"),
        ("ledger/events/since", '{"after_seq": 999999}', 5, "cursor_ahead"),
        ("daemon/shutdown", '{"drain_ms": 60001}', 2, "limit_out_of_range"),
    ],
)
def test_a_refusal_is_its_error_object_and_its_exit_code(
    served: Home, method: str, params: str, code: int, name: str
) -> None:
    refused = served.run("call", method, params)
    assert (refused.code, refused.out) == (code, "")
    assert refused.error["data"]["code"] == name


def test_an_op_id_used_for_something_else_is_5(served: Home, role: str) -> None:
    def send(text: str) -> tuple[int, str]:
        done = served.run("ledger", "send", "--kind", "note", "--to", role, "--text", text, "--op-id", "op1")
        return done.code, done.out

    first, again = send("a"), send("a")
    assert (first[0], again[0], json.loads(again[1])["replayed"]) == (0, 0, True)
    assert send("b")[0] == 5


def test_a_refusal_for_a_person_says_what_was_meant(served: Home) -> None:
    refused = served.run("ledger", "send", "--kind", "note", "--to", "wroker", "--text", "a")
    assert refused.code == 4
    assert refused.err.splitlines()[:2] == ["error: there is no role wroker", "  code: not_found"]
    assert 'near: ["worker"]' in refused.err


def test_text_that_is_no_utf8_is_refused_by_the_daemon_with_its_place(served: Home) -> None:
    refused = served.run("ledger", "send", "--kind", "note", "--to", "worker", "--text", os.fsdecode(b"\xff"), "--json")
    assert (refused.code, refused.error["data"]["path"]) == (2, "/body/text")


def test_quiet_prints_nothing_but_errors(served: Home) -> None:
    assert served.run("ledger", "depth", "--quiet")[:3] == (0, "", "")
    refused = served.run("--quiet", "ledger", "get", "msg_none")
    assert refused.code == 4
    assert refused.err.startswith("error: ")


def test_events_prints_the_feed_a_line_each_from_where_it_is_told(served: Home) -> None:
    everything = lines(served.run("events").out)
    assert [event["seq"] for event in everything] == list(range(1, len(everything) + 1))
    assert lines(served.run("events", "--after", "2").out) == everything[2:]
    assert lines(served.run("events", "-n", "1").out) == everything[:1]
    roles = lines(served.run("events", "--types", "role_changed", "--subjects", "boss").out)
    assert [event["subject"] for event in roles] == ["boss"]


def test_events_pages_through_more_than_one_page(served: Home) -> None:
    head = head_of(served)
    upsert_many(served, "paged", 1200)
    paged = lines(served.run("events", "--types", "role_changed", "--after", str(head)).out)
    assert [event["seq"] for event in paged] == list(range(head + 1, head + 1201))


def upsert_many(home: Home, prefix: str, count: int) -> None:
    """Make roles, 60 in a transaction."""
    with Client.connect(home.run("sockname").out.strip()) as client:
        for start in range(0, count, 60):
            names = [f"{prefix}-{number}" for number in range(start, min(start + 60, count))]
            client.call(
                "daemon/batch", {"steps": [{"method": "ledger/role/upsert", "params": {"name": n}} for n in names]}
            )


@pytest.mark.parametrize(("arguments", "code"), [(["--types", "rol_changed"], 2), (["--after", "99999"], 5)])
def test_a_feed_that_there_is_not_is_refused(served: Home, arguments: list[str], code: int) -> None:
    assert served.run("events", *arguments).code == code
    assert served.run("events", "-f", *arguments).code == code


def test_following_shows_what_comes_across_a_restart(home: Home) -> None:
    home.run("start")
    follower = home.spawn("events", "-f", "--after", "0", "--types", "role_changed")
    assert follower.stdout is not None
    home.run("ledger", "role", "upsert", "first")
    assert json.loads(follower.stdout.readline())["subject"] == "first"
    assert home.run("restart").code == 0
    home.run("ledger", "role", "upsert", "second")
    assert json.loads(follower.stdout.readline())["subject"] == "second"
    follower.send_signal(signal.SIGINT)
    follower.communicate(timeout=10)
    assert follower.returncode == 130


def test_following_loses_nothing_when_it_lags(home: Home) -> None:
    home.run("ledger", "role", "upsert", "first")
    with home.entered(), closing(Follower(Settings(), {"types": ["role_changed"]}, 0).events()) as events:
        seqs = [next(events)["seq"]]
        upsert_many(home, "lagged", 4000)  # and nobody reads meanwhile
        seqs += [event["seq"] for event in islice(events, 4000)]
    assert seqs == list(range(seqs[0], seqs[0] + 4001))
    metrics = home.run("daemon", "metrics").value["text"]
    assert "interlock_subscription_lagged_total 0" not in metrics


def test_following_a_daemon_that_does_not_come_back_ends_with_where_to_resume(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "RECONNECT_SECONDS", 0.1)
    home.run("ledger", "role", "upsert", "first")
    with home.entered(), closing(Follower(Settings(), {"types": ["role_changed"]}, 0).events()) as events:
        seq = next(events)["seq"]
        home.run("stop")
        with pytest.raises(feed.Stopped) as stopped:
            next(events)
    assert stopped.value.after is not None
    assert stopped.value.after >= seq


def test_wait_answers_when_mail_is_there_and_is_124_when_none_came(served: Home, role: str) -> None:
    empty = served.run("wait", "--mail", role, "--timeout", "0")
    assert (empty.code, empty.value["matched"]) == (124, [])
    waiter = served.spawn("wait", "--mail", role, "--timeout", "20")
    served.run("ledger", "send", "--kind", "note", "--to", role, "--text", "a")
    out, _ = waiter.communicate(timeout=20)
    assert (waiter.returncode, json.loads(out)["matched"]) == (0, ["mail"])
    assert served.run("wait", "--mail", role, "--kinds", "task", "--timeout", "0").code == 124


def test_wait_for_events_gives_the_first_that_matched(served: Home) -> None:
    found = served.run("wait", "--events", "role_changed", "--after", "0", "--timeout", "5")
    assert (found.code, found.value["matched"], found.value["event"]["subject"]) == (0, ["events"], "worker")
    both = served.run("wait", "--filter", '{"events": {"roles": ["boss"]}}', "--after", "0", "--timeout", "5")
    assert both.value["event"]["subject"] == "boss"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "wait for what?"),
        (["--labels", "x", "--mail", "worker"], "--labels says more of a condition"),
        (["--owner", "agent:a", "--item-ready"], "--owner says more of a condition"),
        (["--session", "s"], "--session says more of a condition"),
        (["--owner", "a", "--lease-ending", "5"], "'a' is not of the form KIND:ID"),
        (["--filter", "[]"], "--filter takes a JSON object"),
    ],
)
def test_what_is_no_condition_is_a_usage_error(served: Home, arguments: list[str], said: str) -> None:
    refused = served.run("wait", *arguments)
    assert refused.code == 2
    assert said in refused.err


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"item_ready": True}, {"item_ready": {}}),
        (
            {"item_ready": True, "labels": ("x", "y"), "realm_id": "r"},
            {"item_ready": {"labels": ["x", "y"], "realm_id": "r"}},
        ),
        ({"lease_ending": 0}, {"lease_ending": {"within_ms": 0}}),
        (
            {"item_ready": True, "lease_ending": 9, "owner": "agent:a", "namespace": "n"},
            {
                "item_ready": {"namespace": "n"},
                "lease_ending": {"within_ms": 9, "owner": {"kind": "agent", "id": "a"}, "namespace": "n"},
            },
        ),
        (
            {"mail": "w", "kinds": ("task",), "events": ("a", "b")},
            {"mail": {"role": "w", "kinds": ["task"]}, "events": {"types": ["a", "b"]}},
        ),
    ],
)
def test_the_options_of_wait_become_its_filter(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    nothing: dict[str, Any] = {param.name or "": () if param.multiple else None for param in wait.params}
    del nothing["after"], nothing["extra"]
    assert conditions({**nothing, "item_ready": False, **given}) == wanted


def test_wait_for_an_unknown_role_is_refused(served: Home) -> None:
    assert served.run("wait", "--mail", "wroker").code == 4


def test_the_time_out_of_a_call_ends_it_with_124(served: Home, role: str) -> None:
    late = served.run("ledger", "pull", "--role", role, "--wait-ms", "20000", "--timeout", "0.2")
    assert late.code == 124
    assert served.run("call", "daemon/ping").code == 0


def test_the_client_is_what_a_script_needs(served: Home, role: str) -> None:
    with Client.connect(served.run("sockname").out.strip()) as client:
        assert client.call("ledger/attach", {"role": role})["role"]["name"] == role
        subscription = client.call("ledger/events/subscribe", {"types": ["role_changed"]})["subscription"]
        with Client.connect(client.address) as operator:
            operator.call("ledger/role/upsert", {"name": "new"})
        event = next(client.notifications(timeout=10))
        assert (event.method, event.params["subscription"], event.params["subject"]) == (
            "events/event",
            subscription,
            "new",
        )
        with pytest.raises(RpcFailure) as refused:
            client.call("ledger/role/upsert", {"name": "other"})
        assert refused.value.code == "not_admin"
        with pytest.raises(TimedOut):
            client.call("ledger/pull", {"wait_ms": 20000}, timeout=0.05)
        assert client.call("daemon/ping")["instance_id"]


def test_a_backup_restores_to_what_it_was(home: Home) -> None:
    home.run("ledger", "role", "upsert", "worker")
    home.run("ledger", "send", "--kind", "note", "--to", "worker", "--text", "before")
    target = home.root / "backup"
    made = home.run("backup", str(target))
    assert (made.code, made.value["path"]) == (0, str(target))
    home.run("ledger", "send", "--kind", "note", "--to", "worker", "--text", "after")
    running = home.run("restore", str(target), "--yes")
    assert running.code == 75
    assert "already running" in running.err
    assert len(home.run("ledger", "query").value["rows"]) == 2
    home.run("stop")
    restored = home.run("restore", str(target), "--yes")
    assert (restored.code, restored.value["event_head"]) == (0, made.value["event_head"])
    rows = home.run("ledger", "query").value["rows"]
    assert [row["head"] for row in rows] == ["before"]
    assert home.run("doctor").code == 0


def test_a_backup_path_is_relative_to_where_one_stands(served: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(served.root)
    assert served.run("backup", "here").value["path"] == str(Path(served.root, "here").absolute())
    refused = served.run("backup", "here")
    assert refused.code == 2
    assert "nothing is yet" in refused.err
