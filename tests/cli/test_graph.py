"""The work graph as a tree, for Graphviz and for Mermaid: from hand-made snapshots."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.daemon.cli.graph import joined, speaks_utf8
from interlock.daemon.cli.graph_drawn import dot, mermaid
from interlock.daemon.cli.graph_model import TITLE_CHARS, Graph, below, graph_of, homes, remarks, state_of
from interlock.daemon.cli.graph_text import ASCII, DEEPEST, UNICODE, tree

from .graphs import Row, binding, claim, edge, item, snapshot

LATER, EARLIER = "2026-12-01T12:03:00.000Z", "2026-12-01T11:00:00.000Z"
TOMORROW = "2026-12-02T08:30:00.000Z"
GATES = "not before 12:03Z, snoozed until 2026-12-02 08:30Z"


def drawn(*arguments: Any, **options: Any) -> list[str]:
    """The tree of a snapshot, without the line that sums it up."""
    return tree(graph_of(snapshot(*arguments)), **options)[:-1]


def children(active: int = 0, failed: int = 0, cancelled: int = 0) -> Row:
    """The counts of a parent."""
    return {"children": {"active": active, "completed": 0, "failed": failed, "cancelled": cancelled}}


@pytest.mark.parametrize(
    ("fields", "ready", "word", "text"),
    [
        ({}, True, "ready", "ready"),
        ({}, False, "waiting", "open"),
        (claim("agent:a"), False, "claimed", "claimed by agent:a"),
        (claim("agent:a", LATER), False, "claimed", "claimed by agent:a until 12:03Z"),
        (claim("agent:a", TOMORROW), False, "claimed", "claimed by agent:a until 2026-12-02 08:30Z"),
        (claim("agent:a", EARLIER), True, "ready", "ready"),
        (claim("agent:\x1b[2J"), False, "claimed", "claimed by agent:\\x1b[2J"),
        ({"status": "blocked"}, False, "blocked", "blocked"),
        ({"status": "blocked", "block_note": "no\nkey"}, False, "blocked", "blocked: no\\nkey"),
        ({"status": "completed"}, False, "completed", "completed"),
        ({"status": "cancelled"}, False, "cancelled", "cancelled"),
        ({"status": "failed"}, False, "failed", "failed"),
        ({"unresolved_blockers": 2}, False, "waiting", "waits for 2 (2 not shown)"),
        ({"join_state": "waiting", **children(active=1)}, False, "waiting", "waits for 1 child"),
        ({"join_state": "waiting", **children(active=3, failed=1)}, False, "waiting", "waits for 3 children"),
        (
            {"join_state": "waiting", **children(failed=1, cancelled=2)},
            False,
            "waiting",
            "held by 1 failed child, held by 2 cancelled children",
        ),
        (
            {"join_state": "waiting", "failed_child_join_policy": "accept", **children(failed=1, cancelled=1)},
            False,
            "waiting",
            "held by 1 cancelled child",
        ),
        ({"join_state": "propagate_failure"}, False, "waiting", "a claim settles it as failed"),
        ({"join_state": "propagate_cancellation"}, False, "waiting", "a claim settles it as cancelled"),
        ({"not_before": LATER, "snoozed_until": TOMORROW}, False, "waiting", GATES),
        ({"not_before": EARLIER}, True, "ready", "ready"),
    ],
)  # fmt: skip
def test_how_an_item_stands_is_said_in_words(fields: Row, ready: bool, word: str, text: str) -> None:
    made = item("w", **fields)
    assert state_of(graph_of(snapshot([made], ready=["w"] if ready else [])), made) == (word, text)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, []),
        ({"priority": "high"}, ["high priority"]),
        ({"priority": "low", "due_at": LATER}, ["low priority", "due 12:03Z"]),
        ({"due_at": EARLIER, "overdue": True}, ["OVERDUE since 11:00Z"]),
        ({"due_at": EARLIER, "status": "completed", "terminal_at": EARLIER}, []),
    ],
)
def test_what_else_a_person_wants_to_know_is_said_too(fields: Row, said: list[str]) -> None:
    made = item("w", **fields)
    assert remarks(graph_of(snapshot([made])), made) == said


def test_who_attends_is_said_while_they_occupy() -> None:
    bound = [
        binding("w", "session:s1"),
        binding("w", "session:s2", state="stopped"),
        binding("w", "owner:agent:a", "review", "paused"),
        binding("w", "owner:agent:b"),
    ]
    made = item("w")
    assert remarks(graph_of(snapshot([made], attention=bound)), made) == [
        "attended by session:s1",
        "attended by owner:agent:a (review, paused)",
        "and by 1 more",
    ]


@pytest.mark.parametrize(
    ("blocker", "on_failure", "hidden"),
    [
        ("open", "block", False),
        ("failed", "block", False),
        ("failed", "release", True),
        ("cancelled", "release", True),
        ("completed", "block", True),
    ],
)
def test_a_blocker_counts_as_shown_where_it_is_one(blocker: str, on_failure: str, hidden: bool) -> None:
    made = item("b", unresolved_blockers=1)
    graph = graph_of(snapshot([item("a", status=blocker), made], [edge("blocks", "a", "b", on_failure=on_failure)]))
    assert state_of(graph, made).text == ("waits for 1 (1 not shown)" if hidden else "waits for 1")


def test_a_tree_has_parts_below_their_parent_and_what_waits_behind_an_arrow() -> None:
    items = [
        item("p", "Release", join_state="waiting", **children(active=2)),
        item("a", "Build"),
        item("b", "Test", unresolved_blockers=1),
        item("c", "Announce", unresolved_blockers=1),
    ]
    edges = [edge("parent", "a", "p"), edge("parent", "b", "p"), edge("blocks", "a", "b"), edge("blocks", "b", "c")]
    edges.append(edge("related", "c", "p"))
    assert drawn(items, edges, ["a"]) == [
        "Release  [waits for 2 children]  p",
        "├─ Build  [ready]  a",
        "│  └▶ Test  b  (see below)",
        "└─ Test  [waits for 1]  b",
        "   └▶ Announce  [waits for 1]  c",
        "      └┄ related Release  p",
    ]


def test_an_item_at_several_places_is_printed_once_in_full() -> None:
    items = [item("a"), item("b"), item("c"), item("d")]
    edges = [edge("blocks", "a", "c"), edge("blocks", "b", "c"), edge("blocks", "c", "d"), edge("parent", "c", "a")]
    assert drawn(items, edges) == [
        "A  [open]  a",
        "├─ C  [open]  c",
        "│  └▶ D  [open]  d",
        "└▶ C  c  (see above)",
        "B  [open]  b",
        "└▶ C  c  (see above)",
    ]


def test_the_line_at_the_end_sums_up() -> None:
    assert tree(graph_of(snapshot([]))) == ["no items"]
    assert tree(graph_of(snapshot([item("a")], ready=["a"])))[-1] == "1 item: 1 ready"
    items = [item("a", overdue=True, due_at=EARLIER), item("b", **claim("agent:a")), item("c", status="failed")]
    summary = tree(graph_of(snapshot(items, [edge("blocks", "a", "b")], ["a"])))[-1]
    assert summary == "3 items: 1 ready, 1 claimed, 1 failed, 1 overdue; ▶ waits for what it hangs from"


def test_items_come_in_the_order_of_their_creation() -> None:
    items = [item("c", created_at=EARLIER), item("b"), item("a")]
    assert [line[0] for line in drawn(items)] == ["C", "A", "B"]


def test_edges_to_items_outside_the_selection_are_left_out() -> None:
    assert drawn([item("a")], [edge("blocks", "a", "x"), edge("parent", "x", "a"), edge("related", "a", "x")]) == [
        "A  [open]  a"
    ]


def test_a_child_that_blocks_its_own_parent_hangs_from_it() -> None:
    assert drawn([item("p"), item("a")], [edge("parent", "a", "p"), edge("blocks", "a", "p")]) == [
        "P  [open]  p",
        "└─ A  [open]  a",
        "   └▶ P  p  (see above)",
    ]


def test_the_root_that_was_asked_for_is_the_root() -> None:
    items = [item("p"), item("a"), item("b"), item("x")]
    edges = [edge("parent", "a", "p"), edge("blocks", "a", "b"), edge("blocks", "x", "a")]
    graph = graph_of(snapshot(items, edges))
    assert below(graph, "a") == {"a", "b"}
    assert below(graph, "p") == {"p", "a", "b"}
    assert "a" not in homes(graph, "a")


def test_without_utf8_everything_is_ascii() -> None:
    edges = [edge("blocks", "a", "b"), edge("parent", "c", "a")]
    lines = tree(graph_of(snapshot([item("a", "Grün"), item("b"), item("c")], edges)), strokes=ASCII)
    assert lines[:3] == ["Gr\\xfcn  [open]  a", "|- C  [open]  c", "`> B  [open]  b"]
    assert all(line.isascii() for line in lines)


@pytest.mark.parametrize(
    ("env", "spoken"),
    [
        ({"LANG": "de_DE.UTF-8"}, True),
        ({"LC_CTYPE": "C.utf8"}, True),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, False),
        ({"LC_ALL": "", "LANG": "en_US.UTF-8"}, True),
        ({}, False),
    ],
)
def test_the_locale_says_whether_utf8_is_spoken(env: dict[str, str], spoken: bool) -> None:
    assert speaks_utf8(env) is spoken


def test_colours_are_put_around_what_they_are_for_and_nothing_else() -> None:
    items = [item("a", due_at=EARLIER, overdue=True), item("b"), item("c")]
    graph = graph_of(
        snapshot(items, [edge("parent", "b", "a"), edge("blocks", "b", "c"), edge("parent", "c", "a")], ["b"])
    )
    lines = tree(graph, paint=lambda name, text: f"<{name}:{text}>")
    assert lines[:3] == [
        "A  <waiting:[open]> <overdue:OVERDUE since 11:00Z>  <faint:a>",
        "├─ B  <ready:[ready]>  <faint:b>",
        "│  └▶ C  <faint:c>  <faint:(see below)>",
    ]  # fmt: skip


def test_a_chain_of_ten_thousand_goes_on_beside_the_margin() -> None:
    ids = [f"w{n:05}" for n in range(10_000)]
    edges = [edge("blocks", one, other) for one, other in pairwise(ids)]
    lines = drawn([item(item_id) for item_id in ids], edges)
    assert [line.split()[-1] for line in lines if "[open]" in line] == ids
    assert lines[DEEPEST + 1].endswith("w00025  (see below)")
    assert lines[DEEPEST + 2] == "… W00025  [open]  w00025"
    assert max(map(len, lines)) < 120


def test_a_parent_of_ten_thousand_that_all_wait_for_it_is_drawn() -> None:
    ids = [f"w{n:05}" for n in range(10_000)]
    edges = [edge("parent", one, "p") for one in ids] + [edge("blocks", "p", one) for one in ids]
    lines = drawn([item("p"), *map(item, ids)], edges)
    assert len(lines) == 20_001


ids = st.sampled_from("abcdefgh")
edges_of_any_kind = st.lists(
    st.builds(edge, st.sampled_from(["blocks", "parent", "related", "supersedes"]), ids, ids), max_size=30
)


@given(edges_of_any_kind)
def test_each_item_is_printed_in_full_exactly_once_whatever_the_edges_are(edges: list[Row]) -> None:
    # An edge is there once: so says the store.
    edges = list({(row["kind"], row["from_id"], row["to_id"]): row for row in edges}.values())
    lines = drawn([item(item_id) for item_id in "abcdefgh"], edges)
    assert sorted(line.split()[-1] for line in lines if "[open]" in line) == list("abcdefgh")


@given(edges_of_any_kind)
def test_no_item_is_its_own_home_however_far_up(edges: list[Row]) -> None:
    home = homes(graph_of(snapshot([item(item_id) for item_id in "abcdefgh"], edges)))
    for item_id in "abcdefgh":
        steps = [item_id]
        while steps[-1] in home:
            steps.append(home[steps[-1]])
            assert len(steps) <= 8


titles = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=TITLE_CHARS + 5)


def with_title(title: str) -> Graph:
    """Two items, of which one has a title and a note of an agent's choice."""
    return graph_of(
        snapshot([item("a", title, status="blocked", block_note=title), item("b")], [edge("blocks", "a", "b")])
    )


@given(titles)
def test_any_title_is_one_line_of_a_tree_without_control_characters(title: str) -> None:
    lines = tree(with_title(title))
    assert len(lines) == 3
    assert all(len(line.splitlines()) == 1 and not re.search(r"[\x00-\x1f\x7f-\x9f\u202e]", line) for line in lines)


DOT_NODE = re.compile(r' {2}"[ab]" \[label="(?:[^"\\]|\\.)*", fillcolor="#[0-9a-f]{6}"\];')
MERMAID_NODE = re.compile(r' {2}n[01]\["(?:[^\W_]|[ ,./\'()+=?!-]|#\d+;|<br/>)*"\]:::[a-z]+')


@given(titles)
def test_any_title_is_quoted_text_of_one_node_for_graphviz(title: str) -> None:
    lines = dot(with_title(title))
    assert [bool(DOT_NODE.fullmatch(line)) for line in lines] == [False] * 3 + [True, True, False, False]
    assert all(len(line.splitlines()) == 1 for line in lines)


@given(titles)
def test_any_title_is_quoted_text_of_one_node_for_mermaid(title: str) -> None:
    lines = mermaid(with_title(title))
    assert [bool(MERMAID_NODE.fullmatch(line)) for line in lines[:4]] == [False, True, True, False]
    assert all(len(line.splitlines()) == 1 for line in lines)


EDGES = [edge("blocks", "a", "b"), edge("parent", "c", "a"), edge("derived_from", "b", "c")]


AS_DOT = (
    r'  "a" [label="say \"hi\" &amp; \\n\n[open]\nOVERDUE since 11:00Z\na", '
    'fillcolor="#fff9c4", color=red, penwidth=2];'
)


def test_graphviz_gets_every_item_and_every_edge() -> None:
    items = [item("a", 'say "hi" & \\n', due_at=EARLIER, overdue=True), item("b"), item("c")]
    assert dot(graph_of(snapshot(items, EDGES, ["c"])))[3:] == [
        AS_DOT,
        '  "b" [label="B\\n[open]\\nb", fillcolor="#fff9c4"];',
        '  "c" [label="C\\n[ready]\\nc", fillcolor="#c8e6c9"];',
        '  "a" -> "b";',
        '  "a" -> "c" [dir=both, arrowtail=odiamond, arrowhead=none, label="part"];',
        '  "b" -> "c" [style=dashed, constraint=false, label="derived from"];',
        "}",
    ]


def test_mermaid_gets_every_item_and_every_edge() -> None:
    lines = mermaid(graph_of(snapshot([item("a", '1. "%%{init"'), item("b"), item("c")], EDGES, ["c"])))
    assert lines[:7] == [
        "flowchart LR",
        '  n0["#49;. #34;#37;#37;#123;init#34;<br/>#91;open#93;<br/>a"]:::waiting',
        '  n1["B<br/>#91;open#93;<br/>b"]:::waiting',
        '  n2["C<br/>#91;ready#93;<br/>c"]:::ready',
        "  n0 --> n1",
        '  n0 -- "part" --- n2',
        '  n1 -. "derived from" .-> n2',
    ]
    assert all(line.startswith("  classDef ") for line in lines[7:])


def test_the_strokes_of_both_trees_are_equally_wide() -> None:
    for relation in ("child", "waiter", "note"):
        widths = {len(kind[relation]) for strokes in (UNICODE, ASCII) for kind in (strokes.last, strokes.other)}
        assert widths == {len(UNICODE.beside)} == {len(ASCII.beside)}


def test_an_item_that_comes_again_counts_with_its_edges_as_they_are_on_the_later_page() -> None:
    a, b, changed = item("a"), item("b"), item("a", revision=2)
    kept, gone, new = edge("blocks", "b", "a"), edge("blocks", "a", "b"), edge("related", "a", "b")
    left, here = binding("a", "owner:agent:left"), binding("a", "owner:agent:here")
    before = snapshot([a, b], [kept, gone], ["a", "b"], [left])
    after = snapshot([changed], [new], [], [here]) | {"event_high_water_mark": 9, "as_of_seq": 9}
    assert joined([before, after]) == snapshot([b, changed], [kept, new], ["b"], [here])
    assert joined([before]) == before | {"edges": [gone, kept]}


def test_pages_become_one_without_a_cursor() -> None:
    pages = [snapshot([item(name)], ready=[name]) | {"has_more": name < "c", "next_cursor": name} for name in "abc"]
    whole = joined(pages)
    assert whole == snapshot([item(name) for name in "abc"], ready=list("abc"))
