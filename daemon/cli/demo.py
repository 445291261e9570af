"""`interlock demo`: the main job on real processes, told as it happens, and judged at the end.

Every line comes from an answer of the daemon, from its event feed, or from an agent that tells what it just did.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NoReturn

import click

from .demo_agent import FOLDERS, PLANNER, PONDERS, WORKER, count_lines, short, source_files
from .demo_stage import EXITED, PATIENCE_S, Line, Stage
from .failures import NEGATIVE
from .output import as_json, one_line, write
from .settings import Settings

INTRODUCTION: Final = """\
A planner hands tasks to a worker through the ledger. The worker is killed half way, and its task is delivered again.
Each agent is a process that spawned its own interlockd --stdio; you watch over the Unix socket of another one. All of
them share the temporary folder {folder}, which goes away afterwards."""
_TERMINATED: Final = 143


def run(settings: Settings, arguments: Sequence[str]) -> int:
    """Show it. 0 when everything ended as it must, else 1. Raises Failed where it could not go on."""
    if arguments:
        raise click.UsageError(f"the demonstration takes no arguments: {' '.join(arguments)}")
    before = signal.signal(signal.SIGTERM, _terminated)  # so that nothing is left behind then either
    try:
        with Stage() as stage:
            return Demo(settings, stage).play()
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminated(*_: object) -> NoReturn:
    raise SystemExit(_TERMINATED)


class Demo:
    """One showing. Keeps what was said, to judge the end by."""

    def __init__(self, settings: Settings, stage: Stage) -> None:
        self._settings = settings
        self._stage = stage
        self._said: list[Line] = []
        self._folders: dict[str, str] = {}

    def play(self) -> int:
        """All acts, in order."""
        began = time.monotonic()
        self._open()
        killed = self._kill_a_worker()
        self._finish()
        good = self._judge(killed)
        seconds = time.monotonic() - began
        self._say("", f"{'All held' if good else 'That is not how it must end'}, after {seconds:.1f} s.")
        return 0 if good else NEGATIVE

    def _open(self) -> None:
        stage = self._stage
        for line in INTRODUCTION.format(folder=stage.folder).splitlines():
            self._say("", line)
        self._say("", "")
        status = stage.call("daemon/status")
        self._say("operator", f"interlockd is process {status['pid']}, {status['state']} after {stage.start_ms} ms")
        for role in (PLANNER, WORKER):
            stage.call("ledger/role/upsert", name=role)
        self._say("operator", f"makes the roles {PLANNER} and {WORKER}, and subscribes to the event feed")
        stage.start_agent(PLANNER, PLANNER)
        stage.start_agent(WORKER, "worker-1", PONDERS)

    def _kill_a_worker(self) -> str:
        """Kill it half way through its second task, and wait for the task to be back; the task's id."""
        task: str = self._until(lambda line: line.event == "half_way").data["task"]
        self._stage.kill_agent("worker-1")
        killed = time.monotonic()
        self._say("operator", f"kill -9: worker-1 and its interlockd are gone, and they held task {short(task)}")
        self._until(lambda line: self._is_state(line, "queued") and line.data["data"]["requeued"] > 0)
        noticed = round((time.monotonic() - killed) * 1000)
        self._say("operator", f"the daemon noticed within {noticed} ms, and the task waits again")
        self._stage.start_agent(WORKER, "worker-2")
        return task

    def _finish(self) -> None:
        running = {PLANNER, "worker-2"}
        while running:
            running.discard(self._until(lambda line: line.event == EXITED).who)
        head = self._stage.call("ledger/events/head")["head"]
        if self._feed_seq() < head:
            self._until(lambda line: line.who == "feed" and line.data["seq"] >= head)

    def _judge(self, killed: str) -> bool:
        """Ask the daemon how it ended, and compare it with how it must."""
        self._say("", "")
        status, depths = self._stage.call("daemon/status"), self._stage.call("ledger/depth")["depths"]
        tasks = {task: self._stage.call("ledger/task", task=task) for task in self._folders}
        self._say("operator", "asks how things stand")
        self._say("status", f"{status['state']}, {status['event_head']} events, {status['open_faults']} open faults")
        for depth in depths:
            self._say("depth", f"{depth['role']}: {depth['queued']} queued, {depth['in_flight']} in flight")
        for task, answer in tasks.items():
            self._say("task", f"{short(task)} {self._folders[task]}: {_told(answer)}")
        good = True
        for held, text in self._verdicts(killed, status, depths, tasks):
            self._say("ok" if held else "FAILED", text)
            good = good and held
        code = self._stage.stop_daemon()
        self._say("operator", f"stops the daemon: exit code {code}")
        return good and code == 0

    def _verdicts(
        self, killed: str, status: dict[str, Any], depths: list[dict[str, Any]], tasks: dict[str, dict[str, Any]]
    ) -> Iterator[tuple[bool, str]]:
        first = {task: answer["rows"][0] for task, answer in tasks.items()}
        yield (
            all(row["state"] == "acked" for row in first.values())
            and all(answer.get("verdict", {}).get("outcome") == "done" for answer in tasks.values()),
            f"each of the {len(tasks)} tasks was acknowledged and has its verdict",
        )
        counts = {task: (row["deliveries"], row["requeued"]) for task, row in first.items()}
        yield (
            counts == {task: (2, 1) if task == killed else (1, 0) for task in tasks},
            f"task {short(killed)} was put back once and delivered twice, every other once",
        )
        waiting = [depth for depth in depths if depth["queued"] or depth["notes"] or depth["in_flight"]]
        yield not waiting and status["open_faults"] == 0, "nothing waits, nobody holds anything, there is no fault"
        yield self._answers() == _counted_here(), "the answers are what a count in this process gives"
        rows = self._stage.call("ledger/query")["rows"]
        yield (
            self._folded() == {row["msg_id"]: row["state"] for row in rows},
            f"the event feed, folded, gives the states of all {len(rows)} messages",
        )

    def _answers(self) -> dict[str, Any]:
        return next((line.data["answers"] for line in self._said if line.event == "added_up"), {})

    def _feed_seq(self) -> int:
        return max(int(line.data["seq"]) for line in self._said if line.who == "feed")

    def _folded(self) -> dict[str, str]:
        moves = [line.data["data"] for line in self._said if line.event == "ledger_state"]
        return {move["msg_id"]: move["state"] for move in moves}

    # -- what is said

    def _until(self, found: Callable[[Line], bool]) -> Line:
        """Tell what happens until it is what is waited for."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            line = self._stage.next_line(deadline)
            self._said.append(line)
            self._tell(line)
            if found(line):
                return line

    def _tell(self, line: Line) -> None:
        if line.event == "sent":
            self._folders[line.data["task"]] = line.data["folder"]
        if line.event == EXITED:
            if line.data["code"] not in (0, -signal.SIGKILL):
                raise self._stage.failed(f"{line.who} ended with exit code {line.data['code']}")
        elif line.who != "feed":
            self._say(line.who, line.data["text"])
        elif line.event == "ledger_state" and line.data["data"]["kind"] == "task":
            self._say("feed", _move(line.data))

    def _is_state(self, line: Line, state: str) -> bool:
        return line.event == "ledger_state" and line.data["data"]["state"] == state

    def _say(self, who: str, text: str) -> None:
        if self._settings.quiet:
            return
        if self._settings.json:
            write(as_json({"who": who, "text": text}, indent=False))
        else:
            write(one_line(f"{who:<9} {text}" if who else text))


def _move(event: dict[str, Any]) -> str:
    move = event["data"]
    why = f" ({move['reason']})" if move.get("reason") else ""
    held = f" by {move['session']}" if move["state"] == "in_flight" and move.get("session") else ""
    return f"event {event['seq']}: task {short(move['task'])} is {move['state'].replace('_', ' ')}{held}{why}"


def _told(answer: dict[str, Any]) -> str:
    row, verdict = answer["rows"][0], answer.get("verdict", {})
    return f"{row['state']}, delivered {row['deliveries']}x, verdict {verdict.get('outcome')} by {verdict.get('by')}"


def _counted_here() -> dict[str, dict[str, int]]:
    found = {folder: source_files(folder) for folder in FOLDERS}
    return {folder: {"files": len(files), "lines": sum(map(count_lines, files))} for folder, files in found.items()}
