"""The verbs that use the daemon: raw calls, the feed, waiting, and standard input and output joined to it."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any, Final

import click

from .failures import TIMED_OUT, UNREACHABLE, Failed
from .output import as_json, show, show_json, write
from .settings import Settings, verb
from .values import JsonValue

WAIT_SECONDS: Final = 30.0
"""How long `wait` waits when --timeout is absent, as `daemon/wait` itself does."""


@verb("call")
@click.argument("method")
@click.argument("params", type=JsonValue(), required=False, metavar="[JSON|@FILE|-]")
@click.pass_obj
def call(settings: Settings, method: str, params: Any) -> None:
    """Call METHOD with params and print the result as one JSON value.

    The params are a JSON object, a file of one (@file), or standard input (-). An error is printed to stderr as its
    error object. For example: interlock call ledger/get '{"msg_id": "msg_1"}'
    """
    settings.json = True
    if settings.role is not None:
        params = _with_role(method, params, settings.role)
    result = settings.call(method, params)
    if not settings.quiet:
        show_json(result)


def _with_role(method: str, params: Any, role: str) -> Any:
    from .families import find_method  # the declarations are dear, and only this needs them
    from .options import with_role

    declared = find_method(method)
    if declared is None or not isinstance(params, dict | None):
        return params
    return with_role(declared, params or {}, role) or params


def _filter_options(function: Any) -> Any:
    for name, text in (
        ("subjects", "Only about this subject (repeatable)."),
        ("roles", "Only of this role (repeatable)."),
        ("families", "Only of this family (repeatable)."),
        ("types", "Only of this type (repeatable)."),
    ):
        function = click.option(f"--{name}", multiple=True, metavar=name[:-1].upper(), help=text)(function)
    return function


@verb("events")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until interrupted.")
@click.option("--after", type=click.IntRange(min=0), metavar="SEQ", help="Only what lies above this seq.")
@click.option("-n", "--max", "most", type=click.IntRange(min=1), metavar="N", help="Stop after so many events.")
@_filter_options
@click.pass_obj
def events(settings: Settings, /, follow: bool, after: int | None, most: int | None, **given: tuple[str, ...]) -> None:
    """Print the event feed, one event per line.

    Without --after all that is kept is printed; with --follow only what comes from now on.
    """
    from . import feed

    wanted = {name: list(values) for name, values in given.items() if values}
    shown = 0
    try:
        for event in feed.Follower(settings, wanted, after).events() if follow else feed.kept(settings, wanted, after):
            if not settings.quiet:
                write(as_json(event, indent=False) if settings.as_json else feed.event_line(event))
            shown += 1
            if shown == most:
                return
    except feed.Stopped as error:
        raise Failed(str(error), UNREACHABLE, after_seq=error.after) from error


@verb("wait")
@click.option("--mail", metavar="ROLE", help="Until a pull of this role would be given something.")
@click.option("--session", metavar="NAME", help="With --mail: the session that would pull.")
@click.option("--kinds", multiple=True, metavar="KIND", help="With --mail: only this kind (repeatable).")
@click.option("--events", multiple=True, metavar="TYPE", help="Until an event of this type comes (repeatable).")
@click.option("--item-ready", is_flag=True, help="Until an item of work is ready.")
@click.option(
    "--labels", multiple=True, metavar="LABEL", help="With --item-ready: that carries this label (repeatable)."
)
@click.option(
    "--lease-ending", type=click.IntRange(min=0), metavar="MS", help="Until a live claim ends within so long."
)
@click.option("--owner", metavar="KIND:ID", help="With --lease-ending: a claim of this owner.")
@click.option("--realm-id", metavar="ID", help="With --item-ready and --lease-ending: in this realm.")
@click.option("--namespace", metavar="ID", help="With --item-ready and --lease-ending: in this namespace.")
@click.option("--filter", "extra", type=JsonValue(), help="More conditions, as the filter of daemon/wait has them.")
@click.option(
    "--after", type=click.IntRange(min=0), metavar="SEQ", help="Events above this seq count, also earlier ones."
)
@click.pass_obj
def wait(settings: Settings, /, after: int | None, extra: Any, **given: Any) -> None:
    """Wait until one of the conditions holds, and print which.

    Waits 30 seconds, or --timeout. Exit code 124 when the time is over and none held.
    """
    from . import feed

    if extra is not None and not isinstance(extra, dict):
        raise click.UsageError("--filter takes a JSON object")
    wanted = {**(extra or {}), **conditions(given)}
    if not wanted:
        raise click.UsageError("wait for what? Give --mail, --events, --item-ready, --lease-ending or --filter.")
    answer = feed.wait(settings, wanted, after, WAIT_SECONDS if settings.timeout is None else settings.timeout)
    show(settings, answer)
    if not answer["matched"]:
        click.get_current_context().exit(TIMED_OUT)


_DETAILS: Final = {
    "mail": ("session", "kinds"),
    "item_ready": ("labels", "realm_id", "namespace"),
    "lease_ending": ("owner", "realm_id", "namespace"),
}
"""The options that say more of a condition of `daemon/wait`."""


def conditions(given: dict[str, Any]) -> dict[str, Any]:
    """The filter that the options make. Raises click.UsageError for a detail of a condition that is not asked for."""
    asked: dict[str, dict[str, Any]] = {}
    if given["mail"] is not None:
        asked["mail"] = {"role": given["mail"]}
    if given["item_ready"]:
        asked["item_ready"] = {}
    if given["lease_ending"] is not None:
        asked["lease_ending"] = {"within_ms": given["lease_ending"]}
    details = {name: _wire(name, value) for name, value in given.items() if name not in asked and value}
    used = {name for condition in asked for name in _DETAILS[condition]}
    for name in sorted(details.keys() - used - {"events"}):
        raise click.UsageError(f"--{name.replace('_', '-')} says more of a condition, and that one is not there")
    for condition, params in asked.items():
        params.update({name: details[name] for name in _DETAILS[condition] if name in details})
    return asked | ({"events": {"types": details["events"]}} if "events" in details else {})


def _wire(name: str, value: Any) -> Any:
    if name == "owner":
        from .short import owner_key  # which needs the records, and those are dear

        return owner_key(value)
    return list(value) if isinstance(value, tuple) else value


@verb("stdio")
@click.option("--private", is_flag=True, help="Serve standard input and output from a process of one's own.")
@click.pass_obj
def stdio(settings: Settings, private: bool) -> None:
    """Join standard input and output to the shared daemon, started if it is absent.

    Every byte is passed on as it is, in both framings. Ends when either side ends.
    """
    if private:
        where = settings.where()
        command = [sys.executable, "-m", "interlock.daemon", "--stdio", "--state-dir", str(where.state_dir)]
        os.execv(command[0], command + (["--socket", settings.socket] if settings.socket else []))  # noqa: S606
    from . import bridge

    bridge.join(settings.connect(spawn=True).detach())


@verb("demo", context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def demo(settings: Settings, arguments: tuple[str, ...]) -> None:
    """Show the main job on real processes: work handed over, an agent killed, its work delivered again."""
    code = import_module("interlock.daemon.cli.demo").run(settings, arguments)
    click.get_current_context().exit(int(code or 0))
