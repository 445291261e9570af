"""The program around the verbs: flags before and after, usage errors, what happens without a daemon, quiet ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from interlock.daemon.cli.main import main

from .harness import Home, command


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["statsu"], "No such command 'statsu'. (Did you mean one of: 'restart', 'start', 'status'?)"),
        (["status", "--jsno"], "No such option '--jsno'"),
        (["ledger", "sned"], "Did you mean 'send'?"),
        (["ledger", "get", "--no-spawn"], "Missing option '--msg-id'"),
        (["call"], "Missing argument 'METHOD'"),
        (["call", "x", "{"], "no JSON value"),
        (["wait"], "wait for what?"),
        (["wait", "--filter", "[]"], "--filter takes a JSON object"),
        (["--timeout", "soon", "status"], "not a valid float"),
        (["completion", "tcsh"], "'tcsh' is not one of"),
        (["stop", "--drain-ms", "60001"], "60001 is not in the range"),
    ],
)
def test_a_usage_error_says_what_is_wrong_and_is_2(
    inside: Home, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_a_usage_error_is_an_error_object_with_json(inside: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--json", "--nope"]) == 2
    assert '"code":"invalid_params"' in capsys.readouterr().err


def test_no_verb_at_all_shows_the_help(inside: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "Operate:" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_is_no_error(inside: Home, flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "send", flag]) == 0
    assert "Store a message for a role" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["status"], 3),
        (["doctor"], 69),
        (["ledger", "query", "--no-spawn"], 69),
        (["call", "daemon/ping", "--no-spawn"], 69),
        (["--no-spawn", "backup", "/tmp/x"], 69),
        (["--no-spawn", "events"], 69),
        (["--no-spawn", "wait", "--mail", "x"], 69),
        (["--no-spawn", "stdio"], 69),
    ],
)
def test_without_a_daemon_each_verb_says_so_and_starts_none(
    inside: Home, arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code
    assert "no daemon answers at" in capsys.readouterr().err
    assert not inside.state.exists()


def test_stopping_nothing_is_no_failure(inside: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stop"]) == 0
    assert capsys.readouterr().out == '{"stopped":false}\n'


def test_the_error_is_an_object_with_json_before_or_after_the_verb(
    inside: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["--json", "status"], ["status", "--json"], ["call", "daemon/ping", "--no-spawn"]):
        assert main(arguments) in (3, 69)
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith('{"code":-32007,"message":"no daemon answers at')


def test_places_may_be_given_before_and_after_the_verb(inside: Home, capsys: pytest.CaptureFixture[str]) -> None:
    other = str(inside.root / "other.sock")
    for arguments in (["--socket", other, "sockname", "--no-spawn"], ["sockname", "--socket", other, "--no-spawn"]):
        assert main(arguments) == 0
        assert capsys.readouterr().out == f"{other}\n"


def test_the_last_of_a_flag_given_twice_counts(inside: Home, capsys: pytest.CaptureFixture[str]) -> None:
    other = str(inside.root / "other.sock")
    assert main(["--socket", "/x", "sockname", "--no-spawn", "--socket", other]) == 0
    assert capsys.readouterr().out == f"{other}\n"


def test_a_socket_path_that_is_too_long_is_refused_with_the_remedy(
    inside: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--socket", "/tmp/" + "x" * 120]) == 2
    assert "the limit is 10" in capsys.readouterr().err


def test_the_socket_comes_from_the_variable_and_from_the_configuration_file(
    inside: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = inside.root / "cfg" / "interlock"
    folder.mkdir()
    (folder / "config.toml").write_text(f'socket = "{inside.root}/file.sock"\n', "utf-8")
    assert main(["sockname", "--no-spawn"]) == 0
    monkeypatch.setenv("INTERLOCK_SOCKET", f"{inside.root}/variable.sock")
    assert main(["sockname", "--no-spawn"]) == 0
    assert capsys.readouterr().out == f"{inside.root}/file.sock\n{inside.root}/variable.sock\n"


def test_a_configuration_that_cannot_be_is_a_usage_error(inside: Home, capsys: pytest.CaptureFixture[str]) -> None:
    folder = inside.root / "cfg" / "interlock"
    folder.mkdir()
    (folder / "config.toml").write_text("sokcet = 1\n", "utf-8")
    assert main(["status"]) == 2
    assert "did you mean socket" in capsys.readouterr().err


def test_a_socket_directory_that_others_may_write_to_is_not_trusted(
    inside: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = inside.root / "run" / "interlock"
    folder.mkdir()
    folder.chmod(0o777)
    assert main(["status"]) == 69
    assert "open to others" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion_script(inside: Home, shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "_INTERLOCK_COMPLETE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("interlock st", {"start", "stop", "status", "stdio"}),
        ("interlock ledger fault ", {"ack", "list", "move", "record"}),
        ("interlock ledger send --kind ", {"task", "completion", "note", "control"}),
        ("interlock ledger send --te", {"--text"}),
    ],
)
def test_completion_offers_verbs_options_and_words(home: Home, words: str, offered: set[str]) -> None:
    number = len(words.split()) - (0 if words.endswith(" ") else 1)
    asked = home.program(_INTERLOCK_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(number))
    assert {line.partition(",")[2] for line in asked.out.splitlines()} == offered


def test_version_is_that_of_this_program(inside: Home, capsys: pytest.CaptureFixture[str]) -> None:
    from interlock.daemon.version import VERSION

    assert main(["version"]) == 0
    assert main(["version", "--json"]) == 0
    assert capsys.readouterr().out == f'interlock {VERSION}\n{{"version":"{VERSION}"}}\n'


def test_the_version_may_be_asked_for_as_an_option(inside: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("interlock ")


def test_a_reader_that_has_seen_enough_ends_the_program_quietly(home: Home) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        command(["completion", "bash"]), env=home.env, stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_interrupt_is_130_and_quiet(home: Home) -> None:
    home.run("ledger", "role", "upsert", "worker")
    running = home.spawn("wait", "--mail", "worker", "--timeout", "60")
    home.run(
        "call", "daemon/wait", '{"filter": {"events": {"types": ["role_changed"]}}, "after_seq": 0, "timeout_ms": 0}'
    )
    wait_for_waiter(home)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=10)
    assert (running.returncode, out, err.strip()) == (130, b"", b"")


def wait_for_waiter(home: Home) -> None:
    """Until somebody beside this question is connected: the waiter has started and asked."""
    for _ in range(200):
        if home.run("status").value["requests_in_flight"] > 1:
            return
    pytest.fail("the waiter never asked")


def test_a_call_imports_no_loop_no_tables_and_no_declarations(home: Home) -> None:
    script = (
        "import sys\n"
        "from interlock.daemon.cli.main import main\n"
        "main(['call', 'daemon/ping', '--no-spawn'])\n"
        "dear = {'asyncio', 'rich', 'msgspec', 'interlock.protocol.methods', 'structlog', 'sqlite3', 'subprocess'}\n"
        "print(sorted(dear & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], env=home.env, capture_output=True, check=True)
    assert done.stdout == b"[]\n"


def test_a_family_imports_the_declarations_of_no_other_family(home: Home) -> None:
    script = (
        "import sys\n"
        "from interlock.daemon.cli.main import main\n"
        "main(['daemon', 'ping', '--no-spawn'])\n"
        "print(sorted(m for m in sys.modules if m.startswith('interlock.protocol.') and 'mail' in m))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], env=home.env, capture_output=True, check=True)
    assert done.stdout == b"[]\n"
