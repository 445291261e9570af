"""The names of MobKit's SDK for the work graph (contract workgraph 11): which there are, and their params in ours.

Pure. Results are put into its shapes by `mobkit_shapes`, refusals into its numbers by `mobkit_errors`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from interlock.lifecycle.refusal import Refusal
from interlock.lifecycle.types import NAME_BYTES, TEXT_BYTES, Rule

from .contract import AnyMethod, Method, Result
from .mobkit_errors import PREFIX
from .mobkit_shapes import KINDS
from .rules import breach
from .shapes import Items, Object, Shape, shape_of
from .strictjson import bad_value, suspicious
from .workgraph import DEFAULT

CONTRACT_VERSION: Final = "0.5.0"
"""Of the contract that the SDK was written for; it never compares it."""
SHUTDOWN_HORIZON_MS: Final = 10_000
"""How long the SDK waits for the answer of `mobkit/shutdown`, and then for the process to end."""

NAMES: Final = (
    *("snapshot", "list", "get", "ready", "events", "create", "update", "claim", "release", "close", "block", "link"),
    *("evidence/add", "policy/escalate", "goal/create", "goal/status", "goal/confirm", "goal/request_close"),
    *("attention/list", "attention/pause", "attention/resume", "attention/reassign", "attention/prune"),
    "attention/break_glass_reassign",
)
"""What `mobkit/workgraph/<name>` exists for, each standing for `workgraph/<name>`."""
_ENDLESS_KEY: Final = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){256}""")
"""No configuration has a key of so many parts, and reading one takes time by their square."""
SOCKET_ONLY: Final = f"{PREFIX}workgraph/attention/break_glass_reassign"

REFUSED: Final[dict[str, str]] = {
    "realm_id": "the realm is the one of this connection's mobkit/init",
    "authority_projection": "authority is judged by the daemon, against the binding as it is",
    "principal": "who acts is known from the connection",
}
"""Params that would claim something: refused, and why."""
_GRANTED: Final[dict[str, object]] = {"namespace": DEFAULT, "all_namespaces": False}
"""Params that have one value, which is left out."""

IMPLIED: Final[dict[str, dict[str, object]]] = {
    "workgraph/events": {"types": list(KINDS)},
}
"""What the SDK means without saying it. Of the feed only what has a kind there, so that no page is empty by that."""


class InitParams(msgspec.Struct, frozen=True, kw_only=True):
    """What `mobkit/init` looks at of its many params."""

    mob_config: Any = None


class AnyParams(msgspec.Struct, frozen=True, kw_only=True):
    """Params that are not looked at."""


class InitResult(Result, frozen=True, kw_only=True, omit_defaults=False):
    """One answer, also to a client that asked for two: it is the form that old gateways have."""

    contract_version: str = CONTRACT_VERSION
    stdio_shutdown_handshake: bool = True
    stdio_shutdown_horizon_ms: int = SHUTDOWN_HORIZON_MS


class ShutdownResult(Result, frozen=True, kw_only=True, omit_defaults=False):
    """What was in flight is done."""

    shutdown: bool = True
    runtime_cleanup_completed: bool = True


class StatusResult(Result, frozen=True, kw_only=True, omit_defaults=False):
    """That there is somebody."""

    contract_version: str = CONTRACT_VERSION
    running: bool = True
    loaded_modules: list[str] = []
    mob_state: str = "running"


class CapabilitiesResult(Result, frozen=True, kw_only=True, omit_defaults=False):
    """What can be called here under these names."""

    contract_version: str = CONTRACT_VERSION
    methods: list[str]
    workgraph: bool = True
    loaded_modules: list[str] = []
    feature_capabilities: list[str] = []
    runtime_type: str = "interlock"


INIT = Method(name=f"{PREFIX}init", summary="Greet the gateway", params=InitParams, result=InitResult, kind="async")
SHUTDOWN = Method(
    name=f"{PREFIX}shutdown", summary="Finish what is in flight", params=AnyParams, result=ShutdownResult, kind="async"
)
STATUS = Method(
    name=f"{PREFIX}status", summary="That there is somebody", params=AnyParams, result=StatusResult, kind="async"
)
CAPABILITIES = Method(
    name=f"{PREFIX}capabilities",
    summary="What can be called",
    params=AnyParams,
    result=CapabilitiesResult,
    kind="async",
)


def realm_of(mob_config: object) -> str:
    """`mob.<id>` of a mob's configuration, which is TOML with `[mob] id`; `default` of anything else.

    Raises `too_large`. It takes up to a second for a mebibyte.
    """
    if not isinstance(mob_config, str) or _ENDLESS_KEY.search(mob_config):
        return DEFAULT
    if len(mob_config.encode()) > TEXT_BYTES:
        message = f"`mob_config` is larger than {TEXT_BYTES} bytes"
        raise Refusal("too_large", message, path="/mob_config", max=TEXT_BYTES)
    try:
        found = tomllib.loads(mob_config)["mob"]["id"]
    except (tomllib.TOMLDecodeError, LookupError, TypeError, RecursionError):
        return DEFAULT
    realm = f"mob.{found.strip()}" if isinstance(found, str) and found.strip() else DEFAULT
    return DEFAULT if breach(Rule(kind="id", max=NAME_BYTES), realm) else realm


def to_native(method: AnyMethod, raw: bytes, realm: str) -> bytes:
    """The params of the alias of `method`, as its own. `raw` is a JSON object. Raises `invalid_params`.

    The content of an op id is what this returns: said natively, it is the same operation.
    """
    if suspicious(raw) and bad_value(raw) is not None:
        return raw  # its decoder says what may not be there
    given = {name: value for name, value in msgspec.json.decode(raw).items() if value is not None}
    _check(given)
    known = _known(shape_of(method.params), given)
    for name in _GRANTED:
        known.pop(name, None)
    if realm != DEFAULT:
        known["realm_id"] = realm
    return msgspec.json.encode(_completed(method.name, known))


def after(raw: bytes, seq: int) -> bytes:
    """The params of the next page of the feed."""
    return msgspec.json.encode({**msgspec.json.decode(raw), "after_seq": seq})


def _check(given: Mapping[str, object]) -> None:
    for name, why in REFUSED.items():
        if name in given:
            raise Refusal("invalid_params", f"`{name}` is not taken: {why}", path=f"/{name}", expected="no such field")
    for name, only in _GRANTED.items():
        if name in given and (given[name] != only or type(given[name]) is not type(only)):
            expected = msgspec.json.encode(only).decode()
            raise Refusal("invalid_params", f"`{name}` can only be {expected} here", path=f"/{name}", expected=expected)


def _completed(name: str, params: dict[str, Any]) -> dict[str, Any]:
    """With what is meant without being said."""
    if name == "workgraph/events" and params.get("after_seq") == 0:
        del params["after_seq"]
    return {**IMPLIED.get(name, {}), **params}


def _known(shape: Object, given: Mapping[str, Any]) -> dict[str, Any]:
    """Without members that are null or unknown, at every depth that has a shape."""
    return {
        name: value if (field := shape.fields.get(name)) is None else _inside(field.shape, value)
        for name, value in given.items()
        if value is not None and (name in shape.fields or name == shape.tag_field)
    }


def _inside(shape: Shape, value: Any) -> Any:
    if isinstance(value, list):
        items = next((option for option in shape.options if isinstance(option, Items)), None)
        return value if items is None else [_inside(items.item, entry) for entry in value]
    if isinstance(value, dict):
        objects = [option for option in shape.options if isinstance(option, Object)]
        found = next((option for option in objects if option.tag_field is None or _has_tag(option, value)), None)
        return value if found is None else _known(found, value)
    return value


def _has_tag(option: Object, value: Mapping[str, object]) -> bool:
    return value.get(option.tag_field or "") == option.tag
