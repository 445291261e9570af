"""Ids that ascend in time, so that an index keyed by them grows at its end (DESIGN 4.2: what costs is dirty pages)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final

_LOW_BITS: Final = 62
_VARIANT: Final = 0b10 << _LOW_BITS
_STEPS: Final = 64


class Ids:
    """Mints UUIDv7 ids (RFC 9562 5.7), strictly ascending within the process. May be used from several threads.

    Within one ms, and when the clock is behind the last id, the 62 low bits are raised by a random step of up to 2^32
    (RFC 9562 6.2, method 2). They begin below 2^61, so that they overflow, into the next ms, after 2^29 ids at least.
    """

    def __init__(self, entropy: Callable[[int], bytes] = os.urandom) -> None:
        self._entropy = entropy
        self._lock = threading.Lock()
        self._ms = -1
        self._head = ""
        self._low = 0
        self._steps: list[int] = []

    def new(self, prefix: str, now_ms: int) -> str:
        """`<prefix>_<uuid>` of the instant `now_ms`, or the bare uuid for an empty prefix."""
        with self._lock:
            if now_ms > self._ms:
                self._begin(now_ms)
            else:
                if not self._steps:
                    self._steps.extend(memoryview(self._entropy(4 * _STEPS)).cast("I"))
                self._low += self._steps.pop() + 1
                if self._low >> _LOW_BITS:
                    self._begin(self._ms + 1)
            head, tail = self._head, f"{_VARIANT | self._low:016x}"
        if prefix:
            return f"{prefix}_{head}{tail[:4]}-{tail[4:]}"
        return f"{head}{tail[:4]}-{tail[4:]}"

    def _begin(self, ms: int) -> None:
        random = int.from_bytes(self._entropy(10), "big")
        self._ms = ms
        self._low = random >> 16 & (1 << _LOW_BITS - 1) - 1
        self._head = f"{ms >> 16:08x}-{ms & 0xFFFF:04x}-7{random & 0xFFF:03x}-"
