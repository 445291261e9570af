"""What can go wrong in a verb, and the exit code it ends with (contract daemon 4.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .client import NoDaemon, RpcFailure, TimedOut

NEGATIVE: Final = 1
NOT_RUNNING: Final = 3
UNREACHABLE: Final = 69
INTERNAL: Final = 70
TRY_AGAIN: Final = 75
TIMED_OUT: Final = 124
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141
"""What a shell reports for a program that SIGPIPE ended: 128 + 13."""

_BY_NUMBER: Final = {
    -32700: 2,
    -32600: 2,
    -32601: 2,
    -32602: 2,
    -32603: 70,
    -32000: 1,
    -32001: 4,
    -32002: 5,
    -32003: 6,
    -32004: 2,
    -32005: 130,
    -32006: 75,
    -32007: 70,
    -32008: 5,
}


class Failed(Exception):
    """A verb cannot go on. `message` is for people, `exit_code` for scripts, `data` for both."""

    def __init__(self, message: str, exit_code: int, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.data = data


def exit_code(error: Mapping[str, Any]) -> int:
    """The exit code of an error object; whatever may be tried again is 75."""
    data = error.get("data")
    if isinstance(data, Mapping) and data.get("retryable") is True:
        return TRY_AGAIN
    return _BY_NUMBER.get(error.get("code", 0), INTERNAL)


def report(failure: BaseException) -> tuple[dict[str, Any], int]:
    """The error object that describes `failure`, and the exit code."""
    match failure:
        case RpcFailure():
            return failure.error, exit_code(failure.error)
        case NoDaemon():
            return _local("unavailable", str(failure), socket=failure.address, remedy="interlock start"), UNREACHABLE
        case TimedOut():
            return _local("unavailable", str(failure)), TIMED_OUT
        case Failed():
            return _local("unavailable", failure.message, **failure.data), failure.exit_code
        case _:
            return _local("unavailable", str(failure)), int(getattr(failure, "exit_code", INTERNAL))


def _local(code: str, message: str, **data: Any) -> dict[str, Any]:
    """An error object of our own: the daemon was not reached, so it is the class for that."""
    return {"code": -32007, "message": message, "data": {"code": code, "retryable": False, **data}}
