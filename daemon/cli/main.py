"""`interlock`: the entry point, and the list of verbs. Each is imported when it is asked for: every call pays."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, NamedTuple

import click

from ..places import StartError
from .client import NoDaemon, RpcFailure, TimedOut
from .failures import INTERNAL, INTERRUPTED, PIPE_CLOSED, Failed, report
from .output import PipeClosed, show_error, write
from .settings import COMPLETE_VARIABLE, LazyGroup, Settings


class Entry(NamedTuple):
    """A verb: the module that has it under its own name, and its line in the list."""

    module: str
    summary: str


SECTIONS: Final[dict[str, dict[str, Entry]]] = {
    "Operate": {
        "start": Entry("operate", "Start the daemon unless one serves; return when it is ready."),
        "stop": Entry("operate", "Stop the daemon; return when it has let go of its files."),
        "restart": Entry("operate", "Stop the daemon if one runs, then start it."),
        "status": Entry("operate", "Show the state of the daemon and of its store."),
        "doctor": Entry("operate", "Look for what is wrong, and say what to do."),
        "backup": Entry("operate", "Copy every store into the new directory PATH while writes go on."),
        "restore": Entry("operate", "Put the backup in DIRECTORY in place of the stores."),
        "sockname": Entry("operate", "Print the address of the daemon's socket."),
        "version": Entry("operate", "Print the version of this program, and that of the daemon when one answers."),
        "completion": Entry("operate", "Print the completion script of a shell."),
    },
    "Use": {
        "call": Entry("use", "Call METHOD with params and print the result as one JSON value."),
        "events": Entry("use", "Print the event feed, one event per line."),
        "wait": Entry("use", "Wait until one of the conditions holds, and print which."),
        "stdio": Entry("use", "Join standard input and output to the shared daemon, started if it is absent."),
        "demo": Entry(
            "use", "Show the main job on real processes: work handed over, an agent killed, its work delivered again."
        ),
    },
}
_ENTRIES: Final = {name: entry for section in SECTIONS.values() for name, entry in section.items()}

HELP: Final = """\
Work, mail and memory for fleets of AI agents on one machine.

A verb talks to the daemon of the state directory, and starts it when none serves. Results are tables on a terminal and
JSON in a pipe or with --json.

\b
Exit codes: 0 done; 1 the answer is negative; 2 wrong usage; 3 status: not running; 4 not found;
5 conflict; 6 not permitted; 69 no daemon reached or started; 70 it failed inside; 75 try again;
124 the time is over; 130 interrupted.
"""


class Root(LazyGroup):
    """All verbs, by what they are for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every verb, then every family."""
        from .catalogue import present_families

        return [*_ENTRIES, *present_families()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb, or the group of the family."""
        entry = _ENTRIES.get(cmd_name)
        if entry is not None:
            found = getattr(import_module(f"{__package__}.{entry.module}"), cmd_name)
            return found if isinstance(found, click.Command) else None
        from .catalogue import present_families

        if cmd_name not in present_families():
            return None
        from .families import family_group

        return family_group(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs by section, without importing any."""
        from .catalogue import FAMILIES, present_families

        sections = {title: [(name, e.summary) for name, e in found.items()] for title, found in SECTIONS.items()}
        sections["Families"] = [(family, FAMILIES[family]) for family in present_families()]
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        from ..version import VERSION

        write(f"interlock {VERSION}")
        ctx.exit()


_VERSION: Final = click.Option(
    ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
cli: Final = Root(
    "interlock",
    params=[_VERSION],
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    settings = Settings()
    asked_for_json = "--json" in arguments  # also where the flags could not be read
    try:
        code = cli.main(arguments, "interlock", COMPLETE_VARIABLE, standalone_mode=False, obj=settings)
    except PipeClosed:
        return _pipe_closed()
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.ClickException as error:
        return _usage(error, json_wanted=settings.json or asked_for_json)
    except (RpcFailure, NoDaemon, TimedOut, Failed, StartError, OSError) as failure:
        error_object, code = report(failure)
        show_error(error_object, json_wanted=settings.json or asked_for_json)
    except Exception:  # a bug: it must not look like an exit code that means something
        import traceback

        traceback.print_exc()
        return INTERNAL
    return code if isinstance(code, int) else 0


def _usage(error: click.ClickException, *, json_wanted: bool) -> int:
    if json_wanted:
        data = {"code": "invalid_params", "retryable": False}
        show_error({"code": -32602, "message": error.format_message(), "data": data}, json_wanted=True)
    else:
        error.show()
    return error.exit_code


def _pipe_closed() -> int:
    # Whoever read has seen enough. Python would complain once more when it flushes at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED
