"""Whatever is done with bindings and members in whatever order: one occupant per target, and the feed tells it all."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from interlock.admission.runtime import MemberId
from interlock.lifecycle.attention import IdentityTarget, ProjectionPolicy, SessionTarget, Target
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.roles import Caller
from interlock.lifecycle.work import SelfAttest
from interlock.stores.ids import Ids
from interlock.stores.schema import migrations
from interlock.stores.tx import Tx
from interlock.stores.workgraph import attending, bindings, changes, members, registering
from interlock.stores.workgraph.attending import Stance
from interlock.stores.workgraph.bindings import Binding
from interlock.stores.workgraph.changes import NewItem
from interlock.stores.workgraph.scope import Scope

CALLER = Caller(instance_id="i", holder="h", transport="socket", principal="principal:p")
STANCE = Stance("coordinate", "add_evidence", ProjectionPolicy())
SCOPES = [Scope("mob.m", "default"), Scope("r", "other")]
SESSIONS = [f"0199c3a2-7c11-7d4e-8a51-3f1d2b6c9e0{n}" for n in range(3)]
MEMBERS = [MemberId("m", "a"), MemberId("m", "b")]
TARGETS: list[Target] = [
    *(SessionTarget(session_id=session) for session in SESSIONS),
    *(IdentityTarget(identity=member.identity, mob_id="m") for member in MEMBERS),
]
ALL = f"SELECT {bindings.ROW} FROM attention ORDER BY n"
ITEM = NewItem(
    title="t",
    description=None,
    status="open",
    priority="medium",
    labels=[],
    policy=SelfAttest(),
    failed_join="accept",
    cancelled_join="accept",
    due_at=None,
    not_before=None,
    snoozed_until=None,
    external_refs=[],
    evidence=[],
)

scopes = st.sampled_from(SCOPES)
targets = st.sampled_from(TARGETS)
members_ = st.sampled_from(MEMBERS)
sessions = st.sampled_from(SESSIONS)


class Attention(RuleBasedStateMachine):
    """A store in memory, and its feed folded by what the events say alone."""

    def __init__(self) -> None:
        super().__init__()
        self.conn = sqlite3.connect(":memory:", isolation_level=None)
        self.conn.execute("CREATE TABLE schema_marker(name PRIMARY KEY, version, protocol_version) WITHOUT ROWID")
        for migration in migrations():
            for statement in migration.statements:
                self.conn.execute(statement)
        self.conn.execute("PRAGMA foreign_keys = ON")
        self.ids = Ids()
        self.now = 1_700_000_000_000
        self.folded: dict[str, tuple[str, str, int]] = {}

    def teardown(self) -> None:
        self.conn.close()

    def do(self, job: Any) -> None:
        """Run a job in a transaction, at the next instant; a refused one is undone."""
        self.now += 1
        tx = Tx(self.conn.execute, self.now, self.ids)
        self.conn.execute("BEGIN")
        with suppress(Refusal):
            job(tx)
            self.conn.execute("COMMIT")
            for event in tx.events:
                self.fold(event.type, event.subject, msgspec.json.decode(event.data))
            return
        self.conn.execute("ROLLBACK")

    def fold(self, type_: str, subject: str, data: dict[str, Any]) -> None:
        key, state, _ = self.folded.get(subject, ("", "", 0))
        state = {
            "attention_created": "active",
            "attention_paused": "paused",
            "attention_resumed": "active",
            "attention_superseded": "superseded",
            "attention_stopped": "stopped",
        }.get(type_, state)
        if type_.startswith("attention_"):
            key = data.get("target_key") or data.get("to_key") or key
            self.folded[subject] = (key, state, data["revision"])

    @property
    def all(self) -> list[Binding]:
        return [bindings.binding_of(row) for row in self.conn.execute(ALL)]

    @property
    def occupying(self) -> list[Binding]:
        return [row for row in self.all if row.status in ("active", "paused")]

    @rule(scope=scopes, whom=targets, told=st.dictionaries(sessions, members_, max_size=1))
    def create(self, scope: Scope, whom: Target, told: dict[str, MemberId]) -> None:
        def job(tx: Tx) -> None:
            key = registering.lowered(tx, scope, whom, told, CALLER).key
            attending.create(tx, changes.create(tx, scope, ITEM, CALLER), key, STANCE, CALLER)

        self.do(job)

    @rule(scope=scopes, member=members_, session=sessions, adopt=st.booleans())
    def register(self, scope: Scope, member: MemberId, session: str, adopt: bool) -> None:
        self.do(lambda tx: registering.register(tx, scope, member, session, adopt, CALLER))

    @rule(scope=scopes, member=members_, session=sessions, adopt=st.booleans())
    def meet(self, scope: Scope, member: MemberId, session: str, adopt: bool) -> None:
        """Where both are free, what the session was given becomes a duplicate of what the member was given."""
        self.create(scope, SessionTarget(session_id=session), {})
        self.create(scope, IdentityTarget(identity=member.identity, mob_id=member.mob_id), {})
        self.register(scope, member, session, adopt)

    @rule(scope=scopes, member=members_)
    def retire(self, scope: Scope, member: MemberId) -> None:
        self.do(lambda tx: registering.retire(tx, scope, member, None, CALLER))

    @precondition(lambda self: self.occupying)
    @rule(data=st.data(), what=st.sampled_from(["pause", "pause until", "resume", "stop", "close"]))
    def change(self, data: st.DataObject, what: str) -> None:
        row = data.draw(st.sampled_from(self.occupying))
        about = (row.scope, row.binding_id, row.revision)
        jobs = {
            "pause": lambda tx: attending.pause(tx, *about, None, CALLER),
            "pause until": lambda tx: attending.pause(tx, *about, tx.now + 2, CALLER),
            "resume": lambda tx: attending.resume(tx, *about, CALLER),
            "stop": lambda tx: attending.stop(tx, *about, None, CALLER),
            "close": lambda tx: attending.stop_of_item(tx, row.item, CALLER),
        }
        self.do(jobs[what])

    @precondition(lambda self: self.occupying)
    @rule(data=st.data(), whom=targets)
    def reassign(self, data: st.DataObject, whom: Target) -> None:
        row = data.draw(st.sampled_from(self.occupying))

        def job(tx: Tx) -> None:
            key = registering.lowered(tx, row.scope, whom, {}, CALLER).key
            attending.reassign(tx, row, key, CALLER, None)

        self.do(job)

    @rule()
    def sweep(self) -> None:
        def job(tx: Tx) -> None:
            for n in attending.due_pauses(tx).ids:
                attending.end_pause(tx, n)

        self.do(job)

    @invariant()
    def a_target_has_one_occupant(self) -> None:
        held = [(row.scope, row.target_key) for row in self.occupying]
        assert len(held) == len(set(held))

    @invariant()
    def a_duplicate_stands_beside_the_one_that_holds_the_key(self) -> None:
        held = {(row.scope, row.target_key) for row in self.occupying}
        assert {(row.scope, row.alias_key) for row in self.all if row.alias_key is not None} <= held

    @invariant()
    def what_a_member_has_is_bound_to_the_member_or_is_a_duplicate(self) -> None:
        tx = Tx(self.conn.execute, self.now, self.ids)
        for row in self.occupying:
            if row.target_key.startswith("session:"):
                member = members.member_of(tx, row.target_key.removeprefix("session:"), {})
                key = None if member is None else f"owner:agent:mob/{member.mob_id}/agent/{member.identity}"
                assert row.alias_key == key
            else:
                assert row.alias_key is None

    @invariant()
    def a_fault_stands_for_each_duplicate_and_for_nothing_else(self) -> None:
        standing = self.conn.execute("SELECT subject FROM faults WHERE state = 'open'").fetchall()
        assert {subject for (subject,) in standing} == {row.binding_id for row in self.all if row.alias_key is not None}

    @invariant()
    def a_current_session_is_its_members_and_no_other_is_current(self) -> None:
        current = "SELECT session_id, mob_id, identity FROM members WHERE session_id IS NOT NULL ORDER BY 1"
        standing = "SELECT session_id, mob_id, identity FROM member_sessions WHERE to_at IS NULL ORDER BY 1"
        assert self.conn.execute(current).fetchall() == self.conn.execute(standing).fetchall()

    @invariant()
    def the_feed_tells_how_every_binding_stands(self) -> None:
        assert self.folded == {row.binding_id: (row.target_key, row.status, row.revision) for row in self.all}


Attention.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestAttention = Attention.TestCase
