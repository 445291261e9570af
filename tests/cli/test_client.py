"""The reference client, on a pair of sockets whose other end is bytes: framing, correlation, limits, deadlines."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.daemon.cli.client import Client, ConnectionLost, NoDaemon, RpcFailure, TimedOut

from .harness import Home


@contextmanager
def connected() -> Iterator[tuple[Client, socket.socket]]:
    """A client and the bytes at the other end of its connection."""
    here, there = socket.socketpair()
    there.settimeout(10)
    with there, Client(here, "a pair") as client:
        yield client, there


def line(message: Any) -> bytes:
    """A message as it stands on the wire."""
    return json.dumps(message).encode() + b"\n"


def read_line(connection: socket.socket) -> Any:
    """What the client sent."""
    received = b""
    while not received.endswith(b"\n"):
        received += connection.recv(1)  # not one byte of the next message
    return json.loads(received)


def send_pieces(connection: socket.socket, pieces: list[bytes]) -> None:
    """Send each piece by itself."""
    for piece in pieces:
        connection.sendall(piece)


def test_a_call_sends_one_line_and_returns_the_result() -> None:
    with connected() as (client, there):
        there.sendall(line({"jsonrpc": "2.0", "id": 1, "result": {"seq": 7}}))
        assert client.call("ledger/events/head", {"a": "ü"}) == {"seq": 7}
        sent = read_line(there)
        assert sent == {"jsonrpc": "2.0", "id": 1, "method": "ledger/events/head", "params": {"a": "ü"}}


def test_params_that_are_absent_are_not_sent() -> None:
    with connected() as (client, there):
        there.sendall(line({"id": 1, "result": None}))
        client.call("daemon/ping")
        assert "params" not in read_line(there)


def test_an_error_object_arrives_whole() -> None:
    error = {
        "code": -32001,
        "message": "no such role",
        "data": {"code": "not_found", "retryable": False, "near": ["a"]},
    }
    with connected() as (client, there):
        there.sendall(line({"jsonrpc": "2.0", "id": 1, "error": error}))
        with pytest.raises(RpcFailure) as caught:
            client.call("ledger/role/get")
    assert caught.value.error == error
    assert (caught.value.code, caught.value.retryable) == ("not_found", False)


def test_an_error_without_an_id_is_about_the_request_under_way() -> None:
    with connected() as (client, there):
        there.sendall(line({"id": None, "error": {"code": -32600, "message": "too large"}}))
        with pytest.raises(RpcFailure, match="too large"):
            client.call("ledger/send")


@given(cuts=st.sets(st.integers(1, 400), max_size=20))
def test_any_split_of_what_arrives_gives_the_same_messages(cuts: set[int]) -> None:
    stream = b"".join(
        [
            line({"jsonrpc": "2.0", "method": "events/event", "params": {"seq": 1, "text": "a\nb — ü"}}),
            line({"jsonrpc": "2.0", "id": "srv-1", "method": "runtime/ask", "params": {}}),
            line([1, 2]),
            line({"jsonrpc": "2.0", "id": 99, "result": "late"}),
            line({"jsonrpc": "2.0", "id": 1, "result": "mine"}),
            line({"jsonrpc": "2.0", "method": "events/event", "params": {"seq": 2}}),
        ]
    )
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    with connected() as (client, there):
        writer = threading.Thread(target=send_pieces, args=(there, [stream[a:b] for a, b in pairwise(edges)]))
        writer.start()
        assert client.call("x", timeout=10) == "mine"
        writer.join()
        there.close()
        assert [n.params["seq"] for n in client.notifications()] == [1, 2]


def test_an_answer_of_nine_mebibytes_arrives_whole() -> None:
    text = "x" * (9 << 20)
    with connected() as (client, there):
        writer = threading.Thread(target=there.sendall, args=(line({"id": 1, "result": text}),))
        writer.start()
        assert client.call("ledger/get", timeout=30) == text
        writer.join()


def test_a_time_out_cancels_the_request_and_a_late_answer_is_dropped() -> None:
    with connected() as (client, there):
        with pytest.raises(TimedOut):
            client.call("daemon/wait", timeout=0.01)
        assert read_line(there)["id"] == 1
        assert read_line(there) == {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}}
        there.sendall(line({"id": 1, "result": "late"}) + line({"id": 2, "result": "mine"}))
        assert client.call("daemon/ping") == "mine"


def test_waiting_for_notifications_can_be_bounded() -> None:
    with connected() as (client, _), pytest.raises(TimedOut):
        next(client.notifications(timeout=0.01))


def test_a_connection_that_ends_before_the_answer_is_lost() -> None:
    with connected() as (client, there):
        there.close()
        with pytest.raises(ConnectionLost):
            client.call("daemon/ping")


def test_a_peer_that_speaks_something_else_is_no_daemon() -> None:
    with connected() as (client, there):
        there.sendall(b"220 smtp ready\n")
        with pytest.raises(NoDaemon, match="no JSON-RPC server"):
            client.call("daemon/ping")


def test_a_lone_surrogate_is_sent_as_an_escape_so_that_the_daemon_can_refuse_it() -> None:
    with connected() as (client, there):
        there.sendall(line({"id": 1, "result": None}))
        client.call("x", {"text": "\udcff"})
        assert read_line(there)["params"]["text"] == "\udcff"


def test_what_json_cannot_hold_is_refused_before_it_is_sent() -> None:
    with connected() as (client, _), pytest.raises(ValueError, match="not JSON compliant"):
        client.call("x", {"n": float("nan")})


def test_nobody_at_the_socket_is_said_with_its_address(home: Home) -> None:
    path = home.root / "nobody.sock"
    with pytest.raises(NoDaemon, match=r"nobody\.sock: No such file") as caught:
        Client.connect(path)
    assert caught.value.address == str(path)
