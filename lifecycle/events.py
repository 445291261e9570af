"""The event feed's record (contract ledger 1.6)."""

from __future__ import annotations

import msgspec

from .types import Id, Seq, Time


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of the feed: what changed, about what, for which role. `data` is JSON text as stored."""

    seq: Seq
    family: str
    type: str
    at: Time
    subject: Id
    role: str | None = None
    realm_id: str | None = None
    namespace: str | None = None
    data: msgspec.Raw
