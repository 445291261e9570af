"""One group per family, generated from the method declarations: each verb is exactly one RPC (C36).

The declarations of a family are imported when one of its verbs is asked for, and only those: a family is the modules
of `interlock.protocol` named `<family>` or `<family>_…`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

import click

from interlock import protocol
from interlock.protocol.contract import AnyMethod

from . import options
from .catalogue import FAMILIES, modules_of
from .output import show
from .settings import LazyGroup, Settings, Verb
from .values import read_stdin

CLEARED: Final = ("description", "labels", "due_at", "not_before", "snoozed_until", "external_refs")
"""What `workgraph/update` takes away from an item where it is null."""


def family_methods(family: str) -> tuple[AnyMethod, ...]:
    """Every method of a family, in the order of its modules."""
    modules = [import_module(f"{protocol.__name__}.{name}") for name in modules_of(family)]
    return tuple(method for module in modules for method in getattr(module, "METHODS", ()))


def find_method(name: str) -> AnyMethod | None:
    """The declaration of a method by its name or an alias."""
    family = name.split("/", 1)[0] if "/" in name else "daemon"
    known = family_methods(family) if family in FAMILIES else ()
    return next((method for method in known if name in (method.name, *method.aliases)), None)


def family_group(family: str) -> MethodGroup:
    """The group of a family's verbs."""
    found = {tuple(_path(method)): method for method in family_methods(family)}
    return MethodGroup(family, found, FAMILIES[family], VIEWS.get(family))


class MethodGroup(LazyGroup):
    """The methods below one step of the path: `ledger`, `ledger role`."""

    def __init__(
        self,
        name: str,
        methods: Mapping[tuple[str, ...], AnyMethod],
        help_text: str,
        views: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name, help=help_text)
        self._methods = methods
        self._views = views or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The next steps of all paths, in the order of the declarations, then the views."""
        return list(dict.fromkeys([*(path[0] for path in self._methods), *self._views]))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb or the group of a step; `claim_next` is `claim-next`."""
        step = cmd_name.replace("_", "-")
        if step in self._views:
            view: click.Command = getattr(import_module(f"{__package__}.{self._views[step]}"), step)
            return view
        below = {path[1:]: method for path, method in self._methods.items() if path[0] == step}
        if not below:
            return None
        if () in below:
            return method_verb(step, below[()])
        names = ", ".join(dict.fromkeys(path[0] for path in below))
        return MethodGroup(step, below, f"{step.capitalize()}: {names}")


def method_verb(name: str, method: AnyMethod) -> Verb:
    """The verb of one method."""
    shortcut = SHORTCUTS.get(method.name)
    parameters = options.method_parameters(method) + (shortcut.options() if shortcut else [])

    @click.pass_obj
    def run(settings: Settings, /, **given: Any) -> None:
        params = options.collect(method, given)
        if shortcut:
            params = shortcut.apply(params, given)
        params = options.with_role(method, params, settings.role)
        options.require(method, params)
        show(settings, settings.call(method.name, params or None))

    return Verb(
        name,
        params=parameters,
        callback=run,
        help=method.summary + ".",
        short_help=method.summary,
        epilog=_facts(method),
    )


def _facts(method: AnyMethod) -> str:
    facts = [f"Method {method.name}", method.kind, f"idempotent by {method.idempotent}"]
    facts += ["operator only"] if method.operator_only else []
    facts += ["can be a step of daemon/batch"] if method.batch else []
    return "; ".join(facts) + "."


def _send_options() -> list[click.Parameter]:
    return [
        click.Option(["--text", "short_text"], help="The body's text; - reads standard input."),
        click.Option(["--head", "short_head"], help="The body's head: a preview of your choice."),
        click.Option(["--task", "short_task"], metavar="ID", help="The task that it is about (causality.task)."),
    ]


def _send_params(params: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    text = given.get("short_text")
    if text == "-":
        text = read_stdin()
    parts = {"body": {"text": text, "head": given.get("short_head")}, "causality": {"task": given.get("short_task")}}
    for name, part in parts.items():
        set_here = {key: value for key, value in part.items() if value is not None}
        if set_here:
            base = params.get(name)
            params[name] = {**(base if isinstance(base, dict) else {}), **set_here}
    return params


def _clear_options() -> list[click.Parameter]:
    help_text = f"Take away what is there: {', '.join(CLEARED)} (repeatable)."
    return [click.Option(["--clear", "short_clear"], type=click.Choice(CLEARED), multiple=True, help=help_text)]


def _clear_params(params: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    return {**params, **dict.fromkeys(given["short_clear"])}


class Shortcut(NamedTuple):
    """Options beside a method's fields, and what they put into its params."""

    options: Callable[[], list[click.Parameter]]
    apply: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]


SHORTCUTS: Final = {
    "ledger/send": Shortcut(_send_options, _send_params),
    "workgraph/update": Shortcut(_clear_options, _clear_params),
}
VIEWS: Final = {"workgraph": {"graph": "graph"}}
"""Verbs of a family that are no method of their own but show what its methods tell: each with its module."""


def _path(method: AnyMethod) -> list[str]:
    steps = method.name.split("/")
    return [step.replace("_", "-") for step in (steps[1:] or steps)]
