"""What a binding allows its target to do, by mode and delegation (contract workgraph 3.3). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .attention import Authority, Delegated, Mode

GRANTED: Final[Mapping[Mode, frozenset[str]]] = {
    "pursue": frozenset({"can_get", "can_add_evidence", "can_release", "can_update", "can_block"}),
    "coordinate": frozenset(
        {
            *("can_get", "can_add_evidence", "can_update", "can_create"),
            *("can_link", "can_link_parent", "can_link_related", "can_link_derived_from"),
        }
    ),
    "review": frozenset({"can_get", "can_add_evidence"}),
    "falsify": frozenset({"can_get", "can_add_evidence"}),
    "judge": frozenset({"can_get", "can_add_evidence"}),
    "observe": frozenset({"can_get"}),
}
"""What a mode grants whatever is delegated."""

DELEGABLE: Final[Mapping[Mode, str]] = {
    "pursue": "can_close_if_policy_allows",
    "coordinate": "can_close_if_policy_allows",
    "review": "can_close_own_review_item",
    "falsify": "can_close_own_review_item",
    "judge": "can_close_if_policy_allows",
}
"""What a mode grants beside, where the delegation says so. `add_evidence` and `request_closure` grant nothing more."""

_DELEGATED: Final[Mapping[Delegated, str]] = {
    "close_own_review_item": "can_close_own_review_item",
    "close_if_policy_allows": "can_close_if_policy_allows",
}

TRUSTED_PRINCIPAL: Final = "trusted_principal"
"""What a caller lacks for whom nobody vouches; it is of the connection, not of a binding."""


def authority(mode: Mode, delegated: Delegated) -> Authority:
    """The twelve capabilities of a binding."""
    return Authority(**dict.fromkeys(granted(mode, delegated), True))


def granted(mode: Mode, delegated: Delegated) -> frozenset[str]:
    """The names of the capabilities that a binding has."""
    more = _DELEGATED.get(delegated)
    return GRANTED[mode] | {more} if more is not None and DELEGABLE.get(mode) == more else GRANTED[mode]


def closing(mode: Mode) -> str:
    """The capability that `close` under a binding of this mode needs; no delegation gives an observer one."""
    return DELEGABLE.get(mode, "can_close_if_policy_allows")


def linking(kind: str) -> str:
    """The capability that `link` and `unlink` of an edge kind need. No mode has those of `blocks` and `supersedes`."""
    return f"can_link_{kind}"


def way_out(capability: str) -> str:
    """The `remedy` of a call that lacks a capability: which modes have it, and how to call without a binding."""
    always = [mode for mode, names in GRANTED.items() if capability in names]
    delegated = next((word for word, name in _DELEGATED.items() if name == capability), None)
    without = "call it without binding_id (a claimed item then needs its fence)"
    if delegated is not None:
        modes = [mode for mode, name in DELEGABLE.items() if name == capability]
        return f"{without}, or act under a goal of mode {_either(modes)} with delegated_authority {delegated}"
    return f"{without}, or act under a goal of mode {_either(always)}" if always else without


def _either(words: list[Mode]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
