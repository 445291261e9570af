"""What comes before an admission: is it a repetition, whose are the sessions that it names, is it our turn?

(contract workgraph 5.1, 5.3). All of it happens outside of the writer, which goes on with everybody else's work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import msgspec

from interlock.admission import targets
from interlock.admission.runtime import Answers, MemberId, Runtime, unreadable
from interlock.lifecycle.attention import Target, TargetOwner
from interlock.lifecycle.refusal import Refusal
from interlock.protocol.daemon import BatchParams, Step
from interlock.protocol.limits import RUNTIME_CACHE_ENTRIES, RUNTIME_CACHE_MS
from interlock.protocol.workgraph import DEFAULT
from interlock.stores.tx import Snapshot
from interlock.stores.workgraph.registered import unregistered

if TYPE_CHECKING:
    from .dispatch import Bound, Call
    from .services import Services

T = TypeVar("T")


class Asked(NamedTuple):
    """A session that the params of a request name, by its canonical id, and the realm whose runtime may know it."""

    realm_id: str
    session_id: str


class HasTarget(Protocol):
    """Params with a target."""

    @property
    def realm_id(self) -> str: ...
    @property
    def target(self) -> Target | None: ...


class HasWho(Protocol):
    """Params that name a session, a member or an owner."""

    @property
    def realm_id(self) -> str: ...
    @property
    def session_id(self) -> str | None: ...
    @property
    def owner_key(self) -> TargetOwner | None: ...


def by_target(params: HasTarget) -> list[Asked]:
    """The session that `target` spells, if it is one. Raises `invalid_params`."""
    session = None if params.target is None else targets.session_of(params.target)
    return [] if session is None else [Asked(params.realm_id, session)]


def by_who(params: HasWho) -> list[Asked]:
    """The session that is asked for, if it is one. Raises `invalid_params`."""
    session = None
    if params.session_id is not None:
        session = targets.session_id(params.session_id, "/session_id")
    elif params.owner_key is not None and params.owner_key.kind == "session":
        session = targets.session_id(params.owner_key.id.strip(), "/owner_key/id")
    return [] if session is None else [Asked(params.realm_id, session)]


class Runtimes:
    """The session runtimes that are registered with this process, by realm; falsy while there is none."""

    def __init__(self) -> None:
        self._by_realm: dict[str, Runtime] = {}
        self._answers = Answers(RUNTIME_CACHE_MS, RUNTIME_CACHE_ENTRIES)

    def __len__(self) -> int:
        return len(self._by_realm)

    def register(self, realm_id: str, runtime: Runtime) -> None:
        """This one is asked for the sessions of the realm from now on; what another one said is not believed."""
        self.remove(realm_id)
        self._by_realm[realm_id] = runtime

    def remove(self, realm_id: str) -> None:
        """Nobody is asked for the sessions of the realm any more."""
        self._by_realm.pop(realm_id, None)
        self._answers.forget(realm_id)

    def known(self, asked: Iterable[Asked]) -> list[Asked]:
        """Those whose realm has a runtime here, each once."""
        return [one for one in dict.fromkeys(asked) if one.realm_id in self._by_realm]

    async def member_of(self, asked: Asked, now_ms: Callable[[], int]) -> MemberId | None:
        """The member that the runtime of the realm says the session is of. Raises `unavailable`."""
        found = self._answers.find(*asked, now_ms())
        runtime = self._by_realm.get(asked.realm_id)
        if found is not None or runtime is None:
            return found
        try:
            found = await runtime.member_of(*asked)
            if found is not None:
                targets.names(found.identity, found.mob_id, asked.realm_id, "")  # no name of ours: no answer
        except Exception as error:  # whatever it is: it is the other side's
            raise unreadable(*asked, error) from error
        if found is not None and self._by_realm.get(asked.realm_id) is runtime:
            self._answers.keep(*asked, found, now_ms())
        return found


async def told(bound: Bound, call: Call, params: Any) -> Mapping[str, MemberId]:
    """Whose the sessions in the params are, where the store does not know and a runtime does. Raises `unavailable`."""
    services = call.services
    asked = services.runtimes.known(_sessions(services, bound, params))
    if not asked:
        return {}
    unknown = await services.database.read(lambda snap: unregistered(snap, [one.session_id for one in asked]))
    answers: dict[str, MemberId] = {}
    for one in asked:
        if one.session_id in unknown:
            member = await services.runtimes.member_of(one, services.clock.monotonic_ms)
            if member is not None:
                answers.setdefault(one.session_id, member)
    return answers


def gated(bound: Bound, services: Services, params: Any) -> bool:
    """Whether this write runs under the gate: by itself, or as a batch that holds such a step."""
    if isinstance(params, BatchParams):
        return any(step.method.gate for _, step in _steps(services, params))
    return bound.method.gate


async def admitted(
    bound: Bound, call: Call, params: Any, earlier: Callable[[Snapshot], T | None], write: Callable[[], Awaitable[T]]
) -> T:
    """Run a write under the gate, which is held until the write is done, or dropped.

    What was done before under its op id (`earlier` finds it) is answered at once. Raises `admission_lock_timeout`.
    """
    if params.op_id is not None:
        found = await call.services.database.read(earlier)
        if found is not None:
            return found
    if call.services.runtimes:
        call.told = await told(bound, call, params)
    async with call.services.gate.held():
        return await write()


def _steps(services: Services, params: BatchParams) -> Iterator[tuple[Step, Bound]]:
    """The steps that are methods of ours; the batch itself refuses the others."""
    for step in params.steps:
        bound = services.methods.get(step.method)
        if bound is not None:
            yield step, bound


class _Named(msgspec.Struct, frozen=True):
    """What of a step's params can be known before the steps ahead of it have run."""

    realm_id: str = DEFAULT
    target: Target | None = None


def _sessions(services: Services, bound: Bound, params: Any) -> Iterator[Asked]:
    if not isinstance(params, BatchParams):
        if bound.sessions is not None:
            yield from bound.sessions(params)
        return
    for step, of_step in _steps(services, params):
        if of_step.sessions is not None:
            yield from _of_step(of_step.sessions, step)


def _of_step(sessions: Callable[[Any], Iterable[Asked]], step: Step) -> Iterable[Asked]:
    """The sessions of a step; none where it is wrong, which it is told when it runs."""
    plain = {name: value for name, value in (step.params or {}).items() if name in ("realm_id", "target")}
    try:
        return list(sessions(msgspec.convert(plain, _Named)))
    except (msgspec.ValidationError, Refusal):
        return ()
