"""Op ids: one table for all families; the same content answers the first result again (contract daemon 1.6)."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from interlock.lifecycle.refusal import Refusal

from .tx import Snapshot, Tx

FIND: Final = "SELECT method, fingerprint, result FROM ops WHERE op_id = ?"
KEEP: Final = "INSERT INTO ops(op_id, method, fingerprint, result, subject, at_ms) VALUES (?, ?, ?, ?, ?, ?)"

PACKED_BYTES: Final = 4096

_canonical = msgspec.json.Encoder(order="sorted").encode
_encode = msgspec.json.Encoder().encode

R = TypeVar("R", bound=msgspec.Struct)


class Made(NamedTuple, Generic[R]):
    """What a command answers, and what it created that is kept on its own, if anything."""

    result: R
    subject: str | None


def fingerprint(method: str, content: Any, *caller: object) -> bytes:
    """SHA-256 over the method, the canonical JSON of the content and who calls."""
    return sha256(_canonical((method, content, caller))).digest()


def replay(snap: Snapshot, op_id: str, method: str, print_: bytes, result: type[R]) -> R | None:
    """The first result with `replayed: true`, or None when the op id is new. Raises `op_conflict`."""
    row = snap.execute(FIND, (op_id,)).fetchone()
    if row is None:
        return None
    if row[1] != print_:
        raise Refusal("op_conflict", "this op_id was used for something else", method=row[0])
    return msgspec.structs.replace(msgspec.json.decode(_unpacked(row[2]), type=result), replayed=True)


def keep(tx: Tx, op_id: str, method: str, print_: bytes, made: Made[Any], longer_ms: int) -> None:
    """Remember a result under its op id: as long as its subject, else `longer_ms` longer than other op ids."""
    tx.execute(KEEP, (op_id, method, print_, _packed(_encode(made.result)), made.subject, tx.now + longer_ms))


def _packed(result: bytes) -> bytes:
    """A result as it is kept: a large one, as of an item with a long description, compressed. JSON begins with `{`."""
    return zlib.compress(result, 1) if len(result) > PACKED_BYTES else result


def _unpacked(kept: bytes) -> bytes:
    return kept if kept.startswith(b"{") else zlib.decompress(kept)


def once(
    tx: Tx,
    op_id: str | None,
    method: str,
    print_: Callable[[], bytes],
    result: type[R],
    run: Callable[[], tuple[R, str | None]],
    longer_ms: int = 0,
) -> R:
    """Run a command at most once per op id. `run` returns its result and the subject that it created, if any."""
    if op_id is None:
        return run()[0]
    mark = print_()
    earlier = replay(tx, op_id, method, mark, result)
    if earlier is not None:
        return earlier
    made = Made(*run())
    keep(tx, op_id, method, mark, made, longer_ms)
    return made.result
