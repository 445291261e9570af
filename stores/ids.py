"""Ids that ascend in time, so that an index keyed by them grows at its end (DESIGN 4.2: what costs is dirty pages)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final

_RANDOM_BITS: Final = 74
_RANDOM: Final = (1 << _RANDOM_BITS) - 1
_LOW: Final = (1 << 62) - 1
_VARIANT: Final = 0b10 << 62


class Ids:
    """Mints UUIDv7 ids (RFC 9562 5.7), strictly ascending within the process. May be used from several threads."""

    def __init__(self, entropy: Callable[[int], bytes] = os.urandom) -> None:
        self._entropy = entropy
        self._lock = threading.Lock()
        self._ms = -1
        self._random = 0
        self._head = ""

    def new(self, prefix: str, now_ms: int) -> str:
        """`<prefix>_<uuid>` of the instant `now_ms`, or the bare uuid for an empty prefix.

        Within one ms, and when `now_ms` is behind the last id, the random part is raised by a random step instead
        (RFC 9562 6.2, method 2); should it overflow, the id borrows from the next ms.
        """
        random = int.from_bytes(self._entropy(10), "big")
        with self._lock:
            if now_ms > self._ms:
                self._at(now_ms, random)
            else:
                self._random += (random & 0xFFFFFFFF) + 1
                if self._random > _RANDOM:
                    self._at(self._ms + 1, random)
            head, low = self._head, self._random
        tail = _VARIANT | low & _LOW
        uuid = f"{head}{low >> 62:03x}-{tail >> 48:04x}-{tail & 0xFFFFFFFFFFFF:012x}"
        return f"{prefix}_{uuid}" if prefix else uuid

    def _at(self, ms: int, random: int) -> None:
        """Start a new ms. The top bit of the random part is left clear: room to ascend into."""
        self._ms = ms
        self._random = random & (_RANDOM >> 1)
        self._head = f"{ms >> 16:08x}-{ms & 0xFFFF:04x}-7"
