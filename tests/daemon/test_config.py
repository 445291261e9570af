"""Settings: four sources in order, every key checked, and nothing touched when one is wrong."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from interlock.daemon.config import ConfigError, LedgerSettings, Settings, load
from interlock.daemon.version import VERSION

ROOT = Path(__file__).parent.parent.parent


def env(tmp_path: Path, **variables: str) -> dict[str, str]:
    """The environment of somebody whose home is the test's folder."""
    (tmp_path / "run").mkdir(exist_ok=True)
    return {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "run"), **variables}


def user_file(tmp_path: Path, text: str) -> Path:
    """The user's own configuration file, with this text."""
    path = tmp_path / ".config/interlock/config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def refused(argv: list[str], environ: dict[str, str]) -> str:
    """The message of the refusal, which has exit code 2."""
    with pytest.raises(ConfigError) as caught:
        load(argv, environ)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_without_anything_given_all_is_as_the_contract_says(tmp_path: Path) -> None:
    settings, origins = load([], env(tmp_path))
    assert settings.state_dir == tmp_path / ".local/share/interlock"
    assert settings.socket is not None
    assert settings.socket.parent == tmp_path / "run/interlock"
    rest = (settings.log_level, settings.durability, settings.idle_exit_seconds, settings.operator, settings.stdio)
    assert rest == ("info", "full", 0, "any", False)
    assert settings.ledger == LedgerSettings(
        requeue_max_attempts=16,
        requeue_ttl_secs=0,
        heartbeat_timeout_ms=30_000,
        heartbeat_grace_secs=90,
        stale_after_secs=600,
        stale_watch_secs=60,
        ghost_sweep_secs=60,
        retention_days=14,
        history_days=90,
    )
    assert set(origins.values()) == {"default"}
    assert list(tmp_path.iterdir()) == [tmp_path / "run"]


def test_a_later_source_wins_and_is_named_as_the_origin(tmp_path: Path) -> None:
    path = user_file(tmp_path, 'log_level = "debug"\noperator = "socket"\ndurability = "normal"\n')
    loaded = load(["--log-level", "error"], env(tmp_path, INTERLOCK_LOG_LEVEL="warning", INTERLOCK_DURABILITY="full"))
    settings, origins = loaded
    assert (settings.log_level, settings.durability, settings.operator) == ("error", "full", "socket")
    assert origins["log_level"] == "option --log-level"
    assert origins["durability"] == "environment INTERLOCK_DURABILITY"
    assert origins["operator"] == f"file {path}"
    assert origins["idle_exit"] == "default"


def test_every_option_is_also_a_key_and_a_variable(tmp_path: Path) -> None:
    wanted = Settings(
        state_dir=tmp_path / "s",
        socket=None,
        log_level="debug",
        durability="normal",
        idle_exit_seconds=7,
        operator="socket",
    )
    values = {
        "state_dir": f"{tmp_path}/s",
        "socket": "none",
        "log_level": "debug",
        "durability": "normal",
        "idle_exit": "7",
        "operator": "socket",
    }
    options = [word for key, value in values.items() for word in (f"--{key.replace('_', '-')}", value)]
    assert load(options, env(tmp_path)).settings == wanted
    variables = {f"INTERLOCK_{key.upper()}": value for key, value in values.items()}
    assert load([], env(tmp_path, **variables)).settings == wanted
    user_file(
        tmp_path, "".join(f"{key} = {value if key == 'idle_exit' else repr(value)}\n" for key, value in values.items())
    )
    assert load([], env(tmp_path)).settings == wanted


def test_a_familys_table_is_a_table_of_the_file_and_variables(tmp_path: Path) -> None:
    user_file(tmp_path, "[ledger]\nretention_days = 20\nghost_sweep_secs = 0\n")
    settings, origins = load([], env(tmp_path, INTERLOCK_LEDGER_REQUEUE_MAX_ATTEMPTS="3"))
    assert (settings.ledger.retention_days, settings.ledger.ghost_sweep_secs) == (20, 0)
    assert settings.ledger.requeue_max_attempts == 3
    assert origins["ledger.requeue_max_attempts"] == "environment INTERLOCK_LEDGER_REQUEUE_MAX_ATTEMPTS"


def test_a_key_may_be_written_as_its_option_is(tmp_path: Path) -> None:
    user_file(tmp_path, 'log-level = "debug"\n[ledger]\nretention-days = 20\n')
    settings = load([], env(tmp_path)).settings
    assert (settings.log_level, settings.ledger.retention_days) == ("debug", 20)
    user_file(tmp_path, 'log-level = "debug"\nlog_level = "info"\n')
    assert "log_level is there twice" in refused([], env(tmp_path))


def test_a_path_is_absolute_and_a_tilde_is_home(tmp_path: Path) -> None:
    settings = load(["--socket", "x.sock"], env(tmp_path, INTERLOCK_STATE_DIR="~/state")).settings
    assert settings.state_dir == tmp_path / "state"
    assert settings.socket == Path.cwd() / "x.sock"


def test_the_default_socket_follows_the_state_directory(tmp_path: Path) -> None:
    one = load(["--state-dir", str(tmp_path / "a")], env(tmp_path)).settings
    other = load(["--state-dir", str(tmp_path / "b")], env(tmp_path)).settings
    assert one.socket != other.socket


@pytest.mark.parametrize("word", ["--stdio", "--persistent"])
def test_stdio_has_two_names_and_no_variable(tmp_path: Path, word: str) -> None:
    assert load([word], env(tmp_path)).settings.stdio is True
    assert load([], env(tmp_path, INTERLOCK_STDIO="1")).settings.stdio is False
    user_file(tmp_path, "stdio = true\n")
    assert "key stdio is unknown" in refused([], env(tmp_path))


def test_a_named_file_replaces_the_users(tmp_path: Path) -> None:
    user_file(tmp_path, 'log_level = "debug"\n')
    other = tmp_path / "other.toml"
    other.write_text('operator = "socket"\n', "utf-8")
    for argv, environ in (["--config", str(other)], env(tmp_path)), ([], env(tmp_path, INTERLOCK_CONFIG=str(other))):
        settings = load(argv, environ).settings
        assert (settings.log_level, settings.operator) == ("info", "socket")


def test_an_empty_variable_counts_as_absent(tmp_path: Path) -> None:
    variables = {"INTERLOCK_SOCKET": "", "INTERLOCK_CONFIG": "", "INTERLOCK_LEDGER_RETENTION_DAYS": ""}
    assert load([], env(tmp_path, **variables)) == load([], env(tmp_path))


def test_a_variable_of_no_table_that_nobody_knows_is_somebody_elses(tmp_path: Path) -> None:
    variables = {"INTERLOCK_CLIENTS": "1", "INTERLOCK_HOOK": "h", "INTERLOCKED": "x"}
    assert load([], env(tmp_path, **variables)) == load([], env(tmp_path))


@pytest.mark.parametrize(
    ("argv", "variables", "text", "parts"),
    [
        (["--stat-dir", "x"], {}, "", ["--stat-dir", "did you mean --state-dir?"]),
        (["--log-level=loud"], {}, "", ["--log-level", "loud", "debug, info, warning, error"]),
        (["--idle-exit"], {}, "", ["--idle-exit", "expected one argument"]),
        (["--idle-exit", "-1"], {}, "", ["--idle-exit", "-1", "from 0 to"]),
        (["--idle-exit", "soon"], {}, "", ["--idle-exit", "soon", "whole number"]),
        (["--socket", ""], {}, "", ["--socket", "expected a path"]),
        (["--durability", "none"], {}, "", ["full, normal"]),
        (["serve"], {}, "", ["serve", "unknown"]),
        ([], {"INTERLOCK_OPERATOR": "nobody"}, "", ["INTERLOCK_OPERATOR", "any, socket"]),
        ([], {"INTERLOCK_LEDGER_RETENSION_DAYS": "20"}, "", ["did you mean INTERLOCK_LEDGER_RETENTION_DAYS?"]),
        ([], {"INTERLOCK_LEDGER_HISTORY_DAYS": "1.5"}, "", ["INTERLOCK_LEDGER_HISTORY_DAYS", "1.5", "from 14 to"]),
        ([], {"INTERLOCK_LEDGER_": "1"}, "", ["INTERLOCK_LEDGER_", "unknown"]),
        ([], {}, "retention_days = 20", ["key retention_days", "unknown"]),
        ([], {}, "log_levle = 'info'", ["log_levle", "did you mean log_level?"]),
        ([], {}, "[legder]\nretention_days = 20", ["legder", "did you mean ledger?"]),
        ([], {}, "ledger = 3", ["ledger is a table", "[ledger]"]),
        ([], {}, "[ledger]\nretention_dais = 20", ["did you mean retention_days?"]),
        ([], {}, "[ledger]\nretention_days = '20'", ["ledger.retention_days", "whole number"]),
        ([], {}, "[ledger]\nretention_days = true", ["ledger.retention_days", "True"]),
        ([], {}, "state_dir = 3", ["state_dir", "expected a path"]),
        ([], {}, 'socket = "a\\u0000b"', ["socket", "expected a path"]),
        ([], {}, "operator = \nlog_level = 1", ["no TOML", "line 1"]),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place_and_the_way_out(
    tmp_path: Path, argv: list[str], variables: dict[str, str], text: str, parts: list[str]
) -> None:
    user_file(tmp_path, text)
    message = refused(argv, env(tmp_path, **variables))
    assert [part for part in parts if part not in message] == []


@pytest.mark.parametrize(
    ("key", "low"),
    [
        ("requeue_max_attempts", 0),
        ("requeue_ttl_secs", 0),
        ("heartbeat_timeout_ms", 1000),
        ("heartbeat_grace_secs", 1),
        ("stale_after_secs", 1),
        ("stale_watch_secs", 0),
        ("ghost_sweep_secs", 0),
        ("retention_days", 14),
        ("history_days", 14),
    ],
)
def test_each_bound_of_the_ledger_holds_exactly(tmp_path: Path, key: str, low: int) -> None:
    variable = f"INTERLOCK_LEDGER_{key.upper()}"
    others = {"INTERLOCK_LEDGER_HEARTBEAT_TIMEOUT_MS": "1000", variable: str(low)}
    assert getattr(load([], env(tmp_path, **others)).settings.ledger, key) == low
    assert f"from {low} to" in refused([], env(tmp_path, **others | {variable: str(low - 1)}))


def test_values_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    short = refused([], env(tmp_path, INTERLOCK_LEDGER_HEARTBEAT_TIMEOUT_MS="90001"))
    assert "heartbeat_grace_secs (90) is shorter than heartbeat_timeout_ms (90001)" in short
    assert load([], env(tmp_path, INTERLOCK_LEDGER_HEARTBEAT_TIMEOUT_MS="90000")).settings.ledger.history_days == 90
    few = refused([], env(tmp_path, INTERLOCK_LEDGER_RETENTION_DAYS="91"))
    assert "history_days (90) is less than retention_days (91)" in few


@pytest.mark.parametrize("how", ["missing", "a directory", "not UTF-8"])
def test_a_named_file_that_cannot_be_read_is_refused(tmp_path: Path, how: str) -> None:
    path = tmp_path / "config.toml"
    if how == "a directory":
        path.mkdir()
    elif how == "not UTF-8":
        path.write_bytes(b'log_level = "\xff"')
    message = refused(["--config", str(path)], env(tmp_path))
    assert str(path) in message
    assert ("does not exist" if how == "missing" else "cannot be read") in message


def test_a_socket_path_that_is_too_long_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    path = "/" + "x" * 107
    message = refused(["--socket", path, "--state-dir", str(tmp_path / "state")], env(tmp_path))
    for part in (path, "108", "107", "--socket"):
        assert part in message
    assert not (tmp_path / "state").exists()
    deep = env(tmp_path, XDG_RUNTIME_DIR=str(tmp_path / ("x" * 100)))
    assert "XDG_RUNTIME_DIR" in refused([], deep)


def test_a_path_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    assert "UTF-8" in refused(["--state-dir", "/tmp/\udcff"], env(tmp_path))


def test_print_config_shows_each_value_with_its_origin_and_reads_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--socket", "none", "--idle-exit", "9", "--state-dir", f'{tmp_path}/ä "quoted"']
    environ = env(tmp_path, INTERLOCK_LEDGER_RETENTION_DAYS="30")
    with pytest.raises(SystemExit) as stopped:
        load([*argv, "--print-config"], environ)
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    lines = {line.split(" ")[0]: line for line in shown.splitlines()}
    assert lines["idle_exit"].endswith("# option --idle-exit")
    assert lines["retention_days"].endswith("# environment INTERLOCK_LEDGER_RETENTION_DAYS")
    assert lines["history_days"].endswith("# default")
    user_file(tmp_path, shown)
    assert load([], env(tmp_path)).settings == load(argv, environ).settings


@pytest.mark.parametrize(("word", "part"), [("--help", "--state-dir DIR"), ("--version", f"interlockd {VERSION}\n")])
def test_help_and_version_are_printed_and_end_well(word: str, part: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        load([word], {})
    assert stopped.value.code == 0
    assert part in capsys.readouterr().out


def test_the_program_and_the_package_have_one_version() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"] == VERSION


def test_a_client_that_resolves_settings_pays_for_no_argument_parser() -> None:
    script = "import sys; before = set(sys.modules); from interlock.daemon.config import resolve;"
    script += "resolve({}, {'HOME': '/nowhere'}); new = set(sys.modules) - before;"
    script += "print({'argparse', 'asyncio', 'difflib', 'tomllib'} & new)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
