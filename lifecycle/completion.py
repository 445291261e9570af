"""What completes an item: policies, what satisfies them, how they become stricter (contract workgraph 1, 6, 7)."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from .work import (
    CompletionPolicy,
    ConfirmationKind,
    Confirmations,
    HostConfirmed,
    OwnerKey,
    PrincipalConfirmed,
    ReviewerQuorum,
    SelfAttest,
    Supervisor,
)

EVIDENCE_KIND: Final[dict[type, ConfirmationKind]] = {
    HostConfirmed: "host_confirmation",
    PrincipalConfirmed: "principal_confirmation",
    Supervisor: "supervisor_confirmation",
    ReviewerQuorum: "reviewer_confirmation",
}
"""The kind of evidence by which each policy is confirmed; `self_attest` takes any that is not reserved."""
SELF_ATTEST_KIND: Final = "self_attest"


def missing(policy: CompletionPolicy, counts: Confirmations) -> str | None:
    """What lacks for a completed close, in words; None where the policy is satisfied."""
    match policy:
        case SelfAttest():
            return None
        case HostConfirmed():
            return None if counts.host else "the operator's confirmation (goal/confirm)"
        case PrincipalConfirmed():
            return None if counts.principal else "a trusted principal's confirmation (goal/confirm)"
        case Supervisor(owner_key=key):
            return None if key in counts.supervisors else f"the confirmation of {key} (goal/confirm)"
        case ReviewerQuorum(threshold=threshold):
            lacking = threshold - len(counts.reviewers)
            return (
                None
                if lacking <= 0
                else f"{lacking} of {threshold} confirmations by different reviewers (goal/confirm)"
            )


def escalates(present: CompletionPolicy, wanted: CompletionPolicy) -> bool:
    """Whether `wanted` is admitted after `present`: from self_attest to any other, or a larger quorum."""
    if isinstance(present, SelfAttest):
        return not isinstance(wanted, SelfAttest)
    if isinstance(present, ReviewerQuorum) and isinstance(wanted, ReviewerQuorum):
        return wanted.threshold > present.threshold
    return False


def counted(counts: Confirmations, kind: ConfirmationKind, key: OwnerKey | None) -> Confirmations:
    """The counts after one more confirmation. The same key again advances nothing."""
    match kind:
        case "host_confirmation":
            return replace(counts, host=counts.host + 1)
        case "principal_confirmation":
            return replace(counts, principal=counts.principal + 1)
        case "supervisor_confirmation":
            return replace(counts, supervisors=_with(counts.supervisors, key))
        case "reviewer_confirmation":
            return replace(counts, reviewers=_with(counts.reviewers, key))


def _with(keys: list[OwnerKey], key: OwnerKey | None) -> list[OwnerKey]:
    return keys if key is None or key in keys else [*keys, key]
