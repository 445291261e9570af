"""Params: from the bytes of a request to a checked struct, or to the refusal that the contract says (daemon 1.1).

Quick where all is well: msgspec decodes, one compiled function looks at the rules. Anything that is not surely good is
looked at again, slowly and exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast

import msgspec

from interlock.lifecycle.refusal import Refusal

from .checks import Check, quick_check
from .diagnose import RANK, Problem, first_problem, is_secret
from .envelope import bad_value, suspicious
from .example import corrected
from .pointers import label, path_of, pointer
from .shapes import shape_of

P = TypeVar("P", bound=msgspec.Struct)

META: Final = "_meta"
"""An object that every params may have, for whoever is in between; it is not looked at."""
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_MENDED_BYTES: Final = 65536
"""No corrected example is made of more: it would be too large to show."""
_BACKSLASH: Final = ord("\\")
_DELETE: Final = 0x7F


class _Answer(NamedTuple):
    """What slow decoding found: `value`, or what is wrong with `plain`."""

    value: Any = None
    problem: Problem | None = None
    plain: object = None


class Decoder(Generic[P]):
    """Decodes the params of one type; build it once. Safe to use from several threads."""

    def __init__(self, params_type: type[P]) -> None:
        self._type = params_type
        # Made by the first request of this method, so that starting does not wait for all of them.
        self._quick: tuple[Callable[[bytes], P], Check] | None = None

    def decode(self, raw: bytes) -> P:
        """The params in `raw`, which is JSON. Raises `Refusal`."""
        decode, check = self._quick or self._compile()
        # ASCII, no escape, no DEL: then no text has a control character, and only a long integer can be suspicious. At
        # integers the check looks itself.
        plain = raw.isascii() and _BACKSLASH not in raw and _DELETE not in raw
        if plain or not suspicious(raw):
            try:
                params = decode(raw)
            except msgspec.DecodeError:
                return self._decode_slowly(raw)
            if check(params, raw, plain):
                return params
        return self._decode_slowly(raw)

    def _compile(self) -> tuple[Callable[[bytes], P], Check]:
        self._quick = msgspec.json.Decoder(self._type).decode, quick_check(shape_of(self._type))
        return self._quick

    def _decode_slowly(self, raw: bytes) -> P:
        if suspicious(raw) and (bad := bad_value(raw)) is not None:
            raise _forbidden(*bad)
        if shape_of(self._type).closed and (rest := _without_meta(raw)) is not None:
            return self.decode(rest)
        found = self._examine(raw)
        if found.problem is None:
            return cast(P, found.value)
        problem = found.problem
        data = {"path": pointer(problem.path), **problem.data}
        if problem.code == RANK[0] and len(raw) <= _MENDED_BYTES:
            example = corrected(found.plain, problem, self._is_clean)
            data |= {} if example is None else {"example": example}
        raise Refusal(problem.code, problem.message, **data)

    def _examine(self, raw: bytes) -> _Answer:
        """Decode what has no bad values and no `_meta` in it, or say what is wrong first."""
        plain = msgspec.json.decode(raw)
        problem = first_problem(shape_of(self._type), plain)
        if problem is not None:
            return _Answer(problem=problem, plain=plain)
        try:
            return _Answer(value=msgspec.json.decode(raw, type=self._type))
        except msgspec.ValidationError as error:
            return _Answer(problem=_unforeseen(str(error)), plain=plain)

    def _is_clean(self, raw: bytes) -> bool:
        return self._examine(raw).problem is None


def _without_meta(raw: bytes) -> bytes | None:
    """The same params without `_meta`; None when there is none. Refused when it is no object."""
    try:
        members = _MEMBERS.decode(raw)
    except msgspec.ValidationError:
        return None
    meta = members.pop(META, None)
    if meta is None:
        return None
    if bytes(meta)[:1] != b"{":
        raise Refusal("invalid_params", f"`{META}` must be an object", path=f"/{META}", expected="an object")
    return msgspec.json.encode(members)


def _forbidden(path: str, what: str) -> Refusal:
    message = f"`{path or 'params'}` may not hold {what}"
    return Refusal("invalid_params", message, path=path, expected=f"a value without {what}")


def _unforeseen(message: str) -> Problem:
    """What only msgspec knows about: a constraint of a type that is no rule."""
    path = path_of(message)
    secret = any(is_secret(str(token)) for token in path)
    reason = "something else belongs here" if secret else message.partition(" - at `$")[0]
    return Problem(RANK[0], path, f"`{label(path)}` is not valid: {reason}", {"expected": reason})


@cache
def _decoder(params_type: type[msgspec.Struct]) -> Decoder[Any]:
    return Decoder(params_type)


def plain_decode(params_type: type[P], value: object) -> P:
    """As `Decoder.decode`, for params that are Python values already. Raises `Refusal`."""
    return cast(P, _decoder(params_type).decode(msgspec.json.encode(value)))
