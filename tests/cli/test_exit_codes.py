"""Every error class ends in the exit code of the contract (daemon 4.3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.daemon.cli.client import ConnectionLost, NoDaemon, RpcFailure, TimedOut
from interlock.daemon.cli.failures import Failed, exit_code, report
from interlock.daemon.places import NotPrivate, PathTooLong
from interlock.protocol.errors import CODES

CONTRACT = {
    -32700: 2,
    -32600: 2,
    -32601: 2,
    -32602: 2,
    -32004: 2,
    -32000: 1,
    -32001: 4,
    -32002: 5,
    -32008: 5,
    -32003: 6,
    -32005: 130,
    -32006: 75,
    -32603: 70,
    -32007: 70,
}


@pytest.mark.parametrize(("number", "expected"), CONTRACT.items())
def test_an_error_number_has_its_exit_code(number: int, expected: int) -> None:
    assert exit_code({"code": number, "message": "", "data": {"retryable": False}}) == expected


@pytest.mark.parametrize("number", CONTRACT)
def test_whatever_may_be_tried_again_is_75(number: int) -> None:
    assert exit_code({"code": number, "data": {"code": "x", "retryable": True}}) == 75


@pytest.mark.parametrize("code", CODES)
def test_every_code_of_the_error_table_has_an_exit_code(code: str) -> None:
    known = CODES[code]
    assert exit_code({"code": known.number, "data": {"code": code, "retryable": known.retryable}}) != 0
    assert known.number in CONTRACT


def test_an_error_that_nobody_knows_is_a_failure_inside() -> None:
    assert exit_code({"code": 1, "message": "?"}) == 70


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (RpcFailure({"code": -32001, "message": "x", "data": {}}), 4),
        (NoDaemon("/s", "refused"), 69),
        (ConnectionLost("/s", "closed"), 69),
        (TimedOut("late"), 124),
        (Failed("no", 3), 3),
        (PathTooLong(Path("/" + "x" * 120)), 2),
        (OSError("disk"), 70),
    ],
)
def test_what_goes_wrong_on_this_side_has_an_exit_code_and_an_error_object(failure: Exception, expected: int) -> None:
    error, code = report(failure)
    assert code == expected
    assert error["message"]
    assert isinstance(error["code"], int)


def test_a_socket_that_cannot_be_trusted_counts_as_no_daemon() -> None:
    assert report(NotPrivate(Path("/tmp/x"), "it is a symbolic link"))[1] == 69
