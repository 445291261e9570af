"""start, stop, restart, status, doctor and the verbs that start a daemon, on the real one."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from interlock.daemon.cli import starting
from interlock.daemon.cli.where import is_led, lock_record

from .harness import Home, command


def test_start_returns_when_the_daemon_is_ready_and_a_second_start_changes_nothing(home: Home) -> None:
    first = home.program("start")
    assert (first.code, first.err) == (0, "")
    assert (first.value["started"], first.value["state"], first.value["state_dir"]) == (True, "ready", str(home.state))
    second = home.run("start")
    assert (second.code, second.value["started"]) == (0, False)
    assert second.value["instance_id"] == first.value["instance_id"]
    assert home.run("status").value["pid"] == first.value["pid"]


def test_a_started_daemon_has_a_session_of_its_own_and_nothing_of_the_terminal(home: Home) -> None:
    pid = home.run("start").value["pid"]
    assert os.getsid(pid) == pid
    proc = Path(f"/proc/{pid}")
    assert os.readlink(proc / "cwd") == "/"
    assert os.readlink(proc / "fd" / "0") in ("/dev/null", "/dev/null (deleted)")
    assert os.readlink(proc / "fd" / "2") == str(home.log)
    assert home.log.stat().st_mode & 0o777 == 0o600


def test_many_starts_at_once_start_one_daemon(home: Home) -> None:
    starters = [home.spawn("start") for _ in range(6)]
    ended = [(starter.communicate(timeout=30), starter.returncode) for starter in starters]
    assert [code for _, code in ended] == [0] * 6
    answers = [json.loads(out) for (out, _), _ in ended]
    assert len({answer["instance_id"] for answer in answers}) == 1
    assert [answer["started"] for answer in answers].count(True) == 1
    assert "already running" not in home.log.read_text("utf-8")


def test_a_verb_that_needs_a_daemon_starts_it(home: Home) -> None:
    done = home.run("ledger", "role", "upsert", "worker")
    assert (done.code, done.err) == (0, "")
    assert home.run("status").value["state"] == "ready"


def test_verbs_that_start_it_at_once_all_get_their_answers(home: Home) -> None:
    callers = [home.spawn("ledger", "role", "upsert", f"role{n}") for n in range(6)]
    assert [(caller.communicate(timeout=30)[1], caller.returncode) for caller in callers] == [(b"", 0)] * 6
    assert len(home.run("ledger", "role", "list").value["roles"]) == 7


def test_stop_returns_when_the_lock_is_free(home: Home) -> None:
    pid = home.run("start").value["pid"]
    stopped = home.run("stop")
    assert (stopped.code, stopped.value["stopped"], stopped.value["pid"]) == (0, True, pid)
    assert not is_led(home.state)
    assert home.run("status").code == 3
    assert home.run("stop").value == {"stopped": False}


def test_restart_ends_with_another_daemon_and_starts_one_where_none_was(home: Home) -> None:
    first = home.run("restart")
    assert (first.code, first.value["started"]) == (0, True)
    second = home.run("restart", "--drain-ms", "100")
    assert (second.code, second.err, second.value["started"]) == (0, "", True)
    assert second.value["instance_id"] != first.value["instance_id"]
    assert lock_record(home.state)["instance_id"] == second.value["instance_id"]


def test_restart_under_calls_loses_no_answer(home: Home) -> None:
    home.run("ledger", "role", "upsert", "worker")
    restarting = home.spawn("restart")
    codes = {home.run("ledger", "depth").code}
    while restarting.poll() is None:
        codes.add(home.run("ledger", "depth").code)
    restarting.communicate(timeout=30)
    assert restarting.returncode == 0
    # Each was answered, or told that the same request can be tried again.
    assert codes <= {0, 69, 75}
    assert home.run("ledger", "depth").code == 0


def test_options_of_the_daemon_are_passed_on(home: Home) -> None:
    home.run("start", "--durability", "normal")
    assert home.run("status").value["durability"] == "normal"


def test_a_setting_that_cannot_be_is_relayed_with_its_reason_and_code(home: Home) -> None:
    refused = home.run("start", "--durability", "mostly")
    assert refused.code == 2
    assert "durability cannot be 'mostly'" in refused.err
    assert home.run("status").code == 3


def test_a_state_directory_of_somebody_else_is_relayed_as_6(home: Home) -> None:
    home.state.symlink_to(home.root / "run")
    (home.root / "run").chmod(0o700)
    other = home.root / "file"
    other.write_bytes(b"")
    refused = home.run("start", "--state-dir", str(other))
    assert refused.code == 6
    assert "no directory" in refused.err


def test_a_store_of_another_program_is_relayed_as_6_and_left_alone(home: Home) -> None:
    home.state.mkdir(mode=0o700)
    store = home.state / "interlock.sqlite3"
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("CREATE TABLE songs(name TEXT)")
    before = store.read_bytes()
    refused = home.run("start")
    assert refused.code == 6
    assert "songs" in refused.err
    assert store.read_bytes() == before


def test_a_verb_that_cannot_start_the_daemon_is_69_with_the_daemons_reason(home: Home) -> None:
    home.state.write_bytes(b"")
    refused = home.run("ledger", "depth")
    assert refused.code == 69
    assert "no directory" in refused.err
    asked = home.run("call", "ledger/depth")
    assert (asked.code, asked.out, asked.error["data"]["code"]) == (69, "", "unavailable")


def test_a_listener_that_is_no_daemon_is_left_alone(home: Home) -> None:
    folder = home.root / "run" / "interlock"
    folder.mkdir(mode=0o700)
    path = home.where.socket
    assert path is not None
    with socket.socket(socket.AF_UNIX) as foreign:
        foreign.bind(str(path))
        foreign.listen(64)
        refused = home.run("start", "--timeout", "8")
        assert refused.code == 69
        assert path.is_socket()


def test_a_killed_daemon_leaves_a_socket_that_the_next_start_takes_over(home: Home) -> None:
    pid = home.run("start").value["pid"]
    os.kill(pid, signal.SIGKILL)
    again = home.run("start")
    assert (again.code, again.value["started"]) == (0, True)


def test_a_stopped_daemon_does_not_hang_status(home: Home) -> None:
    pid = home.run("start").value["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        asked = home.run("status", "--timeout", "0.2")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert asked.code == 124
    assert "no answer from" in asked.err


def test_a_leader_that_listens_elsewhere_is_found_by_its_lock_file(home: Home) -> None:
    elsewhere = home.root / "elsewhere.sock"
    assert home.run("start", "--socket", str(elsewhere)).code == 0
    assert home.run("status").value["socket"] == str(elsewhere)
    assert home.run("sockname").out == f"{elsewhere}\n"
    # Who names a socket means that one.
    named = home.run("status", "--socket", str(home.root / "other.sock"))
    assert named.code == 3
    assert f"socket {elsewhere}" in named.err


def test_a_stdio_process_that_leads_is_reached_over_the_socket(home: Home) -> None:
    served = subprocess.Popen(
        [sys.executable, "-m", "interlock.daemon", "--stdio", "--state-dir", str(home.state)],
        env=home.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with served:
        assert served.stdin is not None
        assert served.stdout is not None
        served.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ledger/events/head"}\n')
        served.stdin.flush()
        served.stdout.readline()
        status = home.run("start").value
        assert (status["started"], status["kind"], status["pid"]) == (False, "stdio", served.pid)
        served.stdin.close()
    assert home.run("status").code == 3


def test_sockname_starts_a_daemon_and_prints_where_it_listens(home: Home) -> None:
    assert home.run("sockname", "--no-spawn").out == f"{home.where.socket}\n"
    assert home.run("status").code == 3
    assert home.run("sockname").out == f"{home.where.socket}\n"
    assert home.run("status").value["socket"] == str(home.where.socket)
    assert home.run("sockname", "--json").value == {"socket": str(home.where.socket), "state_dir": str(home.state)}


def test_version_tells_that_of_the_running_daemon(home: Home) -> None:
    home.run("start")
    assert home.run("version", "--json").value["daemon_version"] == home.run("status").value["version"]


def test_doctor_is_0_when_all_is_well_and_1_when_it_warns(home: Home) -> None:
    home.run("start")
    well = home.run("doctor")
    assert (well.code, well.value["ok"]) == (0, True)
    fault = home.run("ledger", "fault", "record", "--kind", "odd", "--reason", "seen", "--task-id", "t1")
    assert fault.code == 0
    ill = home.run("doctor")
    assert (ill.code, ill.value["ok"]) == (1, False)
    assert "open_faults" in {finding["code"] for finding in ill.value["findings"]}


def test_a_large_log_is_set_aside_at_the_next_start(home: Home) -> None:
    home.log.parent.mkdir(parents=True, mode=0o700)
    with home.log.open("wb") as log:
        log.truncate(starting.LOG_BYTES + 1)
    home.run("start")
    assert home.log.stat().st_size < starting.LOG_BYTES
    assert home.log.with_name("interlockd.log.1").stat().st_size == starting.LOG_BYTES + 1


def test_the_module_is_the_program(home: Home) -> None:
    done = subprocess.run(command(["version"]), env=home.env, capture_output=True, check=True, cwd="/")
    assert done.stdout.startswith(b"interlock ")
