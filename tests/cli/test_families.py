"""Verbs and methods are the same list (C36), and every verb and option says what it is."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from interlock.daemon.cli.catalogue import FAMILIES, present_families
from interlock.daemon.cli.families import VIEWS, MethodGroup, family_group, family_methods, find_method
from interlock.daemon.cli.main import SECTIONS, cli
from interlock.daemon.cli.options import option_name
from interlock.daemon.cli.settings import Settings, Verb, global_flags
from interlock.protocol.contract import AnyMethod
from interlock.protocol.methods import BY_NAME, METHODS


def verbs_below(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every verb with the words that reach it."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    ctx = click.Context(command)
    for name in command.list_commands(ctx):
        found = command.get_command(ctx, name)
        assert found is not None, f"{path} lists {name} and has it not"
        yield from verbs_below(found, (*path, name))


def family_verbs() -> dict[tuple[str, ...], click.Command]:
    """All generated verbs: those of the families without their views."""
    found = {path: v for family in present_families() for path, v in verbs_below(family_group(family), (family,))}
    return {path: v for path, v in found.items() if path not in view_paths()}


def view_paths() -> set[tuple[str, ...]]:
    """The words of every view."""
    return {(family, name) for family, views in VIEWS.items() for name in views}


def words(method: AnyMethod) -> tuple[str, ...]:
    """The words of a method's verb."""
    name = method.name if "/" in method.name else f"{method.family}/{method.name}"
    return tuple(name.replace("_", "-").split("/"))


def test_every_method_has_a_verb_and_every_verb_is_a_method() -> None:
    assert sorted(family_verbs()) == sorted(words(method) for method in METHODS)


def test_the_families_declare_together_exactly_the_methods_of_the_protocol() -> None:
    declared = [method.name for family in present_families() for method in family_methods(family)]
    assert sorted(declared) == sorted(method.name for method in METHODS)
    assert {method.family for method in METHODS} <= set(FAMILIES)


def test_a_method_is_found_by_its_name_and_by_its_alias() -> None:
    for name, method in BY_NAME.items():
        if "/" in name or method.family == "daemon":
            assert find_method(name) is method
    assert find_method("nobody/knows") is None


def test_a_verb_may_be_written_as_the_method_is() -> None:
    group = MethodGroup("workgraph", {("claim-next",): BY_NAME["daemon/ping"]}, "")
    assert group.get_command(click.Context(group), "claim_next") is not None


@pytest.mark.parametrize("path", sorted(family_verbs()), ids=" ".join)
def test_a_generated_verb_explains_itself_and_each_of_its_options(path: tuple[str, ...]) -> None:
    verb = family_verbs()[path]
    method = next(method for method in METHODS if words(method) == path)
    assert verb.short_help == method.summary
    ctx = click.Context(verb, info_name=path[-1], obj=Settings())
    text = " ".join(verb.get_help(ctx).split())
    assert method.summary in text
    assert f"Method {method.name}" in text
    for param in verb.get_params(ctx):
        if isinstance(param, click.Option):
            assert param.help, f"{param.name} has no help"


@pytest.mark.parametrize("method", METHODS, ids=lambda method: str(method.name))
def test_no_field_takes_a_name_that_the_command_line_needs_itself(method: AnyMethod) -> None:
    from msgspec.structs import fields

    names = {option_name(field) for field in fields(method.params)}
    assert not names & {"--params", "--help", "--json", "--quiet", "--state-dir", "--socket", "--no-spawn"}


@pytest.mark.parametrize("name", [name for section in SECTIONS.values() for name in section])
def test_a_hand_written_verb_is_listed_with_the_first_line_of_its_own_help(name: str) -> None:
    verb = cli.get_command(click.Context(cli), name)
    assert isinstance(verb, Verb)
    listed = next(section[name].summary for section in SECTIONS.values() if name in section)
    assert (verb.help or "").splitlines()[0] == listed
    for param in verb.params:
        assert not isinstance(param, click.Option) or param.help, f"{name} {param.name} has no help"


@pytest.mark.parametrize("path", sorted(view_paths()), ids=" ".join)
def test_a_view_is_a_verb_of_its_family_and_explains_each_of_its_options(path: tuple[str, ...]) -> None:
    group = family_group(path[0])
    assert path[1] in group.list_commands(click.Context(group))
    verb = group.get_command(click.Context(group), path[1])
    assert isinstance(verb, Verb)
    assert all(param.help for param in verb.params if isinstance(param, click.Option))


def test_every_verb_takes_every_global_flag() -> None:
    flags = {flag.opts[0] for flag in global_flags()}
    for path, verb in verbs_below(cli, ()):
        taken = {opt for param in verb.get_params(click.Context(verb)) for opt in param.opts}
        assert flags <= taken, path


def test_the_help_of_the_program_has_the_verbs_by_what_they_are_for() -> None:
    text = cli.get_help(click.Context(cli, info_name="interlock", obj=Settings()))
    order = [text.index(f"\n{title}:\n") for title in ("Operate", "Use", "Families", "Options", "Global options")]
    assert order == sorted(order)
    for name in cli.list_commands(click.Context(cli)):
        assert f"  {name} " in text
