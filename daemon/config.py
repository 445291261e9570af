"""Settings from default, file, environment and options, each with where it came from (contract daemon 4.2).

Generic: which settings there are is for `settings`, which options the command line has for `arguments`.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import Meta
from msgspec.structs import FieldInfo, fields

from . import places
from .places import StartError
from .settings import MODES, LedgerSettings, Settings

__all__ = ["ConfigError", "Given", "LedgerSettings", "Loaded", "Settings", "dump", "load", "nearest", "resolve"]

PREFIX: Final = "INTERLOCK_"


class ConfigError(StartError):
    """A setting, a variable, an option or the file is not what it can be. The message names it and the way out."""

    exit_code = 2


class Given(NamedTuple):
    """One value as it was written. `where` names its place for a person, `text` says that it came without a type."""

    value: object
    where: str
    text: bool


class Loaded(NamedTuple):
    """The settings, and per dotted key (`log_level`, `ledger.retention_days`) where its value came from."""

    settings: Settings
    origins: dict[str, str]


def load(argv: Sequence[str], environ: Mapping[str, str]) -> Loaded:
    """The settings of `interlockd`; `argv` is without the program's name.

    Raises ConfigError, and SystemExit(0) after printing what was asked (`--help`, `--version`, `--print-config`).
    """
    from .arguments import parse  # argparse is dear, and clients that resolve the same places do without it

    asked = parse(argv)
    loaded = resolve(asked.options, environ, asked.config)
    if asked.print_config:
        sys.stdout.write(dump(loaded))
        raise SystemExit(0)
    return loaded


def resolve(options: Mapping[str, Given], environ: Mapping[str, str], config: str | None = None) -> Loaded:
    """Default, then the file, then `INTERLOCK_*`, then `options` (by dotted key). Raises ConfigError.

    `config` is the file that an option named. Nothing is made: a path too long is refused before anything is touched.
    """
    given = {**_from_file(environ, config), **_from_environ(environ), **options}
    values = {key: _typed(key, value, environ) for key, value in given.items()}
    origins = {key: value.where for key, value in given.items()}
    _place(values, environ)
    built: dict[str, Any] = {name: _build_table(name, table, values) for name, table in TABLES.items()}
    built |= {field.name: values[field.encode_name] for field in fields(Settings) if field.encode_name in values}
    return Loaded(Settings(**built), {key: origins.get(key, "default") for key in _KEYS})


def dump(loaded: Loaded) -> str:
    """Every value as the file would have it, each with its origin, so that the output can be used as a file."""
    lines: list[tuple[str, str]] = []
    for name, table in ("", loaded.settings), *((name, getattr(loaded.settings, name)) for name in TABLES):
        lines += [(f"[{name}]", "table")] if name else []
        for key, value in _written(table):
            lines.append((f"{key} = {value}", loaded.origins[f"{name}.{key}" if name else key]))
    width = max(len(line) for line, _ in lines)
    return "".join(f"{line.ljust(width)}  # {origin}\n" for line, origin in lines)


def nearest(word: str, known: list[str]) -> str:
    """A clause that names what was probably meant, or what there is."""
    import difflib  # only a refusal needs it

    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"there is {', '.join(known)}"


def _written(table: msgspec.Struct) -> Iterator[tuple[str, str]]:
    for field in fields(table):
        value = getattr(table, field.name)
        if field.name in MODES or isinstance(value, msgspec.Struct):
            continue
        if value is None:
            value = "none"
        yield field.encode_name, msgspec.json.encode(str(value) if isinstance(value, Path) else value).decode()


def _tables() -> dict[str, type[msgspec.Struct]]:
    return {f.name: f.type for f in fields(Settings) if isinstance(f.type, type) and issubclass(f.type, msgspec.Struct)}


def _declared() -> dict[str, FieldInfo]:
    top = {f.encode_name: f for f in fields(Settings) if f.name not in TABLES and f.name not in MODES}
    inner = {f"{name}.{f.encode_name}": f for name, table in TABLES.items() for f in fields(table)}
    return top | inner


TABLES: Final = _tables()
_KEYS: Final = _declared()


def _keys_of(table: str) -> list[str]:
    return [key.rpartition(".")[2] for key in _KEYS if key.rpartition(".")[0] == table]


def _from_file(environ: Mapping[str, str], named: str | None) -> dict[str, Given]:
    named = environ.get("INTERLOCK_CONFIG") or None if named is None else named
    path = places.config_file(environ) if named is None else places.absolute(named, environ)
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError as error:
        if named is None:
            return {}
        raise ConfigError(f"configuration {path} does not exist") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"configuration {path} cannot be read: {error}") from error
    found: dict[str, Given] = {}
    for key, given in _flatten(_parse(text, path), path):
        if key in found:
            raise ConfigError(f"{path}: {key} is there twice, with - and with _")
        found[key] = given
    return found


def _parse(text: str, path: Path) -> dict[str, Any]:
    import tomllib  # most processes have no file

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"configuration {path} is no TOML: {error}") from error


def _flatten(document: dict[str, Any], path: Path) -> Iterator[tuple[str, Given]]:
    # Options are written with -, keys with _: whoever copies one into the file need not know.
    for name, value in document.items():
        if name not in TABLES:
            yield _known("", name.replace("-", "_"), f"{path}: key {name}"), Given(value, f"file {path}", text=False)
        elif not isinstance(value, dict):
            raise ConfigError(f"{path}: {name} is a table, write [{name}]")
        else:
            for key, inner in value.items():
                known = _known(name, key.replace("-", "_"), f"{path}: key {name}.{key}")
                yield known, Given(inner, f"file {path}", text=False)


def _from_environ(environ: Mapping[str, str]) -> dict[str, Given]:
    """Variables that are empty count as absent. Those of nobody's table may be somebody else's and are left alone."""
    found: dict[str, Given] = {}
    for variable, value in environ.items():
        name = variable.removeprefix(PREFIX)
        if name == variable or not value:
            continue
        table = next((table for table in TABLES if name.startswith(f"{table.upper()}_")), "")
        key = name[len(table) + 1 :] if table else name
        if table:
            found[_known(table, key.lower(), f"variable {variable}", upper=True)] = _variable(variable, value)
        elif key.lower() in _keys_of(""):
            found[key.lower()] = _variable(variable, value)
    return found


def _variable(variable: str, value: str) -> Given:
    return Given(value, f"environment {variable}", text=True)


def _known(table: str, key: str, what: str, *, upper: bool = False) -> str:
    known = _keys_of(table)
    if key in known:
        return f"{table}.{key}" if table else key
    choices = [f"{PREFIX}{table}_{name}".upper() for name in known] if upper else [*known, *(() if table else TABLES)]
    word = f"{PREFIX}{table}_{key}".upper() if upper else key
    raise ConfigError(f"{what} is unknown: {nearest(word, choices)}")


def _typed(key: str, given: Given, environ: Mapping[str, str]) -> object:
    """The value in its field's type. Text is read as its type asks; what came with a type must have the right one."""
    kind = _KEYS[key].type if key in _KEYS else bool
    try:
        if Path in _members(kind):
            return _path(key, given.value, environ)
        return msgspec.convert(given.value, kind, strict=not given.text)
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"{given.where}: {key} cannot be {given.value!r}: {_expected(kind, error)}") from error


def _path(key: str, value: object, environ: Mapping[str, str]) -> Path | None:
    if not isinstance(value, str):
        raise ValueError("expected a path as text")
    if key == "socket" and value == "none":
        return None
    if not value or "\0" in value:
        raise ValueError("expected a path")
    return places.absolute(value, environ)


def _members(kind: object) -> tuple[object, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _expected(kind: object, error: Exception) -> str:
    if get_origin(kind) is Literal:
        return f"expected one of {', '.join(get_args(kind))}"
    bounds = [
        m for m in getattr(kind, "__metadata__", ()) if isinstance(m, Meta) and m.ge is not None and m.le is not None
    ]
    return f"expected a whole number from {bounds[0].ge} to {bounds[0].le}" if bounds else str(error).lower()


def _place(values: dict[str, object], environ: Mapping[str, str]) -> None:
    """The two places that have no constant default, and what both must be."""
    state = Path(str(values.setdefault("state_dir", places.state_dir(environ))))
    try:
        if "socket" not in values:
            values["socket"] = places.socket_path(state, environ)
        elif values["socket"] is not None:
            places.check_socket_length(Path(str(values["socket"])))
    except places.PathTooLong as error:
        raise ConfigError(str(error)) from error
    for path in state, values["socket"]:
        try:
            os.fsencode(str(path)).decode("utf-8")
        except UnicodeError as error:
            raise ConfigError(f"path {path} is not UTF-8, and answers that name it must be") from error


def _build_table(name: str, table: type[msgspec.Struct], values: Mapping[str, object]) -> msgspec.Struct:
    own = {f.name: values[f"{name}.{f.encode_name}"] for f in fields(table) if f"{name}.{f.encode_name}" in values}
    try:
        return table(**own)
    except ValueError as error:
        raise ConfigError(f"[{name}]: {error}") from error
