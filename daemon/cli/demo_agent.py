"""The agents of the demonstration: each a process of its own that spawns `interlockd --stdio` and works through it.

`python -m interlock.daemon.cli.demo_agent planner|worker NAME STATE_DIR SOCKET`. What it does it tells on standard
output, one JSON object `{event, text, …}` per line. It knows the protocol, and nothing of the daemon's code.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Self

PLANNER: Final = "planner"
WORKER: Final = "worker"
FOLDERS: Final = ("daemon", "lifecycle", "protocol", "stores")
"""The real input: the packages of Interlock itself, whose lines the worker counts."""
PONDERS: Final = "--ponders"
"""A worker that is given this thinks about its second task for longer than anybody waits."""
WAIT_MS: Final = 20_000
THINK_S: Final = 0.15
"""How long a worker thinks about a task. A model would take longer; a person who watches can follow this."""
_PONDER_S: Final = 300


class Interlock:
    """A daemon process of one's own, on its standard input and output: one JSON message per line."""

    def __init__(self, state_dir: str, socket: str) -> None:
        command = [sys.executable, "-m", "interlock.daemon", "--stdio", "--config", os.devnull]
        command += ["--log-level", "warning", "--state-dir", state_dir, "--socket", socket]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._last_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The end of its input is the end of the process."""
        self.process.communicate()

    def call(self, method: str, **params: Any) -> Any:
        """The result of one request. Raises RuntimeError with the error object of a refusal."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._last_id += 1
        request = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or b'{"error": "the daemon went away"}')
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]


def plan(interlock: Interlock, name: str) -> None:
    """Hand out one task per folder, collect the answers, add them up."""
    interlock.call("ledger/attach", role=PLANNER)
    tasks: dict[str, str] = {}
    for folder in FOLDERS:
        body = {"text": f"Count the lines of {folder}.", "details": {"folder": folder}}
        # The op id makes it safe to ask again after a crash: the second time answers the first receipt.
        receipt = interlock.call("ledger/send", kind="task", to=WORKER, body=body, op_id=f"demo/count/{folder}")
        tasks[receipt["task"]] = folder
        _tell("sent", f"hands out task {short(receipt['task'])}: {body['text']}", task=receipt["task"], folder=folder)
    answers: dict[str, dict[str, int]] = {}
    while len(answers) < len(tasks):
        for delivery in _pull(interlock, PLANNER, name):
            envelope = delivery["envelope"]
            answers[tasks[envelope["causality"]["task"]]] = envelope["body"]["details"]
            interlock.call("ledger/ack", msg_id=envelope["msg_id"])
    total = sum(answer["lines"] for answer in answers.values())
    _tell("added_up", f"has all {len(answers)} answers: {total} lines in all", answers=answers)
    interlock.call("ledger/send", kind="note", to=WORKER, body={"text": "That was all, thank you."})


def work(interlock: Interlock, name: str, *, ponders: bool) -> None:
    """Answer tasks until a note says that there are no more."""
    interlock.call("ledger/attach", role=WORKER)
    done = 0
    while True:
        for delivery in _pull(interlock, WORKER, name):
            envelope = delivery["envelope"]
            if envelope["kind"] == "note":
                interlock.call("ledger/ack", msg_id=envelope["msg_id"])
                _tell("ended", f"is told: {envelope['body']['text']}")
                return
            _answer(interlock, delivery, ponder=ponders and done == 1)
            done += 1


def _answer(interlock: Interlock, delivery: dict[str, Any], *, ponder: bool) -> None:
    envelope = delivery["envelope"]
    task, folder = envelope["causality"]["task"], envelope["body"]["details"]["folder"]
    interlock.call("ledger/surfaced", msg_id=envelope["msg_id"])
    again = f" (delivery {delivery['deliveries']})" if delivery["requeued"] else ""
    _tell("took", f"takes task {short(task)}{again}: {envelope['body']['text']}", task=task)
    time.sleep(THINK_S)
    files = source_files(folder)
    lines = 0
    for n, path in enumerate(files):
        if ponder and n == len(files) // 2:
            _tell("half_way", f"is half way through {folder}: {n} of {len(files)} files", task=task)
            time.sleep(_PONDER_S)
        lines += count_lines(path)
    answer = {"kind": "completion", "to": envelope["from"], "outcome": "done", "causality": {"task": task}}
    answer["body"] = {"text": f"{folder}: {lines} lines", "details": {"files": len(files), "lines": lines}}
    # The answer and the receipt in one transaction: a crash leaves both or neither.
    steps = [
        {"method": "ledger/send", "params": answer},
        {"method": "ledger/ack", "params": {"msg_id": envelope["msg_id"]}},
    ]
    interlock.call("daemon/batch", steps=steps)
    _tell("answered", f"answers task {short(task)}: {lines} lines in {len(files)} files", task=task)


def _pull(interlock: Interlock, role: str, name: str) -> list[dict[str, Any]]:
    deliveries: list[dict[str, Any]] = interlock.call("ledger/pull", role=role, session=name, wait_ms=WAIT_MS)[
        "deliveries"
    ]
    if not deliveries:
        raise RuntimeError(f"nothing came for {role} within {WAIT_MS} ms")
    return deliveries


def source_files(folder: str) -> list[Path]:
    """The modules of one of the `FOLDERS`, wherever it is installed."""
    (place,) = import_module(f"interlock.{folder}").__path__
    return sorted(Path(place).rglob("*.py"))


def count_lines(path: Path) -> int:
    """How many lines a file has."""
    return path.read_bytes().count(b"\n")


def short(long_id: str) -> str:
    """An id as a person tells it from another: its end, since it begins with the time."""
    return f"…{long_id[-6:]}"


def _tell(event: str, text: str, **data: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, "text": text, **data}) + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """Run one agent to its end."""
    role, name, state_dir, socket, *flags = arguments
    with Interlock(state_dir, socket) as interlock:
        _tell("began", f"is process {os.getpid()} and has spawned interlockd --stdio, process {interlock.process.pid}")
        if role == PLANNER:
            plan(interlock, name)
        else:
            work(interlock, name, ponders=PONDERS in flags)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
