"""Completion policies: what satisfies them and how they become stricter (contract workgraph 1, 6)."""

from __future__ import annotations

import pytest

from interlock.lifecycle.completion import counted, escalates, missing
from interlock.lifecycle.work import (
    CompletionPolicy,
    Confirmations,
    HostConfirmed,
    OwnerKey,
    PrincipalConfirmed,
    ReviewerQuorum,
    SelfAttest,
    Supervisor,
)

A, B = OwnerKey(kind="agent", id="a"), OwnerKey(kind="agent", id="b")
ME = OwnerKey(kind="principal", id="me")

SATISFIED: list[tuple[CompletionPolicy, Confirmations, bool]] = [
    (SelfAttest(), Confirmations(), True),
    (HostConfirmed(), Confirmations(principal=1, supervisors=[A], reviewers=[A]), False),
    (HostConfirmed(), Confirmations(host=1), True),
    (PrincipalConfirmed(), Confirmations(host=1), False),
    (PrincipalConfirmed(), Confirmations(principal=1), True),
    (Supervisor(owner_key=A), Confirmations(supervisors=[B], reviewers=[A]), False),
    (Supervisor(owner_key=A), Confirmations(supervisors=[B, A]), True),
    (ReviewerQuorum(threshold=2), Confirmations(reviewers=[A]), False),
    (ReviewerQuorum(threshold=2), Confirmations(reviewers=[A, B]), True),
    (ReviewerQuorum(threshold=1), Confirmations(supervisors=[A, B]), False),
]


@pytest.mark.parametrize(("policy", "counts", "satisfied"), SATISFIED)
def test_a_policy_is_satisfied_by_its_own_confirmations_only(
    policy: CompletionPolicy, counts: Confirmations, satisfied: bool
) -> None:
    assert (missing(policy, counts) is None) is satisfied


def test_each_confirmation_counts_in_its_own_place_and_a_reviewer_once() -> None:
    counts = Confirmations()
    counts = counted(counts, "host_confirmation", None)
    counts = counted(counts, "principal_confirmation", ME)
    counts = counted(counts, "supervisor_confirmation", A)
    for key in (A, B, A):
        counts = counted(counts, "reviewer_confirmation", key)
    assert counts == Confirmations(host=1, principal=1, supervisors=[A], reviewers=[A, B])


POLICIES: list[CompletionPolicy] = [
    SelfAttest(),
    HostConfirmed(),
    PrincipalConfirmed(),
    Supervisor(owner_key=A),
    Supervisor(owner_key=B),
    ReviewerQuorum(threshold=1),
    ReviewerQuorum(threshold=2),
    ReviewerQuorum(threshold=64),
]
STRICTER = {(0, other) for other in range(1, 8)} | {(5, 6), (5, 7), (6, 7)}


@pytest.mark.parametrize("present", range(len(POLICIES)))
@pytest.mark.parametrize("wanted", range(len(POLICIES)))
def test_a_policy_becomes_only_stricter(present: int, wanted: int) -> None:
    assert escalates(POLICIES[present], POLICIES[wanted]) is ((present, wanted) in STRICTER)
