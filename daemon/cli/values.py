"""JSON values on the command line: as they stand, from a file (`@file`), or from standard input (`-`)."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import click


class JsonValue(click.ParamType[Any]):
    """A JSON value. `or_text`: what does not begin with a brace is text, and stands for itself."""

    def __init__(self, *, or_text: bool = False) -> None:
        self.or_text = or_text
        self.name = "TEXT|JSON" if or_text else "JSON"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The value. Fails as a usage error where it is none."""
        if not isinstance(value, str) or (self.or_text and not value.startswith("{")):
            return value
        try:
            return parse_json(_source(value))
        except (OSError, ValueError) as error:
            self.fail(f"no JSON value: {error}", param, ctx)


def parse_json(text: str) -> Any:
    """JSON text as a value. Raises ValueError, also for NaN and for numbers beyond double range, which JSON has not."""
    return json.loads(text, parse_constant=_no_number, parse_float=_finite)


def read_stdin() -> str:
    """All of standard input. Raises ValueError where it is no UTF-8."""
    return sys.stdin.buffer.read().decode()


def _source(value: str) -> str:
    if value == "-":
        return read_stdin()
    return Path(value[1:]).read_text("utf-8") if value.startswith("@") else value


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")


def _finite(word: str) -> float:
    number = float(word)
    return number if math.isfinite(number) else _no_number(word)
