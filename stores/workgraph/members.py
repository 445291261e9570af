"""The members table: who is who, of the store and not of a realm (contract workgraph 5.1, 5.4, 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from interlock.admission import targets
from interlock.admission.runtime import MemberId
from interlock.lifecycle.attention import Member, MemberSession
from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.times import as_text, rfc3339
from interlock.lifecycle.work import OwnerKey

from ..near import LOOKED_AT, near
from ..tx import Snapshot, Tx

Source = Literal["registered", "runtime"]
Told = Mapping[str, MemberId]
"""Whose sessions are, by canonical id, as an external runtime said just now."""


class Row(NamedTuple):
    """One row, in the order of `COLUMNS`; instants are milliseconds."""

    mob_id: str
    identity: str
    session_id: str | None
    status: Literal["active", "retired"]
    source: Source
    revision: int
    registered_at: int
    updated_at: int
    retired_at: int | None

    @property
    def id(self) -> MemberId:
        """Which member."""
        return MemberId(self.mob_id, self.identity)

    @property
    def owner_key(self) -> OwnerKey:
        """Its owner key."""
        return owner_key(self.id)


class Mapped(NamedTuple):
    """A session, the member that it maps to, who said so, and since and until when it was the current one."""

    session_id: str
    mob_id: str
    identity: str
    source: Source
    from_at: int
    to_at: int | None

    @property
    def id(self) -> MemberId:
        """Which member."""
        return MemberId(self.mob_id, self.identity)


COLUMNS: Final = ", ".join(Row._fields)
SESSION_COLUMNS: Final = ", ".join(Mapped._fields)
FIND: Final = f"SELECT {COLUMNS} FROM members WHERE mob_id = ? AND identity = ?"
PUT: Final = (
    f"INSERT INTO members({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(mob_id, identity) DO UPDATE SET"
    " session_id = excluded.session_id, status = excluded.status, source = excluded.source,"
    " revision = excluded.revision, updated_at = excluded.updated_at, retired_at = excluded.retired_at"
)
SESSION: Final = f"SELECT {SESSION_COLUMNS} FROM member_sessions WHERE session_id = ?"
PUT_SESSION: Final = (
    f"INSERT INTO member_sessions({SESSION_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT(session_id) DO UPDATE SET"
    " mob_id = excluded.mob_id, identity = excluded.identity, source = excluded.source, from_at = excluded.from_at,"
    " to_at = excluded.to_at"
)
END_SESSION: Final = "UPDATE member_sessions SET to_at = ? WHERE session_id = ?"
SESSIONS: Final = (
    f"SELECT {SESSION_COLUMNS} FROM member_sessions WHERE mob_id = ? AND identity = ?"
    " ORDER BY from_at DESC, session_id DESC LIMIT ?"
)
_ABOVE: Final = "(mob_id, identity) > (:mob_id, :identity) ORDER BY mob_id, identity LIMIT :limit"
_ABOVE_OF_MOB: Final = "mob_id = :mob_id AND identity > :identity ORDER BY identity LIMIT :limit"
PAGE: Final = f"SELECT {COLUMNS} FROM members WHERE {_ABOVE}"
PAGE_OF_MOB: Final = f"SELECT {COLUMNS} FROM members WHERE {_ABOVE_OF_MOB}"
# Without INDEXED BY SQLite would walk the whole mob by the primary key.
_IN_STATUS: Final = f"{COLUMNS} FROM members INDEXED BY members_status WHERE status = :status AND"
PAGE_IN_STATUS: Final = f"SELECT {_IN_STATUS} {_ABOVE}"
PAGE_OF_MOB_IN_STATUS: Final = f"SELECT {_IN_STATUS} {_ABOVE_OF_MOB}"
BEFORE: Final = "SELECT identity FROM members WHERE mob_id = ? AND identity < ? ORDER BY identity DESC LIMIT ?"
AFTER: Final = "SELECT identity FROM members WHERE mob_id = ? AND identity > ? ORDER BY identity LIMIT ?"

SESSIONS_SHOWN: Final = 50


def owner_key(member: MemberId) -> OwnerKey:
    """The owner key of a member."""
    return OwnerKey(kind="agent", id=targets.member_id(*member))


def find(tx: Tx | Snapshot, member: MemberId) -> Row | None:
    """The member, where it was ever registered or told."""
    row = tx.execute(FIND, member).fetchone()
    return None if row is None else Row._make(row)


def need(tx: Tx | Snapshot, member: MemberId) -> Row:
    """The member. Raises `not_found` with up to five near identities of its mob."""
    row = find(tx, member)
    if row is None:
        names = [name for sql in (BEFORE, AFTER) for (name,) in tx.execute(sql, (*member, LOOKED_AT))]
        says = f"there is no member {member.identity} of mob {member.mob_id}"
        raise Refusal("not_found", says, kind="member", id=str(owner_key(member)), near=near(member.identity, names))
    return row


def record(row: Row) -> Member:
    """The member as results show it."""
    return Member(
        mob_id=row.mob_id,
        identity=row.identity,
        owner_key=row.owner_key,
        session_id=row.session_id,
        status=row.status,
        source=row.source,
        revision=row.revision,
        registered_at=rfc3339(row.registered_at),
        updated_at=rfc3339(row.updated_at),
        retired_at=as_text(row.retired_at),
    )


def put(tx: Tx, row: Row) -> Row:
    """Store a member as it is."""
    tx.execute(PUT, row)
    return row


def changed(tx: Tx, row: Row, **changes: Any) -> Row:
    """Store what changes of a member, a revision later."""
    return put(tx, row._replace(revision=row.revision + 1, updated_at=tx.now, **changes))


def mapped(tx: Tx | Snapshot, session_id: str) -> Mapped | None:
    """What the store knows of a session, current or former."""
    row = tx.execute(SESSION, (session_id,)).fetchone()
    return None if row is None else Mapped._make(row)


def put_session(tx: Tx, session: Mapped) -> None:
    """Store whose a session is."""
    tx.execute(PUT_SESSION, session)


def end_session(tx: Tx, session_id: str) -> None:
    """From now on the session is a former one of its member."""
    tx.execute(END_SESSION, (tx.now, session_id))


def member_of(tx: Tx | Snapshot, session_id: str, told: Told) -> MemberId | None:
    """Whose a session is: as a caller registered it, else as the runtime says now, else as it said earlier."""
    known = mapped(tx, session_id)
    if known is not None and (known.source == "registered" or session_id not in told):
        return known.id
    return told.get(session_id)


def sessions_of(tx: Tx | Snapshot, member: MemberId) -> list[MemberSession]:
    """The newest sessions of a member, newest first."""
    found = (Mapped._make(row) for row in tx.execute(SESSIONS, (*member, SESSIONS_SHOWN)))
    return [
        MemberSession(session_id=one.session_id, from_=rfc3339(one.from_at), to=as_text(one.to_at)) for one in found
    ]


def page(snap: Snapshot, mob_id: str | None, status: str | None, after: tuple[str, str], limit: int) -> list[Row]:
    """Members by mob and identity, above the key `after`."""
    if status is None:
        sql = PAGE if mob_id is None else PAGE_OF_MOB
    else:
        sql = PAGE_IN_STATUS if mob_id is None else PAGE_OF_MOB_IN_STATUS
    about = {"mob_id": mob_id or after[0], "identity": after[1], "status": status, "limit": limit}
    return [Row._make(row) for row in snap.execute(sql, about)]
