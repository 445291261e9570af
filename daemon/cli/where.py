"""Which daemon is meant: its state directory and its socket, as `interlockd` itself would resolve them (C17)."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .. import places
from .client import CONNECT_SECONDS, Client, NoDaemon


class Where(NamedTuple):
    """Where a daemon is looked for. `named`: a person chose the socket, so no other is tried."""

    state_dir: Path
    socket: Path | None
    named: bool


def resolve(state_dir: str | None, socket: str | None, env: Mapping[str, str], config: str | None = None) -> Where:
    """Flags, then the environment, then the configuration file, then the default. Raises places.StartError."""
    named = bool(socket or env.get("INTERLOCK_SOCKET"))
    if config or env.get("INTERLOCK_CONFIG") or places.config_file(env).exists():
        return _configured(state_dir, socket, env, config)._replace(named=named)
    state = places.absolute(state_dir, env) if state_dir else places.state_dir(env)
    chosen = socket or env.get("INTERLOCK_SOCKET")
    if chosen == "none":
        return Where(state, None, named)
    if not chosen:
        return Where(state, places.socket_path(state, env), named)
    path = places.absolute(chosen, env)
    places.check_socket_length(path)
    return Where(state, path, named)


def _configured(state_dir: str | None, socket: str | None, env: Mapping[str, str], config: str | None) -> Where:
    from .. import config as settings  # dear, and most people have no file

    given = {"state_dir": state_dir, "socket": socket}
    options = {key: settings.Given(value, f"option {key}", text=True) for key, value in given.items() if value}
    found = settings.resolve(options, env, config).settings
    return Where(found.state_dir, found.socket, False)


def connect(where: Where, timeout: float = CONNECT_SECONDS) -> Client:
    """A connection to whoever serves `where`. Raises NoDaemon, and places.NotPrivate: the socket cannot be trusted."""
    refused: NoDaemon | None = None
    for path in _sockets(where):
        _check(path)
        try:
            return Client.connect(path, timeout)
        except NoDaemon as error:
            refused = refused or error
    raise refused or NoDaemon(f"state directory {where.state_dir}", "it has no socket")


def _sockets(where: Where) -> Iterator[Path]:
    """The agreed place first; else the leader may listen elsewhere, and the lock file says where."""
    if where.socket is not None:
        yield where.socket
    listed = lock_record(where.state_dir).get("socket")
    if not where.named and isinstance(listed, str) and listed and Path(listed) != where.socket:
        yield Path(listed)


def _check(path: Path) -> None:
    if places.is_own_socket_dir(path.parent) and path.parent.exists():
        places.check_private_dir(path.parent)


def lock_record(state_dir: Path) -> dict[str, Any]:
    """What the leader wrote into its lock file for people; empty when there is nothing readable."""
    try:
        record = json.loads((state_dir / places.LOCK).read_bytes())
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def is_led(state_dir: Path) -> bool:
    """Whether a living process holds the leader's lock.

    A leader writes itself down and wipes that out when it goes. Only where something is written, since it may have been
    killed, a shared lock is tried and let go at once: a daemon that starts just then must not take us for a leader.
    """
    if not lock_record(state_dir):
        return False
    try:
        fd = os.open(state_dir / places.LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.EWOULDBLOCK, errno.EACCES)
    finally:
        os.close(fd)
    return False


def describe_leader(state_dir: Path) -> str:
    """Who leads, for a message: pid, kind and socket as far as the lock file says."""
    record = lock_record(state_dir)
    known = [f"{key} {record[key]}" for key in ("pid", "kind", "socket") if record.get(key)]
    return ", ".join(known) or "an unknown process"
