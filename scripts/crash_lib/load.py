"""The clients of a round. Each works until its connection breaks, and notes down every answer that it got."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench_lib.process import Daemon
from bench_lib.rows import op_id
from bench_lib.wire import RefusedError, Wire, WireError

from .facts import ROLES, SENDER, Facts, Sent

IN_FLIGHT: Final = 8
Connect = Callable[[], Wire]
Client = Callable[[Connect, Facts, random.Random], None]


def _message(rng: random.Random, *, with_op: bool) -> dict[str, Any]:
    """A message that no other is like: its head is its own."""
    kind = rng.choice(("note", "note", "task"))
    about: dict[str, Any] = {"to": rng.choice(ROLES), "kind": kind, "body": {"head": f"{rng.getrandbits(64):x}"}}
    about["body"]["text"] = "x" * rng.choice((10, 200, 3000))
    if kind == "note":
        about["causality"] = {"task": f"task-{rng.randrange(50)}"}
    return about | ({"op_id": op_id()} if with_op else {})


def _send_for_ever(wire: Wire, role: str | None, facts: Facts, rng: random.Random, *, with_op: bool) -> None:
    if role is not None:
        wire.ask("ledger/attach", role=role)
    while True:
        sends = [Sent(role, _message(rng, with_op=with_op)) for _ in range(rng.randint(1, IN_FLIGHT))]
        with facts.lock:
            facts.sent += sends  # before they are sent: what is not answered may have been stored

        def heard(n: int, answer: Any, sends: list[Sent] = sends) -> None:
            if "result" in answer:
                sends[n].msg_id = answer["result"]["msg_id"]
                facts.count("sends acknowledged")
            elif not answer["error"]["data"]["retryable"]:
                facts.violated(f"a send was refused: {answer['error']}")

        wire.ask_all("ledger/send", [sent.params for sent in sends], heard)


def operator(connect: Connect, facts: Facts, rng: random.Random) -> None:
    """Sends with op ids, attached to nothing."""
    with connect() as wire:
        _send_for_ever(wire, None, facts, rng, with_op=True)


def sender(connect: Connect, facts: Facts, rng: random.Random) -> None:
    """Sends with op ids for a role."""
    with connect() as wire:
        _send_for_ever(wire, SENDER, facts, rng, with_op=True)


def careless(connect: Connect, facts: Facts, rng: random.Random) -> None:
    """Sends without op ids: what is acknowledged must be there, what is not may be there once."""
    with connect() as wire:
        _send_for_ever(wire, None, facts, rng, with_op=False)


def consumer(connect: Connect, facts: Facts, rng: random.Random) -> None:
    """Attached to a role, it takes mail and acks, rejects or puts back what it got."""
    role = rng.choice(ROLES)
    with connect() as wire:
        wire.ask("ledger/attach", role=role)
        while True:
            offered = wire.ask("ledger/pull", role=role, limit=rng.randint(1, 10), wait_ms=100)["deliveries"]
            for one in offered:
                _settle(wire, one["envelope"]["msg_id"], facts, rng)


def _settle(wire: Wire, msg_id: str, facts: Facts, rng: random.Random) -> None:
    what = rng.choice(("ack", "ack", "ack", "ack", "reject", "requeue"))
    state = {"ack": "acked", "reject": "rejected", "requeue": ""}[what]
    if state:
        facts.uncertain[msg_id] = state
    wire.ask(f"ledger/{what}", msg_id=msg_id)
    if state:
        del facts.uncertain[msg_id]
        facts.settled[msg_id] = state
        facts.count("messages settled")


ALL: Final[tuple[Client, ...]] = (operator, sender, careless, consumer, consumer, consumer)


def _run(client: Client, connect: Connect, facts: Facts, rng: random.Random) -> None:
    try:
        client(connect, facts, rng)
    except RefusedError as refused:
        if not refused.retryable and refused.code != "cancelled":
            facts.violated(f"{client.__name__} was refused: {refused}")
    except (OSError, WireError):
        pass  # the daemon was killed


def start(clients: tuple[Client, ...], connect: Connect, facts: Facts, rng: random.Random) -> list[threading.Thread]:
    """Start the clients, each with a randomness of its own."""
    threads = []
    for client in clients:
        own = random.Random(rng.getrandbits(64))  # noqa: S311 - to be done again
        threads.append(threading.Thread(target=_run, args=(client, connect, facts, own), daemon=True))
        threads[-1].start()
    return threads


class Stdio:
    """A second process on the same directory, that serves its parent over a socket pair."""

    def __init__(self, home: Path) -> None:
        self.ours, theirs = socket.socketpair()
        self.ours.settimeout(20.0)
        with theirs:
            self.daemon = Daemon(home, stdio=theirs.fileno())

    def connect(self) -> Wire:
        """Its one connection."""
        return Wire(self.ours)

    def end(self, facts: Facts) -> None:
        """End its input: it must end by itself, in order."""
        with contextlib.suppress(OSError):
            self.ours.shutdown(socket.SHUT_WR)
        code = self.daemon.process.wait(20)
        if code != 0:
            facts.violated(f"a stdio process ended with {code}")


@contextmanager
def beside(home: Path, wanted: bool) -> Iterator[Stdio | None]:
    """A stdio process where one is wanted; gone at the end."""
    second = Stdio(home) if wanted else None
    try:
        yield second
    finally:
        if second is not None:
            second.daemon.kill()
            second.ours.close()
