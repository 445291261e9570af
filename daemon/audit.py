"""What must be in the log whatever becomes of the client: a binding that was moved by force (contract workgraph 8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from interlock.lifecycle.events import Event

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class _Forced(msgspec.Struct, frozen=True):
    """What of the event's data is told."""

    item_id: str
    target_key: str
    previous_binding_id: str | None = None
    break_glass: dict[str, Any] | None = None


_decode: Final = msgspec.json.Decoder(_Forced).decode


def audit(log: FilteringBoundLogger, events: Iterable[Event]) -> None:
    """Warn of every break glass among the events of one commit. They come here once, when they are sure."""
    for event in events:
        if event.type == "attention_created" and b'"break_glass"' in bytes(event.data):
            data = _decode(event.data)
            if data.break_glass is not None:
                log.warning(
                    "break_glass",
                    **data.break_glass,
                    binding_id=event.subject,
                    previous_binding_id=data.previous_binding_id,
                    item_id=data.item_id,
                    target_key=data.target_key,
                )
