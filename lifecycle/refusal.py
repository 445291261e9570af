"""The one exception that says a rule refused."""

from __future__ import annotations


class Refusal(Exception):
    """A request was refused. Nothing was changed.

    `code` is a string of `interlock.protocol.errors.CODES`, which knows its number and whether a retry can help;
    `message` is one sentence a person can act on; `data` is the state the caller needs (DESIGN 3.3).
    """

    def __init__(self, code: str, message: str, **data: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def __repr__(self) -> str:
        return f"Refusal({self.code!r}, {self.message!r})"
