"""Which families this build has, told without importing a declaration."""

from __future__ import annotations

from pkgutil import iter_modules
from typing import Final

from interlock import protocol

FAMILIES: Final[dict[str, str]] = {
    "ledger": "Mail between roles, roles, faults, the event feed.",
    "workgraph": "What is to be done, and who attends to it.",
    "forked": "Forks of sessions, and who may borrow them.",
    "workspace": "Memories: what was learned.",
    "daemon": "The process itself, method by method.",
}
"""Each family's one-line help, in the order of `interlock --help`."""


def present_families() -> list[str]:
    """The families that this build declares, without importing a declaration."""
    return [family for family in FAMILIES if modules_of(family)]


def modules_of(family: str) -> list[str]:
    """The modules of `interlock.protocol` that declare a family: `<family>` and `<family>_...`."""
    names = [module.name for module in iter_modules(protocol.__path__)]
    return [name for name in names if name == family or name.startswith(f"{family}_")]
