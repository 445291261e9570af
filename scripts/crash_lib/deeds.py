"""Noting down what the clients of the work graph ask for and are told."""

from __future__ import annotations

from typing import Any, Final

from .facts import ABSENT, Deed, Deeds, EdgeKey, Facts

EXPECTED: Final = frozenset(
    {
        *("stale_revision", "already_claimed", "invalid_transition", "stale_lease", "fence_required", "occupied"),
        *("duplicate", "authority_missing", "at_capacity", "not_found"),
    }
)
"""How clients are refused that do not wait for each other."""
LINKS: Final = frozenset({"workgraph/link", "workgraph/unlink"})


def begin(facts: Facts, deed: Deed) -> None:
    """It is about to be sent: what is not answered may have been done."""
    with facts.lock:
        facts.work.all.append(deed)
        if deed.method in LINKS:
            facts.work.edges[_edge(deed.params)] = None


def end(facts: Facts, deed: Deed, answer: dict[str, Any]) -> None:
    """It was answered."""
    if "result" in answer:
        facts.count("deeds acknowledged")
        deed.result = answer["result"]
        with facts.lock:
            twice = learn(facts.work, deed.method, deed.params, answer["result"])
        if twice is not None:
            facts.violated(twice)
        return
    data = answer["error"]["data"]
    facts.count("deeds refused")
    deed.refused = data["code"]
    late = data.get("path") == "/lease_expires_at"  # it was in the future when the client wrote it
    if data["code"] not in EXPECTED and not data["retryable"] and not late:
        facts.violated(f"{deed.method} was refused: {answer['error']}")


def learn(known: Deeds, method: str, params: dict[str, Any], result: dict[str, Any]) -> str | None:
    """Note what a result says of the store; what is wrong with it by itself."""
    if method == "daemon/batch":
        parts = zip(params["steps"], result["results"], strict=True)
        found = [learn(known, step["method"], step["params"], part) for step, part in parts]
        return next((wrong for wrong in found if wrong is not None), None)
    for item in (result.get("item"), result.get("settled")):
        _newer(known.items, "id", item)
    for binding in (result.get("attention"), result.get("previous"), *result.get("duplicates", ())):
        if isinstance(binding, dict):  # a member's are a list, and old news
            _newer(known.bindings, "binding_id", binding)
    known.stopped.update(result.get("stopped_bindings", ()))
    if "edge" in result:
        edge = result["edge"]
        known.edges[_edge(edge)] = ABSENT if method == "workgraph/unlink" else edge.get("on_failure", "")
    if "fence" in result:
        return _held(known, result["item"], result["fence"])
    return None


def _held(known: Deeds, item: dict[str, Any], fence: int) -> str | None:
    owner = item["owner"]["key"]["id"]
    first = known.claims.setdefault((item["id"], fence), owner)
    return None if first == owner else f"{item['id']}: fence {fence} was given to {first} and to {owner}"


def _edge(edge: dict[str, Any]) -> EdgeKey:
    return edge["kind"], edge["from_id"], edge["to_id"]


def _newer(known: dict[str, dict[str, Any]], key: str, said: dict[str, Any] | None) -> None:
    if said is not None:
        before = known.get(said[key])
        if before is None or said["revision"] >= before["revision"]:
            known[said[key]] = said
