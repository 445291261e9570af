"""`interlock stdio`: every byte passed on in both framings, half-close, and an end when either side ends."""

from __future__ import annotations

import json

from .harness import Home

PING = b'{"jsonrpc":"2.0","id":1,"method":"daemon/ping"}'


def test_lines_pass_both_ways_and_the_daemon_is_started(home: Home) -> None:
    done = home.program("stdio", stdin=PING + b"\n")
    assert (done.code, done.err, done.value["id"]) == (0, "", 1)
    assert home.run("status").code == 0


def test_the_other_framing_passes_too(home: Home) -> None:
    done = home.program("stdio", stdin=b"Content-Length: %d\r\n\r\n%s" % (len(PING), PING))
    header, _, body = done.out.partition("\r\n\r\n")
    assert header.startswith("Content-Length: ")
    assert json.loads(body)["id"] == 1


def test_a_last_request_is_answered_after_the_end_of_input(home: Home) -> None:
    home.run("ledger", "role", "upsert", "worker")
    text = "x" * 1_000_000
    requests = [
        {
            "jsonrpc": "2.0",
            "id": n,
            "method": "ledger/send",
            "params": {"kind": "note", "to": "worker", "body": {"text": text}},
        }
        for n in range(5)
    ]
    done = home.program("stdio", stdin="\n".join(json.dumps(request) for request in requests).encode())
    assert done.code == 0
    answers = [json.loads(line) for line in done.out.splitlines()]
    assert sorted(answer["id"] for answer in answers) == [0, 1, 2, 3, 4]
    assert all("result" in answer for answer in answers)


def test_large_answers_pass_while_input_stays_open(home: Home) -> None:
    home.run("ledger", "role", "upsert", "worker")
    text = "x" * 1_000_000
    message = home.run("ledger", "send", "--kind", "note", "--to", "worker", "--text", "-", stdin=text.encode()).value
    joined = home.spawn("stdio")
    assert joined.stdin is not None
    assert joined.stdout is not None
    get = {"jsonrpc": "2.0", "id": 7, "method": "ledger/get", "params": {"msg_id": message["msg_id"]}}
    joined.stdin.write(json.dumps(get).encode() + b"\n")
    joined.stdin.flush()
    assert json.loads(joined.stdout.readline())["result"]["envelope"]["body"]["text"] == text
    joined.communicate(timeout=10)
    assert joined.returncode == 0


def test_the_end_of_the_daemon_ends_it(home: Home) -> None:
    home.run("start")
    joined = home.spawn("stdio")
    assert joined.stdin is not None
    assert joined.stdout is not None
    joined.stdin.write(PING + b"\n")
    joined.stdin.flush()
    joined.stdout.readline()
    home.run("stop")
    # Its input is still open: the daemon's end alone must end it.
    assert joined.wait(timeout=10) == 0
    joined.communicate()


def test_a_reader_that_goes_away_ends_it(home: Home) -> None:
    home.run("start")
    joined = home.spawn("stdio")
    assert joined.stdin is not None
    assert joined.stdout is not None
    joined.stdout.close()
    joined.stdin.write(PING + b"\n")
    joined.stdin.flush()
    assert joined.wait(timeout=10) == 0
    joined.stdin.close()
    assert joined.stderr is not None
    assert joined.stderr.read() == b""
    joined.stderr.close()


def test_a_private_one_serves_from_its_own_process(home: Home) -> None:
    private = home.program("stdio", "--private", stdin=PING + b"\n")
    shared = home.program("stdio", stdin=PING + b"\n")
    assert (private.code, shared.code) == (0, 0)
    assert private.value["result"]["instance_id"] != shared.value["result"]["instance_id"]
    assert home.program("stdio", "--private", stdin=b"").out == ""
