"""The flags that every verb takes, before and after it, and the classes that give them to it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import click

from .client import Client, RpcFailure
from .where import Where, resolve

COMPLETE_VARIABLE: Final = "_INTERLOCK_COMPLETE"
"""What the script of `completion` sets to ask for completions."""
CALL_SECONDS: Final = 60.0
"""How long a verb waits for its answer, on top of what its params ask the daemon to wait, when --timeout is absent."""
STARTING_SECONDS: Final = 5.0
"""How long a verb keeps asking a daemon that answers `starting`."""
_PAUSE: Final = 0.05
_WAITS: Final = ("wait_ms", "timeout_ms", "fresh_wait_ms")
_UNBOUNDED: Final = ("daemon/backup", "daemon/doctor")
"""They read whole files, however large."""


@dataclass(slots=True)
class Settings:
    """What the global flags say. `env` is the environment that places are resolved in."""

    json: bool = False
    quiet: bool = False
    no_color: bool = False
    socket: str | None = None
    state_dir: str | None = None
    no_spawn: bool = False
    timeout: float | None = None
    role: str | None = None
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @property
    def as_json(self) -> bool:
        """Whether results are JSON: asked for, or read by a program."""
        return self.json or not sys.stdout.isatty()

    @property
    def color(self) -> bool:
        """Whether a table may be coloured."""
        return not self.no_color and not self.env.get("NO_COLOR")

    def where(self, config: str | None = None) -> Where:
        """The daemon that is meant."""
        return resolve(self.state_dir, self.socket, self.env, config)

    def connect(self, *, spawn: bool) -> Client:
        """A connection; `spawn` lets the daemon be started, unless --no-spawn forbids. Raises NoDaemon, StartFailed."""
        from . import starting

        return starting.open_client(self.where(), self.env, spawn=spawn and not self.no_spawn)

    def call(self, method: str, params: Any = None, *, spawn: bool = True) -> Any:
        """One request on a connection of its own. Raises RpcFailure, NoDaemon, StartFailed, TimedOut."""
        deadline = time.monotonic() + STARTING_SECONDS
        with self.connect(spawn=spawn) as client:
            while True:
                try:
                    return client.call(method, params, self._seconds(method, params))
                except RpcFailure as failure:
                    # It listens and is not ready yet: nothing was done, and it is a matter of moments.
                    if failure.code != "starting" or time.monotonic() >= deadline:
                        raise
                time.sleep(_PAUSE)

    def _seconds(self, method: str, params: Any) -> float | None:
        if self.timeout is not None or method in _UNBOUNDED:
            return self.timeout
        asked = [params[name] for name in _WAITS if name in params] if isinstance(params, dict) else []
        return CALL_SECONDS + sum(ms for ms in asked if isinstance(ms, int)) / 1000


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if ctx.get_parameter_source(param.name or "") is click.core.ParameterSource.COMMANDLINE:
        setattr(ctx.ensure_object(Settings), str(param.name).removeprefix("global_"), value)


def _flag(name: str, help_text: str, **attributes: Any) -> click.Option:
    declared = [f"--{name}", f"global_{name.replace('-', '_')}"]
    return click.Option(declared, help=help_text, expose_value=False, callback=_keep, **attributes)


def global_flags() -> list[click.Option]:
    """The global flags, made anew for each command."""
    return [
        _flag("json", "Print JSON on a terminal too, and errors as error objects.", is_flag=True),
        _flag("quiet", "Print nothing but errors.", is_flag=True),
        _flag("no-color", "No colours (also: the variable NO_COLOR).", is_flag=True),
        _flag("socket", "Socket of the daemon.", metavar="PATH"),
        _flag("state-dir", "State directory of the daemon.", metavar="DIR"),
        _flag("no-spawn", "Start no daemon when none serves.", is_flag=True),
        _flag("timeout", "How long to wait for the answer.", metavar="SECONDS", type=click.FloatRange(min=0)),
        _flag("role", "Role to act for, where the method takes one.", metavar="ROLE"),
    ]


class GlobalFlags(click.Command):
    """A command that also takes the global flags, but those whose name it uses itself."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its own parameters, then the global ones."""
        own = super().get_params(ctx)
        taken = {name for param in own for name in param.opts}
        return own + [flag for flag in global_flags() if not taken.intersection(flag.opts)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Its own options, and the global flags apart."""
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and not isinstance(param, click.Argument):
                (shared if str(param.name).startswith("global_") else own).append(record)
        for title, records in (("Options", own), ("Global options", shared)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Verb(GlobalFlags):
    """A verb."""


class LazyGroup(GlobalFlags, click.Group):
    """A group whose verbs are made when they are asked for."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As in any group; a verb that there is none of is answered with the near ones."""
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            known = self.list_commands(ctx)
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=known, ctx=ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The verbs first: they are what a person looks for."""
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)


def verb(name: str, **attributes: Any) -> Callable[[Callable[..., Any]], Verb]:
    """Make a verb of a function; the first line of its docstring is the help."""

    def make(function: Callable[..., Any]) -> Verb:
        return click.command(name, cls=Verb, **attributes)(function)

    return make
