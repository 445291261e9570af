"""The command line of `interlockd`: which options there are. What their values may be is for `config`."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from typing import Final, NamedTuple, NoReturn

from .config import ConfigError, Given, nearest
from .version import VERSION

DESCRIPTION: Final = """\
Coordination daemon for fleets of AI agents: work, forks, mail and memory over JSON-RPC 2.0.

Without --stdio it serves a Unix socket in the foreground until SIGTERM, SIGINT or daemon/shutdown.
With --stdio it serves its own standard input and output and ends with them."""

EPILOG: Final = """\
Each option is also a variable (INTERLOCK_STATE_DIR) and a key of the file (state_dir). Options win over variables,
variables over the file. A family's settings are a table of the file ([ledger]) and variables (INTERLOCK_LEDGER_...).

exit codes: 0 stopped in order, 2 bad option or setting, 6 state directory not ours or of another schema,
69 socket cannot be bound, 70 failed inside, 75 another process leads this directory.
The last line on stderr says why."""

VALUES: Final = (
    ("state-dir", "DIR", "where everything is kept (default: $XDG_DATA_HOME/interlock)"),
    ("socket", "PATH|none", "where to listen (default: in $XDG_RUNTIME_DIR/interlock, named by the state directory)"),
    ("log-level", "LEVEL", "debug, info (default), warning or error; logs go to stderr"),
    ("durability", "MODE", "full (default: an answer means that the disk has it) or normal"),
    ("idle-exit", "SECONDS", "stop after so long without a connection and without mail in flight (default: 0, never)"),
    ("operator", "WHERE", "where an unattached connection acts as the operator: any (default) or socket"),
)


class Asked(NamedTuple):
    """What the command line asks for: values by key, the file it names, and whether to show the outcome only."""

    options: dict[str, Given]
    config: str | None
    print_config: bool


def parse(argv: Sequence[str]) -> Asked:
    """Read the command line. Raises ConfigError; `--help` and `--version` print and raise SystemExit(0)."""
    parser = _parser()
    found, left = parser.parse_known_args(list(argv))
    if left:
        known = [option for action in parser._actions for option in action.option_strings if option.startswith("--")]
        word = left[0].partition("=")[0]
        raise ConfigError(f"option {word} is unknown: {nearest(word, known)}")
    given = vars(found)
    keys = [(name, name.replace("-", "_")) for name, _, _ in VALUES]
    options = {key: Given(given[key], f"option --{name}", text=True) for name, key in keys if given[key] is not None}
    if found.stdio:
        options["stdio"] = Given(True, "option --stdio", text=False)
    return Asked(options, found.config, found.print_config)


class _Parser(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message} (interlockd --help lists the options)")


def _parser() -> ArgumentParser:
    parser = _Parser(
        prog="interlockd",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--stdio", "--persistent", action="store_true", help="serve standard input and output")
    for name, metavar, text in VALUES:
        parser.add_argument(f"--{name}", metavar=metavar, help=text)
    parser.add_argument("--config", metavar="FILE", help="TOML (default: $XDG_CONFIG_HOME/interlock/config.toml)")
    parser.add_argument("--print-config", action="store_true", help="print each setting with its origin, and stop")
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    return parser
