"""`docs/protocol.md`: the reference of the protocol, written from the declarations that the daemon runs on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, assert_never

import msgspec

from interlock.lifecycle.types import Rule

from .contract import COMMON_ERRORS, AnyMethod
from .errors import CODES
from .ledger_feed import EVENT_TYPES
from .limits import LIMITS
from .openrpc import kind_of
from .rules import UNBOUNDED, entries, span
from .shapes import Field, Items, Leaf, Map, Object, Option, Shape, objects_in, shape_of

_HEAD: Final = """\
# Protocol reference

<!-- Written by scripts/docs from the declarations in protocol/. Change those, not this. -->

JSON-RPC 2.0 over stdio or the Unix socket, one message per line or with `Content-Length`; `params` is an object.
`daemon/discover` answers the same as this page for programs, with JSON schemas.

- **Kind**: a `read` sees one snapshot of the store, a `write` runs in one transaction, an `async` method waits or needs
  no store; `write+gate` asks for admission first.
- **Batch**: whether the method can be a step of `daemon/batch`.
- **Idempotent by**: `nature`: sending it again changes nothing more; `op_id`: the same `op_id` with the same content
  answers the first result, with `replayed: true`; `cas`: an expected revision.
- Unknown fields are refused with the nearest known name; `_meta`, an object, is accepted everywhere and not looked at.
  In results optional and empty fields are left out.
"""
_TYPES: Final = """\
| type | on the wire |
| --- | --- |
| id | string, trimmed, non-empty, without control characters |
| name | as id, without white space |
| principal | string `role` or `role#session` |
| text | string of UTF-8 without NUL, measured in bytes |
| time | string, RFC 3339; any offset is accepted, what is answered is UTC with milliseconds and `Z` |
| integer | within signed 64 bit |
| json | any JSON value, measured in bytes of its compact form |
"""
_LEAVES: Final = {"any": "json", "bool": "bool", "int": "integer", "float": "number", "str": "text"}


def reference(methods: Sequence[AnyMethod]) -> str:
    """The text of `docs/protocol.md`, in Markdown: methods by family, records, errors, limits and event types."""
    sections = [_HEAD, "## Types\n", _TYPES]
    for family, members in groupby(methods, key=lambda method: method.family):
        sections += [f"## Methods of `{family}`\n", *map(_method, members)]
    sections += ["## Records\n", *map(_record, _records(methods))]
    sections += ["## Errors\n", _errors(), "## Limits\n", _limits(), "## Event types\n", _events()]
    return "\n".join(sections)


def _method(method: AnyMethod) -> str:
    params, result = shape_of(method.params), shape_of(method.result)
    facts = [
        f"kind `{kind_of(method)}`",
        f"batch {'yes' if method.batch else 'no'}",
        f"idempotent by {method.idempotent}",
    ]
    facts += ["operator only"] if method.operator_only else []
    facts += [f"alias `{alias}`" for alias in method.aliases]
    parts = [f"### `{method.name}`\n", f"{method.summary}. {_capitalised(' · '.join(facts))}.\n"]
    if params.fields:
        parts += [f"Params: {_doc(params.cls)}", _params(params)]
    else:
        parts.append("No params.\n" if params.closed else f"Params: {_doc(params.cls)}")
    parts += [f"Result: {_doc(result.cls)}", _fields(result)]
    parts.append(_errors_of(method))
    return "\n".join(parts)


def _params(params: Object) -> str:
    rows = ((f"`{f.name}`", _type(f.shape), _default(f), _rule(f.shape)) for f in params.fields.values())
    return _table(("param", "type", "default", "rule"), rows)


def _fields(record: Object) -> str:
    rows = ((f"`{f.name}`{'' if f.required else '?'}", _type(f.shape), _rule(f.shape)) for f in record.fields.values())
    return _table(("field", "type", "rule"), rows)


def _errors_of(method: AnyMethod) -> str:
    rows = ((f"`{code}`", str(CODES[code].number), CODES[code].meaning) for code in method.errors)
    own = _table(("error", "number", "meaning"), rows) if method.errors else ""
    return f"{own}\nAnd those of every method, see [errors](#errors).\n" if own else "Errors: those of every method.\n"


def _records(methods: Iterable[AnyMethod]) -> list[Object]:
    """What params and results hold, by name; they themselves are with their methods."""
    outer = {cls for method in methods for cls in (method.params, method.result)}
    inner = objects_in(*map(shape_of, sorted(outer, key=lambda cls: cls.__name__)))
    return sorted((option for cls, option in inner.items() if cls not in outer), key=lambda option: option.cls.__name__)


def _record(record: Object) -> str:
    return "\n".join((f"### {record.cls.__name__}\n", _doc(record.cls), _fields(record)))


def _errors() -> str:
    common = f"Every method can answer {_code(COMMON_ERRORS)}.\n"
    rows = (
        (f"`{name}`", str(code.number), "yes" if code.retryable else "", code.meaning) for name, code in CODES.items()
    )
    return f"{common}\n{_table(('code', 'number', 'retryable', 'meaning'), rows)}"


def _limits() -> str:
    return _table(("name", "value"), ((f"`{name}`", str(value)) for name, value in LIMITS.items()))


def _events() -> str:
    return _table(("family", "types"), ((f"`{family}`", _code(types)) for family, types in EVENT_TYPES.items()))


def _type(shape: Shape) -> str:
    return " or ".join(map(_type_of, shape.options))


def _type_of(option: Option) -> str:
    match option:
        case Leaf(words=words) if words:
            return _code(words)
        case Leaf(rule=rule) if rule and rule.kind not in ("int", "limit"):
            return rule.kind
        case Leaf():
            return _LEAVES[option.type]
        case Items():
            return f"array of {_type(option.item)}"
        case Map(rule=rule) if rule and rule.kind == "json":
            return "json object"
        case Map():
            return f"map of {_type(option.key)} to {_type(option.value)}"
        case Object():
            return f"[{option.cls.__name__}](#{option.cls.__name__.lower()})"
        case _:
            assert_never(option)


def _default(field: Field) -> str:
    if field.required:
        return "**required**"
    if field.default is None:
        return ""
    if field.default is msgspec.UNSET:
        return "kept; `null` clears" if field.shape.nullable else "kept"
    return f"`{json.dumps(msgspec.to_builtins(field.default))}`"


def _rule(shape: Shape) -> str:
    return "; ".join(dict.fromkeys(filter(None, map(_rule_of, shape.options))))


def _rule_of(option: Option) -> str:
    own = _bounds(option.rule) if option.rule else ""
    match option:
        case Leaf() | Object():
            return own
        case Items():
            return _joined(own, ("each", _rule(option.item)))
        case Map():
            return _joined(own, ("keys", _rule(option.key)), ("values", _rule(option.value)))
        case _:
            assert_never(option)


def _joined(own: str, *inner: tuple[str, str]) -> str:
    return "; ".join(filter(None, (own, *(f"{word} {rule}" for word, rule in inner if rule))))


def _bounds(rule: Rule) -> str:
    """The bounds alone: the type beside them says the rest."""
    if rule.kind == "list":
        return entries(rule)
    if rule.kind in ("int", "limit"):
        return span(rule)
    if rule.max == UNBOUNDED:
        return ""
    return f"{rule.min} to {rule.max} bytes" if rule.min else f"at most {rule.max} bytes"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(_row(cells) for cells in (heads, ["---"] * len(heads), *rows))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _doc(cls: type) -> str:
    return f"{' '.join((cls.__doc__ or '').split())}\n"


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]
