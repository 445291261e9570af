"""`daemon/batch`: up to 64 writes in one transaction, all or nothing (contract daemon 3)."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from interlock.lifecycle.refusal import Refusal
from interlock.protocol import daemon as contract
from interlock.protocol import strictjson
from interlock.protocol.limits import DEPTH, MESSAGE_BYTES
from interlock.stores.tx import Tx

from ..dispatch import Bound, Call, invoke, permit, writes

_encode = msgspec.json.Encoder().encode


@writes(contract.BATCH)
def batch(tx: Tx, call: Call, params: contract.BatchParams) -> contract.BatchResult:
    bounds = [_bound(call, n, step) for n, step in enumerate(params.steps)]
    results: list[Any] = []
    for n, (bound, step) in enumerate(zip(bounds, params.steps, strict=True)):
        try:
            results.append(_run(tx, call, bound, step, results, params.op_id))
        except Refusal as refusal:
            about = {**refusal.data, "step": n, "method": step.method}
            raise Refusal(refusal.code, refusal.message, **about) from refusal
    return contract.BatchResult(results=results)


def _bound(call: Call, n: int, step: contract.Step) -> Bound:
    bound = call.services.methods.get(step.method)
    path = f"/steps/{n}/method"
    if bound is None:
        unknown = call.services.no_method(step.method)
        raise Refusal("invalid_params", unknown.message, path=path, expected=unknown.data.get("expected", "a method"))
    if not bound.method.batch:
        raise Refusal(
            "invalid_params", f"{step.method} cannot be a step", path=path, expected="a write with batch: yes"
        )
    return bound


def _run(tx: Tx, call: Call, bound: Bound, step: contract.Step, results: list[Any], op_id: str | None) -> Any:
    raw = _encode(_Earlier(results).put_into(step.params or {}, ""))
    if strictjson.is_too_deep(raw):
        raise Refusal("too_deep", f"with its references the step is nested deeper than {DEPTH}", max=DEPTH)
    params = bound.params_of(raw)
    permit(call.caller, bound.method)
    if op_id is not None and getattr(params, "op_id", None) == op_id:
        raise Refusal("op_conflict", "this op_id is the batch's own")
    return msgspec.to_builtins(invoke(tx, bound, call, params, raw))


class _Earlier:
    """The results of earlier steps, for one step's params. Together its references stand for no more than a message."""

    def __init__(self, results: list[Any]) -> None:
        self._results = results
        self._room = MESSAGE_BYTES

    def put_into(self, value: Any, path: str) -> Any:
        """Put results where `$ref` stands for them. Raises `invalid_params`, `too_large` with the reference's path."""
        if isinstance(value, dict):
            if value.keys() == {"$ref"}:
                return self._measured(_refer(value["$ref"], self._results, path), path)
            return {key: self.put_into(inner, f"{path}/{_escape(key)}") for key, inner in value.items()}
        if isinstance(value, list):
            return [self.put_into(inner, f"{path}/{n}") for n, inner in enumerate(value)]
        return value

    def _measured(self, found: Any, path: str) -> Any:
        self._room -= len(_encode(found))
        if self._room < 0:
            message = "the references of this step stand for more than a message may hold"
            raise Refusal("too_large", message, path=path, max=MESSAGE_BYTES)
        return found


def _refer(pointer: object, results: list[Any], path: str) -> Any:
    found: Any = results
    try:
        if not isinstance(pointer, str) or not pointer.startswith("/"):
            raise LookupError
        for part in pointer[1:].split("/"):
            found = _step_into(found, part.replace("~1", "/").replace("~0", "~"))
    except (LookupError, ValueError, TypeError):
        expected = "a JSON pointer into the result of an earlier step, as /0/msg_id"
        raise Refusal("invalid_params", "this reference points to nothing", path=path, expected=expected) from None
    return found


def _step_into(value: Any, part: str) -> Any:
    if isinstance(value, list):
        if not part.isascii() or not part.isdecimal() or (part != "0" and part.startswith("0")):
            raise LookupError(part)
        return value[int(part)]
    return cast(dict[str, Any], value)[part]


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
