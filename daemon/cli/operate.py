"""The verbs that run the daemon: start, stop and what an operator asks of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from .client import NoDaemon
from .failures import NEGATIVE, NOT_RUNNING, Failed
from .output import one_line, show, show_json, write
from .settings import COMPLETE_VARIABLE, Settings, verb
from .where import describe_leader, is_led

DRAIN_MS: Final = 5000
_DRAIN = click.IntRange(0, 60_000)
_PASSED_ON: Final = {
    "config": ("FILE", "Configuration file of the daemon."),
    "log-level": ("LEVEL", "debug, info, warning or error."),
    "durability": ("MODE", "full or normal."),
    "idle-exit": ("SECONDS", "Stop when nobody has been connected for so long; 0 is never."),
    "operator": ("WHERE", "Where an unattached connection is the operator: any or socket."),
}
"""Options of `interlockd` that a start passes on, as they are."""


def _passed_on(function: Callable[..., Any]) -> Callable[..., Any]:
    for name, (metavar, text) in reversed(_PASSED_ON.items()):
        function = click.option(f"--{name}", f"daemon_{name.replace('-', '_')}", metavar=metavar, help=text)(function)
    return function


def _daemon_options(given: dict[str, Any]) -> list[str]:
    options: list[str] = []
    for name in _PASSED_ON:
        value = given.get(f"daemon_{name.replace('-', '_')}")
        if value is not None:
            options += [f"--{name}", os.path.abspath(value) if name == "config" else value]
    return options


@verb("start")
@_passed_on
@click.pass_obj
def start(settings: Settings, /, **given: Any) -> None:
    """Start the daemon unless one serves; return when it is ready.

    Waits at most 5 seconds (--timeout). A daemon that fails is reported with its own reason and exit code.
    """
    from . import starting

    seconds = starting.START_SECONDS if settings.timeout is None else settings.timeout
    found = starting.start(settings.where(given["daemon_config"]), settings.env, _daemon_options(given), seconds)
    _show_started(settings, found.status, found.spawned, "already running")


def _show_started(settings: Settings, status: dict[str, Any], spawned: bool, otherwise: str) -> None:
    word = "started" if spawned else otherwise
    text = f"{word}: pid {status['pid']}, socket {status.get('socket', 'none')}, state directory {status['state_dir']}"
    show(settings, {"started": spawned, **status}, lambda: one_line(text))


@verb("stop")
@click.option(
    "--drain-ms", type=_DRAIN, default=DRAIN_MS, show_default=True, help="How long requests that run may take."
)
@click.pass_obj
def stop(settings: Settings, drain_ms: int) -> None:
    """Stop the daemon; return when it has let go of its files.

    It is asked, never signalled. Nothing to stop is no failure.
    """
    from . import stopping

    status = stopping.stop(settings.where(), drain_ms, settings.timeout)
    if status is None:
        show(settings, {"stopped": False}, lambda: "no daemon is running")
    else:
        known = {name: status[name] for name in ("pid", "kind", "instance_id", "state_dir") if name in status}
        show(settings, {"stopped": True, **known}, lambda: f"stopped: pid {status.get('pid')}")


@verb("restart")
@click.option(
    "--drain-ms", type=_DRAIN, default=DRAIN_MS, show_default=True, help="How long requests that run may take."
)
@_passed_on
@click.pass_obj
def restart(settings: Settings, /, drain_ms: int, **given: Any) -> None:
    """Stop the daemon if one runs, then start it.

    Waits for the old one to let go of its files, and takes --timeout for that.
    """
    from . import stopping

    where = settings.where(given["daemon_config"])
    found = stopping.restart(where, settings.env, drain_ms, _daemon_options(given), settings.timeout)
    _show_started(settings, found.status, found.spawned, "running, started by somebody else")


@verb("status")
@click.pass_obj
def status(settings: Settings) -> None:
    """Show the state of the daemon and of its store.

    Never starts a daemon: exit code 3 when none answers.
    """
    try:
        show(settings, settings.call("daemon/status", spawn=False))
    except NoDaemon as error:
        state_dir = settings.where().state_dir
        led = f"; {describe_leader(state_dir)} leads {state_dir}" if is_led(state_dir) else ""
        raise Failed(
            f"{error}{led}", NOT_RUNNING, socket=error.address, state_dir=str(state_dir), remedy="interlock start"
        ) from error


@verb("doctor")
@click.pass_obj
def doctor(settings: Settings) -> None:
    """Look for what is wrong, and say what to do.

    Exit code 1 when a finding is a warning or an error. Never starts a daemon.
    """
    result = settings.call("daemon/doctor", spawn=False)
    show(settings, result)
    if not result["ok"]:
        click.get_current_context().exit(NEGATIVE)


@verb("backup")
@click.argument("path")
@click.pass_obj
def backup(settings: Settings, path: str) -> None:
    """Copy every store into the new directory PATH while writes go on.

    The copy is checked before it gets its name; a failure leaves nothing at PATH.
    """
    show(settings, settings.call("daemon/backup", {"path": os.path.abspath(path)}))


@verb("restore")
@click.argument("directory")
@click.option("--yes", is_flag=True, help="Replace what is there without asking.")
@click.pass_obj
def restore(settings: Settings, directory: str, yes: bool) -> None:
    """Put the backup in DIRECTORY in place of the stores.

    Works without a daemon, and only while nobody uses the state directory. The backup is checked first; what was
    there is kept beside it under a dated name; a failure changes nothing.
    """
    from . import restore as restoring

    source = Path(os.path.abspath(directory))
    state_dir = settings.where().state_dir
    done = restoring.restore(source, state_dir, lambda names: _confirm(state_dir, names, yes))
    lines = [f"restored into {done.state_dir}, as of {done.taken_at} (event {done.event_head}):"]
    lines += [f"  {name}" for name in done.restored]
    lines += ["kept what was there as:", *(f"  {name}" for name in done.kept)] if done.kept else []
    show(settings, done._asdict(), lambda: "\n".join(one_line(line) for line in lines))


def _confirm(state_dir: Path, names: list[str], yes: bool) -> None:
    if yes:
        return
    question = f"This replaces in {state_dir}: {', '.join(names)}."
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Say so with --yes.")
    click.confirm(f"{question} Go on?", abort=True, err=True)


@verb("sockname")
@click.pass_obj
def sockname(settings: Settings) -> None:
    """Print the address of the daemon's socket.

    Starts a daemon when none serves; with --no-spawn it only says where one would listen.
    """
    where = settings.where()
    if settings.no_spawn:
        address = str(where.socket or "none")
    else:
        with settings.connect(spawn=True) as client:
            address = client.address
    _show_word(settings, address, {"socket": address, "state_dir": str(where.state_dir)})


@verb("version")
@click.pass_obj
def version(settings: Settings) -> None:
    """Print the version of this program, and that of the daemon when one answers."""
    from ..version import VERSION
    from .starting import probe

    running = (probe(settings.where()) or {}).get("version")
    found = {"version": VERSION} | ({"daemon_version": running} if running else {})
    _show_word(settings, f"interlock {VERSION}" + (f", daemon {running}" if running else ""), found)


def _show_word(settings: Settings, word: str, record: dict[str, Any]) -> None:
    # A shell takes it as it is, `nc -U $(interlock sockname)`, so JSON comes only where it was asked for.
    if settings.json:
        show_json(record)
    elif not settings.quiet:
        write(one_line(word))


@verb("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    For example: eval "$(interlock completion bash)"
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"there is no completion for {shell}")
    write(found(ctx.find_root().command, {}, "interlock", COMPLETE_VARIABLE).source())
