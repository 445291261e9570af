"""Who confirms what, by which evidence, and how long it counts (contract workgraph 1, 7)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import Client, Served, served
from tests.ledger.common import head, other_process

from .common import claim, create, elapse, get, stop_sweeper, target, told
from .goals import CONFIRM, LOGIN, ME, POLICIES, R1, R2, goal, of

KINDS: Final = {
    "self": "self_attest",
    "host": "host_confirmation",
    "principal": "principal_confirmation",
    "me": "supervisor_confirmation",
    "r1": "supervisor_confirmation",
    "quorum": "reviewer_confirmation",
}
CALLERS: Final[dict[str, tuple[tuple[str, ...], dict[str, str]]]] = {
    "operator": ((), {}),
    "operator with role": ((), {"role": "r1"}),
    "r1": (("r1",), {}),
    "r2": (("r2",), {}),
    "both": (("r1", "r2"), {}),
    "both as r1": (("r1", "r2"), {"role": "r1"}),
    "both as r2": (("r1", "r2"), {"role": "r2"}),
    "r1 as r2": (("r1",), {"role": "r2"}),
    "both as another": (("r1", "r2"), {"role": "r3"}),
}
"""To which roles the connection is attached, and what it says beside."""
NO, ADMIN = "authority_missing", "not_admin"
OUTCOMES: Final[dict[str, dict[str, Any]]] = {
    #                   self      host    principal   me        r1       quorum
    "operator":        {"self": 0, "host": 0, "principal": ME, "me": ME, "r1": NO, "quorum": ME},
    "operator with role": {"self": 0, "host": 0, "principal": ME, "me": ME, "r1": NO, "quorum": ME},
    "r1":              {"self": 0, "host": ADMIN, "principal": NO, "me": NO, "r1": R1, "quorum": R1},
    "r2":              {"self": 0, "host": ADMIN, "principal": NO, "me": NO, "r1": NO, "quorum": R2},
    "both":            {"self": 0, "host": ADMIN, "principal": NO, "me": NO, "r1": NO, "quorum": NO},
    "both as r1":      {"self": 0, "host": ADMIN, "principal": NO, "me": NO, "r1": R1, "quorum": R1},
    "both as r2":      {"self": 0, "host": ADMIN, "principal": NO, "me": NO, "r1": NO, "quorum": R2},
    "r1 as r2":        {"self": 0, "host": ADMIN, "principal": NO, "me": NO, "r1": NO, "quorum": NO},
    "both as another": {"self": 0, "host": ADMIN, "principal": NO, "me": NO, "r1": NO, "quorum": NO},
    "stdio":           {"self": 0, "host": 0, "principal": NO, "me": NO, "r1": NO, "quorum": NO},
}  # fmt: skip
"""By caller and policy: the key that confirms, 0 where none is stamped, or the code of the refusal."""
COUNTED: Final = {
    "self": None,
    "host": {"host": 1, "principal": 0, "supervisors": [], "reviewers": []},
    "principal": {"host": 0, "principal": 1, "supervisors": [], "reviewers": []},
}


@asynccontextmanager
async def with_roles(tmp_path: Path, roles: tuple[str, ...] = ()) -> AsyncIterator[tuple[Served, Client, Client]]:
    """A daemon, its operator, and a client attached to these roles."""
    known = ("r1", "r2", "r3")
    async with served(tmp_path, roles=known) as daemon, daemon.client() as operator, daemon.client() as client:
        for role in roles:
            await client.call("ledger/attach", role=role)
        yield daemon, operator, client


def counted(policy: str, key: dict[str, str] | int) -> dict[str, Any] | None:
    """What counts after one confirmation."""
    if policy in COUNTED:
        return COUNTED[policy]
    who = "supervisors" if policy in ("me", "r1") else "reviewers"
    return {"host": 0, "principal": 0, "supervisors": [], "reviewers": []} | {who: [key]}


async def confirmed(operator: Client, client: Client, caller: str, policy: str, say: dict[str, str]) -> None:
    """One cell: the confirmation is stored as the contract says, or refused and nothing is."""
    made = await goal(operator, f"{caller} {policy}", completion_policy=POLICIES[policy])
    binding_id, outcome = made["attention"]["binding_id"], OUTCOMES[caller][policy]
    before = await head(operator)
    if isinstance(outcome, str):
        refused = await client.refused(CONFIRM, **of(made), **say)
        assert refused.code == outcome, (caller, policy)
        if outcome == NO:
            assert (refused.data["capability"], refused.data["policy"]) == ("trusted_principal", POLICIES[policy])
        assert await head(operator) == before
        return
    done = await client.call(CONFIRM, **of(made), **say)
    (evidence,) = done["item"]["evidence_refs"]
    key = None if outcome == 0 else f"{outcome['kind']}:{outcome['id']}"
    roles = CALLERS[caller][0] if caller != "stdio" else ()
    role = next(iter([*(one for one in roles if one == say.get("role")), *roles]), None)
    by = role or (None if caller == "stdio" else f"principal:{LOGIN}")
    stamps = {} if policy == "self" else {"confirmation_kind": KINDS[policy], "content_revision": 1}
    stamps |= {} if key is None else {"label": key, "confirming_owner_key": outcome}
    wanted = {"kind": KINDS[policy], "id": key or binding_id, "at": done["item"]["updated_at"], **stamps}
    assert evidence == wanted | ({} if by is None else {"by": by}), (caller, policy)
    assert done["item"].get("confirmations") == counted(policy, outcome)
    assert (done["item"]["revision"], done["item"]["content_revision"]) == (2, 1)
    assert done["attention"] == made["attention"]
    (event,) = await told(operator, made["item"]["id"], "evidence_added")
    assert event["data"] == {"revision": 2, "evidence": evidence}
    assert event.get("role") == role


@pytest.mark.parametrize("caller", CALLERS)
async def test_every_cell_of_the_table_of_confirmers_holds(tmp_path: Path, caller: str) -> None:
    roles, say = CALLERS[caller]
    async with with_roles(tmp_path, roles) as (_, operator, client):
        for policy in POLICIES:
            await confirmed(operator, client, caller, policy, say)


async def test_over_standard_input_nobody_vouches_for_who_confirms(tmp_path: Path) -> None:
    async with with_roles(tmp_path) as (_, operator, _), other_process(tmp_path) as client:
        for policy in POLICIES:
            await confirmed(operator, client, "stdio", policy, {})


@pytest.mark.parametrize("policy", ["self", "host", "principal", "quorum"])
async def test_what_the_confirmer_says_is_kept_and_what_only_the_daemon_may_say_is_not(
    tmp_path: Path, policy: str
) -> None:
    forged = {
        "confirmation_kind": "reviewer_confirmation",
        "confirming_owner_key": {"kind": "principal", "id": "somebody else"},
        "content_revision": 7,
        "at": "2001-01-01T00:00:00.000Z",
        "by": "somebody else",
    }
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await goal(client, completion_policy=POLICIES[policy])
        said = {"kind": KINDS[policy], "id": "e", "label": "mine", "summary": "as seen"}
        done = await client.call(CONFIRM, **of(made), evidence={**said, **forged})
        (evidence,) = done["item"]["evidence_refs"]
        named = {} if policy in ("self", "host") else dict.fromkeys(("id", "label"), f"principal:{LOGIN}")
        stamps = {} if policy == "self" else {"confirmation_kind": KINDS[policy], "content_revision": 1}
        stamps |= {"confirming_owner_key": ME} if named else {}
        at = {"at": done["item"]["updated_at"], "by": f"principal:{LOGIN}"}
        assert evidence == {**said, **named, **stamps, **at}
        again = await client.call(CONFIRM, **of(done), evidence=evidence)
        assert [one["summary"] for one in again["item"]["evidence_refs"]] == ["as seen"] * 2


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_policy_is_confirmed_by_its_own_kind_of_evidence(tmp_path: Path, policy: str) -> None:
    async with with_roles(tmp_path, ("r1",) if policy == "r1" else ()) as (_, operator, client):
        made = await goal(operator, completion_policy=POLICIES[policy])
        wrong = {*KINDS.values(), " "} - {KINDS[policy]}
        wrong |= set() if policy == "self" else {"log"}
        before = await head(operator)
        for kind in sorted(wrong):
            refused = await client.refused(CONFIRM, **of(made), evidence={"kind": kind, "id": "e"})
            assert (refused.code, refused.data["path"]) == ("invalid_params", "/evidence/kind"), kind
        assert await head(operator) == before
        if policy == "self":
            done = await client.call(CONFIRM, **of(made), evidence={"kind": "log", "id": "e"})
            assert done["item"]["evidence_refs"][0]["kind"] == "log"


async def test_a_repeat_is_kept_as_evidence_and_only_another_reviewer_advances_the_quorum(tmp_path: Path) -> None:
    async with with_roles(tmp_path, ("r1", "r2")) as (_, operator, client):
        made = await goal(operator, completion_policy={"kind": "reviewer_quorum", "threshold": 3})
        for who, key, reviewers in (
            (client, {"role": "r1"}, [R1]),
            (client, {"role": "r1"}, [R1]),
            (operator, {}, [R1, ME]),
            (operator, {}, [R1, ME]),
            (client, {"role": "r2"}, [R1, ME, R2]),
        ):
            close = {"id": made["item"]["id"], "expected_revision": made["item"]["revision"]}
            refused = await operator.refused("workgraph/close", **close)
            assert (refused.code, refused.data["policy"]["threshold"]) == ("policy_unsatisfied", 3)
            made = await who.call(CONFIRM, **of(made), **key)
            assert made["item"]["confirmations"]["reviewers"] == reviewers
        assert len(made["item"]["evidence_refs"]) == 5
        ended = await operator.call("workgraph/goal/request_close", **of(made))
        assert ended["item"]["status"] == "completed"


async def test_the_same_supervisor_and_the_same_principal_count_as_they_come(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for policy, counts in ("host", {"host": 2}), ("principal", {"principal": 2}), ("me", {"supervisors": [ME]}):
            made = await goal(client, policy, completion_policy=POLICIES[policy])
            for _ in range(2):
                made = await client.call(CONFIRM, **of(made))
            nothing = {"host": 0, "principal": 0, "supervisors": [], "reviewers": []}
            assert made["item"]["confirmations"] == nothing | counts


@pytest.mark.parametrize("policy", ["host", "principal", "me", "quorum"])
@pytest.mark.parametrize(
    "patch", [{"title": "new"}, {"description": "new"}, {"external_refs": [{"kind": "issue", "id": "8"}]}]
)
async def test_new_content_voids_what_was_confirmed_and_the_evidence_stays(
    tmp_path: Path, policy: str, patch: dict[str, Any]
) -> None:
    one = POLICIES[policy] | ({"threshold": 1} if policy == "quorum" else {})
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await goal(client, completion_policy=one)
        made = await client.call(CONFIRM, **of(made))
        params = {"id": made["item"]["id"], "expected_revision": 2}
        edited = (await client.call("workgraph/update", **params, **patch))["item"]
        assert "confirmations" not in edited
        assert edited["evidence_refs"] == made["item"]["evidence_refs"]
        assert edited["content_revision"] == edited["revision"] == 3
        params["expected_revision"] = 3
        assert (await client.refused("workgraph/close", **params)).code == "policy_unsatisfied"
        again = await client.call(CONFIRM, **of({**made, "item": edited}))
        assert [one["content_revision"] for one in again["item"]["evidence_refs"]] == [1, 3]
        assert (await client.call("workgraph/goal/request_close", **of(again)))["item"]["status"] == "completed"


async def test_what_is_no_content_leaves_confirmations_as_they_are(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await goal(client, completion_policy=POLICIES["host"])
        item = (await client.call(CONFIRM, **of(made)))["item"]
        for patch in (
            {"priority": "high"},
            {"labels": ["a"]},
            {"due_at": "2999-01-01T00:00:00Z"},
            {"failed_child_join_policy": "accept"},
            {"title": item["title"], "snoozed_until": "2001-01-01T00:00:00Z"},
        ):
            params = {"id": item["id"], "expected_revision": item["revision"]}
            item = (await client.call("workgraph/update", **params, **patch))["item"]
            assert (item["confirmations"]["host"], item["content_revision"]) == (1, 1)
        taken = await claim(client, await get(client, item["id"]), lease_seconds=0)
        assert taken["item"]["confirmations"]["host"] == 1


async def test_a_confirmer_is_no_claimant(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await goal(client, completion_policy=POLICIES["host"])
        taken = await claim(client, made["item"])
        done = await client.call(CONFIRM, **of({**made, **taken}))
        assert done["item"]["claim"] == taken["item"]["claim"]


async def test_a_confirmation_of_an_item_whose_lease_is_over_records_that_first(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        made = await goal(client, completion_policy=POLICIES["host"])
        taken = await claim(client, made["item"])
        elapse(daemon.state_dir, made["item"]["id"])
        before = await head(client)
        done = await client.call(CONFIRM, **of({**made, **taken}))
        assert (done["item"]["status"], done["item"]["revision"]) == ("open", taken["item"]["revision"] + 2)
        events = (await client.call("workgraph/events", after_seq=before))["events"]
        assert [event["type"] for event in events] == ["item_released", "evidence_added", "item_ready"]


async def test_a_confirmation_cannot_be_said_otherwise(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await goal(client, completion_policy=POLICIES["host"])
        done = await client.call(CONFIRM, **of(made))
        (evidence,) = done["item"]["evidence_refs"]
        params = {"id": done["item"]["id"], "evidence": evidence}
        assert (await client.refused("workgraph/evidence/add", **params)).data["path"] == "/evidence/kind"
        plain = await create(client, evidence_refs=[{**evidence, "kind": "log"}])
        assert plain["evidence_refs"][0] == {
            **{"kind": "log", "id": evidence["id"]},
            **{"at": plain["created_at"], "by": f"principal:{LOGIN}"},
        }
        assert "confirmations" not in plain


async def test_no_param_names_a_principal(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await goal(client, completion_policy=POLICIES["principal"])
        for name in "principal", "trusted_principal", "confirming_owner_key":
            refused = await client.refused(CONFIRM, **of(made), **{name: ME})
            assert (refused.code, refused.data["path"]) == ("invalid_params", f"/{name}")


async def test_a_paused_or_superseded_goal_is_not_confirmed_and_one_whose_pause_is_over_is(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = await goal(client, mode="coordinate")
        binding_id = made["attention"]["binding_id"]

        async def pause(revision: int, **more: Any) -> None:
            at = {"binding_id": binding_id, "expected_revision": revision}
            await client.call("workgraph/attention/pause", **at, **more)

        await pause(1)
        assert (await client.refused(CONFIRM, **of(made))).data["reason"] == "binding_not_eligible"
        await stop_sweeper()
        await pause(2, until="2001-01-01T00:00:00Z")
        done = await client.call(CONFIRM, **of(made))
        assert done["attention"]["status"] == {"state": "paused", "until": "2001-01-01T00:00:00.000Z"}
        moved = {"binding_id": binding_id, "expected_revision": 3, "target": target("b")}
        await client.call("workgraph/attention/reassign", **moved)
        refused = await client.refused(CONFIRM, **of(done))
        assert (refused.data["reason"], refused.data["status"]["state"]) == ("binding_not_eligible", "superseded")
