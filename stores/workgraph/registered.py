"""Which sessions a caller registered, so that no external runtime need be asked for them (contract workgraph 5.1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..tx import Snapshot

REGISTERED: Final = "SELECT 1 FROM member_sessions WHERE session_id = ? AND source = 'registered'"


def unregistered(snap: Snapshot, session_ids: Iterable[str]) -> set[str]:
    """Those of the sessions that no caller registered. What a runtime said earlier comes after what it says now."""
    return {found for found in session_ids if snap.execute(REGISTERED, (found,)).fetchone() is None}
