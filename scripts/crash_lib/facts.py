"""What the clients were told. It is what the store must still know after a crash."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

ROLES: Final = ("red", "green")
SENDER: Final = "sender"
"""The role of the clients that send attached; the others send as the operator."""


@dataclass
class Sent:
    """One send: who sent it (None: the operator), with which params, and the message that was acknowledged."""

    role: str | None
    params: dict[str, Any]
    msg_id: str | None = None


@dataclass
class Facts:
    """All that was acknowledged since the state directory was made. Filled by several threads."""

    sent: list[Sent] = field(default_factory=list)
    settled: dict[str, str] = field(default_factory=dict)
    uncertain: dict[str, str] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def violated(self, what: str) -> None:
        """A promise was broken."""
        with self.lock:
            self.violations.append(what)

    def count(self, name: str, n: int = 1) -> None:
        """Add to a number of the summary."""
        with self.lock:
            self.counts[name] += n
