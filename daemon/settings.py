"""What can be set: one Struct per table of the file (contract daemon 4.2), with defaults and bounds.

A new key is a field, a new family a Struct and a field of Settings: `config` reads the declarations and needs no edit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

# Upper bounds keep sums with the clock inside 64 bit and inside the calendar; none is a limit anybody meets.
Seconds = Annotated[int, Meta(ge=0, le=10**9)]
SomeSeconds = Annotated[int, Meta(ge=1, le=10**9)]
Days = Annotated[int, Meta(ge=14, le=36_500)]


class LedgerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Table `[ledger]` (contract ledger 2.8)."""

    requeue_max_attempts: Annotated[int, Meta(ge=0, le=10**9)] = 16
    requeue_ttl_secs: Seconds = 0
    heartbeat_timeout_ms: Annotated[int, Meta(ge=1000, le=10**12)] = 30_000
    heartbeat_grace_secs: SomeSeconds = 90
    stale_after_secs: SomeSeconds = 600
    stale_watch_secs: Seconds = 60
    ghost_sweep_secs: Seconds = 60
    retention_days: Days = 14
    history_days: Days = 90

    def __post_init__(self) -> None:
        """Refuse values that are sound alone and not together."""
        if self.heartbeat_grace_secs * 1000 < self.heartbeat_timeout_ms:
            raise ValueError(
                f"heartbeat_grace_secs ({self.heartbeat_grace_secs}) is shorter than heartbeat_timeout_ms "
                f"({self.heartbeat_timeout_ms}): a beat is not seen sooner than that"
            )
        if self.history_days < self.retention_days:
            raise ValueError(f"history_days ({self.history_days}) is less than retention_days ({self.retention_days})")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the process runs with: the options at the top, then one table per family.

    A field whose type is a Struct is a table; its name is the table's. `socket` None means that nothing listens.
    """

    state_dir: Path
    socket: Path | None
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    durability: Literal["full", "normal"] = "full"
    idle_exit_seconds: Annotated[Seconds, Meta(description="0 is never")] = msgspec.field(name="idle_exit", default=0)
    operator: Literal["any", "socket"] = "any"
    stdio: bool = False
    ledger: LedgerSettings = msgspec.field(default_factory=LedgerSettings)


MODES: Final = frozenset({"stdio"})
"""Fields that say how this one process serves. Options only: a child that inherits our variables serves its own way."""
