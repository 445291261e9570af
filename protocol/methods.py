"""Every method that this build serves, in the order of the contract."""

from __future__ import annotations

from typing import Final

from . import daemon, ledger_feed, ledger_mail, ledger_roles
from .contract import AnyMethod

METHODS: Final[tuple[AnyMethod, ...]] = (
    *daemon.METHODS,
    *ledger_roles.METHODS,
    *ledger_mail.METHODS,
    *ledger_feed.METHODS,
)
BY_NAME: Final[dict[str, AnyMethod]] = {m.name: m for m in METHODS} | {a: m for m in METHODS for a in m.aliases}
"""Also by alias; an alias is the method it stands for."""
CAPABILITIES: Final = ("batch", "daemon", "ledger", "server_requests", "subscribe")
