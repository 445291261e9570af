"""The verbs of the work graph on a real daemon: every one is its method, and `graph` shows what they made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from interlock.daemon.cli.client import Client
from interlock.daemon.cli.graph import PAGE

from .harness import Home, new_home, on_a_terminal


@pytest.fixture(scope="module")
def served() -> Iterator[Home]:
    """A home with a daemon. Each test works in a namespace of its own."""
    with new_home() as home:
        assert home.run("start").code == 0
        yield home


class Work:
    """The verbs, in one namespace."""

    def __init__(self, home: Home, namespace: str) -> None:
        self.home = home
        self.namespace = namespace

    def run(self, *arguments: str) -> Any:
        """The result of a verb that succeeds."""
        done = self.home.run("workgraph", *arguments, "--namespace", self.namespace)
        assert (done.code, done.err) == (0, ""), done.err
        return done.value

    def create(self, title: str, *arguments: str) -> str:
        """A new item's id."""
        return str(self.run("create", title, *arguments)["item"]["id"])

    def drawn(self, *arguments: str) -> list[str]:
        """The lines of `graph`, whatever its format."""
        done = self.home.run("workgraph", "graph", "--namespace", self.namespace, *arguments)
        assert (done.code, done.err) == (0, ""), done.err
        return done.out.splitlines()


@pytest.fixture
def work(served: Home, request: pytest.FixtureRequest) -> Work:
    """A namespace that only this test uses."""
    return Work(served, request.node.name)


def test_an_item_goes_its_way_by_verbs_alone(work: Work) -> None:
    item_id = work.create("Build it", "--labels", "x", "--labels", "y")
    assert [item["id"] for item in work.run("ready", "--labels", "x")["items"]] == [item_id]
    claimed = work.run("claim", item_id, "--expected-revision", "1", "--owner", "agent:a")
    assert claimed["item"]["owner"] == {"key": {"kind": "agent", "id": "a"}}
    assert work.run("list", "--owner-key", "agent:a")["items"] == [claimed["item"]]
    fence = ("--fence", str(claimed["fence"]))
    revision = str(work.run("evidence", "add", item_id, "--evidence", "commit:1f2e", *fence)["item"]["revision"])
    closed = work.run("close", item_id, "--expected-revision", revision, *fence)["item"]
    assert (closed["status"], closed["evidence_refs"][0]["id"]) == ("completed", "1f2e")
    assert work.run("claim-next", "--owner", "agent:a").get("item") is None


def test_a_target_may_be_given_as_the_key_that_a_result_shows(work: Work) -> None:
    made = work.run("goal", "create", "--target", "identity:builder", "--title", "T")
    key = made["attention"]["target_key"]
    assert [row["binding_id"] for row in work.run("attention", "list", "--target", key)["attention"]] == [
        made["attention"]["binding_id"]
    ]
    again = work.home.run("workgraph", "goal", "create", "--target", key, "--title", "U", "--namespace", work.namespace)
    assert again.code == 5
    assert "occupied" in again.err


def test_what_is_taken_away_from_an_item_is_gone(work: Work) -> None:
    item_id = work.create("T", "--labels", "x", "--due-at", "2030-01-01T00:00:00Z")
    item = work.run("update", item_id, "--expected-revision", "1", "--clear", "labels", "--clear", "due_at")["item"]
    assert not item.keys() & {"labels", "due_at"}


def test_wait_tells_when_an_item_is_ready_and_when_a_lease_ends(work: Work) -> None:
    scope = ("--namespace", work.namespace, "--timeout", "0")
    ready = ("wait", "--item-ready", "--labels", "x", *scope)
    ending = ("wait", "--lease-ending", "60000", "--owner", "agent:a", *scope)
    assert work.home.run(*ready).code == 124
    item_id = work.create("T", "--labels", "x")
    assert work.home.run(*ready).value["matched"] == ["item_ready"]
    assert work.home.run(*ending).code == 124
    work.run("claim", item_id, "--expected-revision", "1", "--owner", "agent:a", "--lease-seconds", "30")
    assert work.home.run(*ending).value["matched"] == ["lease_ending"]


def planned(work: Work) -> dict[str, str]:
    """A release of two parts, one after the other, that an announcement waits for; something done; a loose end."""
    ids = {title: work.create(title) for title in ("Release", "Build", "Test", "Announce", "Done")}
    for part in ("Build", "Test"):
        work.run("link", "parent", ids[part], ids["Release"])
    work.run("link", "blocks", ids["Build"], ids["Test"])
    work.run("link", "blocks", ids["Release"], ids["Announce"])
    work.run("close", ids["Done"], "--expected-revision", "1")
    work.run("claim", ids["Build"], "--expected-revision", "1", "--owner", "agent:a", "--lease-seconds", "0")
    return ids


def test_the_graph_is_drawn_as_a_tree(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = planned(work)
    monkeypatch.setattr("interlock.daemon.cli.graph.speaks_utf8", lambda env: True)
    everything = [
        f"Release  [waits for 2 children]  {ids['Release']}",
        f"├─ Build  [claimed by agent:a]  {ids['Build']}",
        f"│  └▶ Test  {ids['Test']}  (see below)",
        f"├─ Test  [waits for 1]  {ids['Test']}",
        f"└▶ Announce  [waits for 1]  {ids['Announce']}",
        "4 items: 1 claimed, 3 waiting; ▶ waits for what it hangs from",
    ]
    assert work.drawn("--format", "tree") == everything
    assert f"Done  [completed]  {ids['Done']}" in work.drawn("--format", "tree", "--include-terminal")
    assert work.drawn("--format", "tree", "--root", ids["Test"]) == [
        f"Test  [waits for 1 (1 not shown)]  {ids['Test']}",
        "1 item: 1 waiting",
    ]
    assert work.drawn("--format", "tree", "--labels", "nobody") == ["no items"]


def test_the_graph_is_text_for_graphviz_and_for_mermaid(work: Work) -> None:
    ids = planned(work)
    assert f'  "{ids["Build"]}" -> "{ids["Test"]}";' in work.drawn("--format", "dot")
    assert work.drawn("--format", "mermaid")[0] == "flowchart LR"


def test_the_graph_of_a_program_is_the_snapshot(work: Work) -> None:
    ids = planned(work)
    asked = work.run("snapshot")
    for shown in (work.run("graph"), work.run("graph", "--format", "json")):
        assert shown == asked | {"captured_at": shown["captured_at"]}
    below = work.run("graph", "--root", ids["Test"], "--include-terminal")
    assert ([item["id"] for item in below["items"]], below["edges"]) == ([ids["Test"]], [])


def test_a_graph_of_many_pages_has_each_item_and_each_edge_once(work: Work) -> None:
    count = PAGE + 50
    scope = {"namespace": work.namespace}
    with Client.connect(work.home.run("sockname").out.strip()) as client:
        for start in range(0, count, 50):
            made = [{"method": "workgraph/create", "params": {"title": f"T{start + n}", **scope}} for n in range(50)]
            items = client.call("daemon/batch", {"steps": made})["results"]
            edge = {"kind": "blocks", "from_id": items[0]["item"]["id"], "to_id": items[-1]["item"]["id"], **scope}
            client.call("workgraph/link", edge)
    shown = work.run("graph")
    assert {item["title"] for item in shown["items"]} == {f"T{n}" for n in range(count)}
    assert (len(shown["items"]), len(shown["edges"]), len(shown["ready_item_ids"])) == (count, 11, count - 11)
    assert shown["has_more"] is False
    assert "next_cursor" not in shown


def test_a_root_that_is_not_there_is_refused(work: Work) -> None:
    assert work.home.run("workgraph", "graph", "--root", "work_none", "--namespace", work.namespace).code == 4
    ids = planned(work)
    refused = work.home.run("workgraph", "graph", "--root", ids["Done"], "--namespace", work.namespace)
    assert refused.code == 1
    assert "is not in this selection: it is completed" in refused.err
    assert work.drawn("--quiet", "--root", ids["Build"]) == []


def test_a_terminal_gets_the_tree_in_colours_unless_it_should_not(work: Work) -> None:
    work.create("evil \x1b[2J title")
    arguments = ("workgraph", "graph", "--namespace", work.namespace)
    colored = on_a_terminal(work.home, *arguments, LC_ALL="C.UTF-8")
    assert colored.startswith("evil \\x1b[2J title  \x1b[32m[ready]\x1b[0m  ")
    for plain in (
        on_a_terminal(work.home, *arguments, "--no-color"),
        on_a_terminal(work.home, *arguments, NO_COLOR="1"),
        on_a_terminal(work.home, *arguments, "--format", "dot"),
    ):
        assert "\x1b" not in plain
    assert on_a_terminal(work.home, *arguments, "--json").startswith("{")
