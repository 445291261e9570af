"""What a verb prints: JSON for programs, text and tables for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from .settings import Settings

_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
# Separators of lines, and marks that turn the direction of what follows them on the screen.
_MARKS: Final = {code: f"\\u{code:04x}" for code in (0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_SHOWN: Final = _CONTROLS | _MARKS


class PipeClosed(Exception):
    """Whoever read the output has seen enough. Not an OSError: click would take that for its own affair."""


def plain(value: object) -> str:
    """Text that is safe on a terminal: what agents wrote may hold control sequences, so they are shown, not obeyed."""
    return str(value).translate(_SHOWN)


def one_line(value: object) -> str:
    """As `plain`, on one line."""
    return plain(value).replace("\n", "\\n").replace("\t", "\\t")


def write(text: str) -> None:
    """One piece of output, in UTF-8 whatever the locale says. Raises PipeClosed."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError as error:
        raise PipeClosed from error


def as_json(value: Any, *, indent: bool) -> str:
    """`value` as JSON text, on one line or for people."""
    if indent:
        return json.dumps(value, ensure_ascii=False, indent=2)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def show_json(value: Any) -> None:
    """One JSON value on stdout: one line for a program, indented on a terminal."""
    write(as_json(value, indent=sys.stdout.isatty()))


def show(settings: Settings, value: Any, human: Callable[[], str] | None = None) -> None:
    """A result: JSON for a program, else what `human` makes of it, else a table."""
    if settings.quiet:
        return
    if settings.as_json:
        show_json(value)
    elif human is not None:
        write(human())
    else:
        from .tables import show_table  # rich is dear, and only people need it

        show_table(value, color=settings.color)


def show_error(error: Mapping[str, Any], *, json_wanted: bool) -> None:
    """An error object on stderr: itself for a program, else its message and what it knows beside."""
    text = as_json(error, indent=False) if json_wanted else "\n".join(_lines(error))
    sys.stderr.flush()
    sys.stderr.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
    sys.stderr.buffer.flush()


def _lines(error: Mapping[str, Any]) -> list[str]:
    data = error.get("data")
    known = dict(data) if isinstance(data, Mapping) else {}
    code, retryable = known.pop("code", None), known.pop("retryable", False)
    lines = [f"error: {plain(error.get('message', ''))}"]
    if code is not None:
        lines.append(f"  code: {plain(code)}" + (" (try again)" if retryable else ""))
    for name, value in known.items():
        shown = value if isinstance(value, str) else as_json(value, indent=False)
        lines.append(f"  {one_line(name.replace('_', ' '))}: {one_line(shown)}")
    return lines
