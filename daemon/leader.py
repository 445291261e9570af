"""What only the leader does: listen on the socket, sweep, checkpoint; and how a follower becomes it (DESIGN 4.1)."""

from __future__ import annotations

import asyncio
import itertools
import os
import pwd
import socket
import sys
from typing import Any, Final

from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.times import rfc3339

from . import sockets
from .connection import Connection
from .leadership import Lock, Owner
from .places import StartError
from .services import Services
from .sockets import Listener
from .sweeper import Sweeper
from .tasks import end
from .version import VERSION

ANNOUNCE_S: Final = 1.0
"""How long the start waits for the event that says who leads: a store that is locked or full must not keep it back."""
TRY_S: Final = 1.0
"""How often a follower tries for the lock, and the leader looks after its socket file."""


class Leadership:
    """This process's bid for the lock, and what it runs while it has it."""

    def __init__(self, services: Services, lock: Lock, holders: itertools.count[int]) -> None:
        self._services = services
        self._lock = lock
        self._holders = holders
        self._listener: Listener | None = None
        self._server: asyncio.Server | None = None
        self._leading: list[asyncio.Task[None]] = []
        self._accepting = True

    @property
    def held(self) -> bool:
        """Whether this process has the lock."""
        return self._lock.held

    def try_lock(self) -> bool:
        """Take the lock if nobody has it."""
        services = self._services
        path = services.settings.socket
        owner = Owner(
            pid=os.getpid(),
            start_time=rfc3339(services.started_ms),
            instance_id=services.instance_id,
            version=VERSION,
            kind=services.kind,
            state_dir=str(services.settings.state_dir),
            socket=None if path is None else str(path),
        )
        return self._lock.try_acquire(owner)

    async def run(self) -> None:
        """Until cancelled: lead if the lock is held, else try for it.

        What fails for now, such as a lock that cannot be opened because too many files are, is tried again.
        """
        while True:
            try:
                await self._run()
            except (StartError, OSError) as error:
                self._services.log.warning("leadership_failed", error=str(error))

    async def _run(self) -> None:
        while not self._lock.held:
            await asyncio.sleep(TRY_S)
            self.try_lock()
        if not self._services.state.leader:
            await self.lead(must_listen=False)
        while self._lock.still_ours():
            await asyncio.sleep(TRY_S)
            await self._look_after_socket()
        await self._step_down()

    async def lead(self, *, must_listen: bool) -> None:
        """Begin to lead. Raises StartError where the socket cannot be bound and that is what the process is for."""
        services = self._services
        services.state.leader = True
        services.database.leader = True
        try:
            await self._listen()
        except (StartError, OSError) as error:
            if must_listen:
                raise
            services.log.warning("socket_unavailable", reason=str(error))
        services.log.info("leading", socket=services.state.socket)
        data: dict[str, object] = {"instance_id": services.instance_id, "pid": os.getpid(), "kind": services.kind}
        if services.state.socket is not None:
            data["socket"] = services.state.socket
        announcing = asyncio.create_task(self._announce(data), name="announcement")
        self._leading = [announcing, asyncio.create_task(Sweeper(services).run(), name="sweeper")]
        await asyncio.wait([announcing], timeout=ANNOUNCE_S)

    async def _announce(self, data: dict[str, object]) -> None:
        """Record who leads, as soon as the store takes it."""
        while True:
            try:
                await self._services.tell("leader", data)
                return
            except Refusal as refusal:
                self._services.log.warning("leader_not_recorded", code=refusal.code)
                await asyncio.sleep(TRY_S)

    async def _listen(self) -> None:
        path = self._services.settings.socket
        if path is None:
            return
        self._listener = sockets.bind(path)
        arguments: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        self._server = await asyncio.get_running_loop().create_unix_server(
            self._accept, sock=self._listener.socket, **arguments
        )
        self._services.state.socket = str(path)

    def _accept(self) -> asyncio.Protocol:
        return _Doorkeeper(self._services, f"{self._services.instance_id}/{next(self._holders)}")

    async def _look_after_socket(self) -> None:
        """A cleaner may have removed the file of a living socket: bind it again and say so (field C19)."""
        path = self._services.settings.socket
        if (
            path is None
            or not self._accepting
            or (self._listener and sockets.still_ours(path, self._listener.identity))
        ):
            return
        self._close_listener()
        try:
            await self._listen()
            await self._services.tell("socket_restored", {"socket": str(path)})
        except (StartError, OSError, Refusal) as error:
            self._services.log.warning("socket_unavailable", reason=str(error))

    async def _step_down(self) -> None:
        """Somebody replaced the lock file, so the lock holds nobody off any more: be a follower again."""
        services = self._services
        services.log.error("lock_file_replaced", remedy="never delete interlock.lock while a daemon runs")
        await self.stop_sweeping()
        self._close_listener()
        services.state.leader = False
        services.database.leader = False
        self._lock.release()

    def stop_accepting(self) -> None:
        """Take no more connections, for good."""
        self._accepting = False
        self._close_listener()

    def _close_listener(self) -> None:
        path = self._services.settings.socket
        if self._listener is not None and path is not None:
            # While the socket is open nobody else's file can have its number: so the file goes first.
            sockets.unlink_own(path, self._listener.identity)
        if self._server is not None:
            self._server.close()
        self._listener = self._server = None
        self._services.state.socket = None

    async def stop_sweeping(self) -> None:
        """End the sweeper between two transactions."""
        await end(self._leading)

    def give_up(self) -> None:
        """Let go of the socket and of the lock."""
        self._close_listener()
        self._lock.release()


class _Doorkeeper(asyncio.Protocol):
    """Lets a peer of our user in, and closes anybody else before a byte is read (DESIGN 5.4)."""

    def __init__(self, services: Services, holder: str) -> None:
        self._services = services
        self._holder = holder

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer: socket.socket = transport.get_extra_info("socket")
        try:
            uid = sockets.peer_uid(peer)
        except OSError:
            uid = -1
        if not sockets.peer_allowed(uid):
            self._refuse(transport, uid)
            return
        connection = Connection(self._services, self._holder, "socket", principal=f"principal:{_login(uid)}")
        transport.set_protocol(connection)
        connection.connection_made(transport)

    def _refuse(self, transport: Any, uid: int) -> None:
        transport.abort()
        services = self._services
        services.log.warning("peer_refused", uid=uid)
        services.background(services.tell("peer_refused", {"uid": uid}))


def _login(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
