"""What an external session runtime says about sessions, and for how long it is believed (contract workgraph 5.1).

A runtime is asked only where the store has no answer, before anything is locked. This module decides; who waits for the
runtime's answer is elsewhere.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable
from typing import NamedTuple, Protocol

from interlock.lifecycle.refusal import Refusal


class MemberId(NamedTuple):
    """Which member: its mob, and its name there."""

    mob_id: str
    identity: str


class Runtime(Protocol):
    """An external session runtime of one realm."""

    def member_of(self, realm_id: str, session_id: str) -> Awaitable[MemberId | None]:
        """The member that a session (by its canonical id) belongs to, None where it belongs to none.

        May raise anything: whatever it raises is a failed read.
        """


class Answers:
    """Positive answers, each for `keep_ms` and no more than `entries` of them: the oldest goes first.

    A negative answer is never kept: a session that has just become a member's must be seen as that member's. The time
    is handed in, in ms of a clock that does not go back.
    """

    def __init__(self, keep_ms: int, entries: int) -> None:
        self._keep_ms = keep_ms
        self._entries = entries
        self._kept: OrderedDict[tuple[str, str], tuple[int, MemberId]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, realm_id: str, session_id: str, now_ms: int) -> MemberId | None:
        """What was answered less than `keep_ms` ago, if anything was."""
        found = self._kept.get((realm_id, session_id))
        if found is None:
            return None
        until, member = found
        if now_ms >= until:
            del self._kept[realm_id, session_id]
            return None
        return member

    def keep(self, realm_id: str, session_id: str, member: MemberId, now_ms: int) -> None:
        """Remember an answer that came now."""
        key = (realm_id, session_id)
        self._kept.pop(key, None)  # so that the order stays that of age
        self._kept[key] = (now_ms + self._keep_ms, member)
        while len(self._kept) > self._entries:
            self._kept.popitem(last=False)

    def forget(self, realm_id: str) -> None:
        """Believe nothing any more that was said of sessions of this realm."""
        for key in [key for key in self._kept if key[0] == realm_id]:
            del self._kept[key]


def unreadable(realm_id: str, session_id: str, error: BaseException) -> Refusal:
    """The refusal where a runtime could not be read: nobody may guess whose session it is."""
    why = error.message if isinstance(error, Refusal) else type(error).__name__
    return Refusal(
        "unavailable",
        f"the runtime of realm {realm_id} did not say whose session {session_id} is ({why}); nothing was written",
        realm_id=realm_id,
        session_id=session_id,
    )
