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


ABSENT: Final = "absent"
EdgeKey = tuple[str, str, str]
"""Kind, from, to."""


@dataclass
class Deed:
    """A write of the work graph: its result when it was acknowledged, the code when it was refused, else no answer."""

    method: str
    params: dict[str, Any]
    result: dict[str, Any] | None = None
    refused: str | None = None


@dataclass
class Deeds:
    """The writes of the work graph, and what those that were acknowledged say of the store."""

    all: list[Deed] = field(default_factory=list)
    items: dict[str, dict[str, Any]] = field(default_factory=dict)
    bindings: dict[str, dict[str, Any]] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    claims: dict[tuple[str, int], str] = field(default_factory=dict)
    """Who was given a fence of an item."""
    edges: dict[EdgeKey, str | None] = field(default_factory=dict)
    """`on_failure` of each that is there (empty where the kind has none), `ABSENT` where it is not, None if nobody
    knows."""
    linking: threading.Lock = field(default_factory=threading.Lock)
    """Held over a link or unlink: of two that cross, the order of the answers would not tell which came last."""


@dataclass
class Facts:
    """All that was acknowledged since the state directory was made. Filled by several threads."""

    sent: list[Sent] = field(default_factory=list)
    settled: dict[str, str] = field(default_factory=dict)
    uncertain: dict[str, str] = field(default_factory=dict)
    work: Deeds = field(default_factory=Deeds)
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
