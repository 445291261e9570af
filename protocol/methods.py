"""Every method that this build serves, in the order of the contract."""

from __future__ import annotations

from typing import Final

from . import (
    daemon,
    ledger_feed,
    ledger_mail,
    ledger_roles,
    workgraph_attention,
    workgraph_goals,
    workgraph_graph,
    workgraph_items,
    workgraph_members,
)
from .contract import AnyMethod

METHODS: Final[tuple[AnyMethod, ...]] = (
    *daemon.METHODS,
    *ledger_roles.METHODS,
    *ledger_mail.METHODS,
    *ledger_feed.METHODS,
    *workgraph_items.METHODS,
    *workgraph_graph.METHODS,
    *workgraph_goals.METHODS,
    *workgraph_attention.METHODS,
    *workgraph_members.METHODS,
)
BY_NAME: Final[dict[str, AnyMethod]] = {m.name: m for m in METHODS} | {a: m for m in METHODS for a in m.aliases}
"""Also by alias; an alias is the method it stands for."""
CAPABILITIES: Final = ("batch", "daemon", "ledger", "server_requests", "subscribe", "workgraph")
