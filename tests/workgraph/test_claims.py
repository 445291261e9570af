"""Who holds an item, how long, and what an old holder can still do: nothing (contract workgraph 1, 2, 4, 6)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from interlock.lifecycle.times import parse_rfc3339
from tests.harness import Client, Refused, result_of, served
from tests.ledger.common import head, now_of, other_process

from .common import at, claim, create, elapse, get, in_ms, link, owner, ready_ids, since, sql, stop_sweeper, told

YEAR_S: Final = 31_536_000


async def lease_ms(client: Client, method: str, **params: Any) -> int | None:
    """How long the lease is that a call gives, to the nearest second; None is never. The item must be open."""
    before = await now_of(client)
    given = (await client.call(f"workgraph/{method}", **params))["item"]["claim"]
    if "lease_expires_at" not in given:
        return None
    after = await now_of(client)
    end = parse_rfc3339(given["lease_expires_at"])
    assert before <= parse_rfc3339(given["claimed_at"]) <= after or method == "renew"
    length = (end - before) // 1000
    assert before + length * 1000 <= end <= after + length * 1000
    return length


async def test_a_claim_gives_the_item_and_its_fence_and_is_told(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        before = await head(client)
        holder = {"key": {"kind": "session", "id": "s"}, "display_name": "Ada"}
        result = await client.call("workgraph/claim", **at(item), owner=holder)
        taken = result["item"]
        held = {"owner": holder, "fence": 1, "claimed_at": taken["updated_at"],
                "lease_expires_at": taken["claim"]["lease_expires_at"]}  # fmt: skip
        moved = {"status": "in_progress", "owner": holder, "claim": held, "revision": 2}
        assert result == {"item": {**item, **moved, "updated_at": taken["updated_at"]}, "fence": 1}
        assert await get(client, item["id"]) == taken
        length = parse_rfc3339(held["lease_expires_at"]) - parse_rfc3339(held["claimed_at"])
        assert length == 900_000
        data = {"revision": 2, "owner": holder, "fence": 1, "lease_expires_at": held["lease_expires_at"]}
        assert await since(client, before) == [("item_claimed", item["id"], data)]


@pytest.mark.parametrize("method", ["claim", "claim_next", "renew"])
@pytest.mark.parametrize(("seconds", "length"), [(None, 900), (0, None), (1, 1), (YEAR_S, YEAR_S)])
async def test_a_lease_is_as_long_as_asked_for(
    tmp_path: Path, method: str, seconds: int | None, length: int | None
) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        item = await create(client)
        params: dict[str, Any] = {"owner": owner("a")}
        if method == "renew":
            params = {"id": item["id"], "fence": (await claim(client, item, lease_seconds=100))["fence"]}
        elif method == "claim":
            params |= at(item)
        given = {} if seconds is None else {"lease_seconds": seconds}
        assert await lease_ms(client, method, **params, **given) == length


@pytest.mark.parametrize("method", ["claim", "claim_next", "renew"])
async def test_a_lease_outside_its_bounds_is_refused(tmp_path: Path, method: str) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        params: dict[str, Any] = {"owner": owner("a")}
        if method == "renew":
            item = (await claim(client, item))["item"]
            params = {"id": item["id"], "fence": 1}
        elif method == "claim":
            params |= at(item)
        for seconds in (-1, YEAR_S + 1):
            refused = await client.refused(f"workgraph/{method}", **params, lease_seconds=seconds)
            assert (refused.code, refused.data["path"]) == ("limit_out_of_range", "/lease_seconds")
        for end in (await in_ms(client, 0), "2001-01-01T00:00:00Z", await in_ms(client, YEAR_S * 1000 + 60_000)):
            refused = await client.refused(f"workgraph/{method}", **params, lease_expires_at=end)
            assert (refused.code, refused.data["path"]) == ("invalid_params", "/lease_expires_at")
        both = {"lease_seconds": 9, "lease_expires_at": await in_ms(client, 9000)}
        refused = await client.refused(f"workgraph/{method}", **params, **both)
        assert refused.code == "invalid_params"
        assert await get(client, item["id"]) == item
        end = await in_ms(client, YEAR_S * 1000)
        taken = (await client.call(f"workgraph/{method}", **params, lease_expires_at=end))["item"]
        assert taken["claim"]["lease_expires_at"] == end


async def test_an_owner_is_given_in_either_form_and_never_changed(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        for kind in ("principal", "agent", "session", "mob", "label"):
            key = {"kind": kind, "id": "0199C3A2-7C11-7D4E-8A51-3F1D2B6C9E07"}
            for given in ({"key": key, "display_name": "d"}, {**key, "display_name": "d"}):
                taken = (await client.call("workgraph/claim", **at(await create(client)), owner=given))["item"]
                assert taken["owner"] == taken["claim"]["owner"] == {"key": key, "display_name": "d"}
            bare = (await client.call("workgraph/claim", **at(await create(client)), owner=key))["item"]
            assert bare["owner"] == {"key": key}


NO_OWNERS: Final[list[Any]] = [
    *({}, {"display_name": "d"}, {"kind": "agent"}, {"id": "a"}, {"key": {"kind": "agent"}}, "agent:a", None),
    {"key": {"kind": "agent", "id": "a"}, "kind": "agent", "id": "a"},
    {"key": {"kind": "team", "id": "a"}},
    {"kind": "agent", "id": ""},
]


async def test_an_owner_that_is_none_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        for given in NO_OWNERS:
            for method, params in (("claim", at(item)), ("claim_next", {})):
                refused = await client.refused(f"workgraph/{method}", **params, owner=given)
                assert refused.code == "invalid_params", given
                assert refused.data["path"].startswith("/owner")
        assert await get(client, item["id"]) == item


async def test_a_live_claim_is_in_the_way_of_everybody_its_owner_included(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = (await claim(client, await create(client), "a"))["item"]
        until = item["claim"]["lease_expires_at"]
        for name in ("a", "b"):
            refused = await client.refused("workgraph/claim", **at(item), owner=owner(name))
            assert (refused.number, refused.code) == (-32002, "already_claimed")
            held = {"holder": owner("a"), "lease_expires_at": until, "current_revision": 2}
            assert refused.data == {"code": "already_claimed", "retryable": False, **held}
        item = (await client.call("workgraph/renew", id=item["id"], fence=1, lease_seconds=0))["item"]
        refused = await client.refused("workgraph/claim", **at(item), owner=owner("a"))
        assert "lease_expires_at" not in refused.data


async def test_a_holder_that_lost_the_answer_repeats_the_claim_with_its_op_id(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        first = await claim(client, item, op_id="claim")
        await client.call("workgraph/update", **at(first["item"]), title="u", fence=1)
        assert await claim(client, item, op_id="claim") == {**first, "replayed": True}
        other = await client.refused("workgraph/claim", **at(item), owner=owner("b"), op_id="claim")
        assert other.code == "op_conflict"
        nothing = await client.call("workgraph/claim_next", owner=owner("a"), op_id="next")
        assert {"item", "fence", "settled_ids"} & nothing.keys() == set()
        await create(client)
        assert await client.call("workgraph/claim_next", owner=owner("a"), op_id="next") == {
            **nothing,
            "replayed": True,
        }
        taken = await client.call("workgraph/claim_next", owner=owner("a"), op_id="more")
        again = await client.call("workgraph/claim_next", owner=owner("a"), op_id="more")
        assert again == {**taken, "replayed": True}
        fence = {"id": taken["item"]["id"], "fence": 1, "op_id": "release"}
        back = await client.call("workgraph/release", **fence)
        assert await client.call("workgraph/release", **fence) == {**back, "replayed": True}


async def test_fences_grow_with_every_claim_and_are_never_used_again(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        item = await create(client)
        fences = []
        for how in ("release", "block", "elapse", "next", "elapse", "release"):
            params = at(await get(client, item["id"]))
            if how == "next":
                taken = await client.call("workgraph/claim_next", owner=owner("b"))
            else:
                taken = await client.call("workgraph/claim", **params, owner=owner("a"))
            fences.append(taken["fence"])
            assert taken["fence"] == taken["item"]["claim"]["fence"]
            renewed = await client.call("workgraph/renew", id=item["id"], fence=taken["fence"])
            assert (renewed["fence"], renewed["item"]["claim"]["fence"]) == (taken["fence"], taken["fence"])
            if how == "elapse":
                elapse(daemon.state_dir, item["id"])
            elif how == "block":
                blocked = await client.call("workgraph/block", **at(taken["item"]), fence=taken["fence"])
                await client.call("workgraph/unblock", **at(blocked["item"]))
            else:
                await client.call("workgraph/release", id=item["id"], fence=taken["fence"])
        assert fences == sorted(set(fences))
        for fence in fences:
            stale = await client.refused("workgraph/renew", id=item["id"], fence=fence)
            assert stale.code == "stale_lease"


async def test_a_renewal_changes_the_lease_and_nothing_else(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = (await claim(client, await create(client), lease_seconds=1000))["item"]
        before = await head(client)
        ends = []
        for lease in ({"lease_seconds": 100}, {"lease_seconds": 2000}, {}, {"lease_seconds": 0}, {"lease_seconds": 50}):
            result = await client.call("workgraph/renew", id=item["id"], fence=1, **lease)
            now = result["item"]
            ends.append(now["claim"].get("lease_expires_at"))
            kept = {name: value for name, value in now["claim"].items() if name != "lease_expires_at"}
            assert kept == {name: item["claim"][name] for name in kept}
            assert {**now, "claim": item["claim"]} == item
            assert await get(client, item["id"]) == now
        assert ends[3] is None
        data = [{"fence": 1, **({"lease_expires_at": end} if end else {})} for end in ends]
        assert await since(client, before) == [("lease_renewed", item["id"], one) for one in data]
        assert ends[0] < ends[2] < ends[1], "longer or shorter"
        done = await client.call("workgraph/close", **at(item), fence=1)
        assert done["item"]["status"] == "completed", "a heartbeat does not stale its holder's other calls"


async def test_only_the_holder_renews(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        item = await create(client)
        said = {"code": "stale_lease", "retryable": False, "current_revision": 1}
        for fence in (1, 7):
            refused = await client.refused("workgraph/renew", id=item["id"], fence=fence)
            assert refused.data == {**said, "fence": fence}
        held = (await claim(client, item))["item"]
        refused = await client.refused("workgraph/renew", id=item["id"], fence=2)
        lease = {"holder": owner("a"), "current_fence": 1, "lease_expires_at": held["claim"]["lease_expires_at"]}
        assert refused.data == {**said, **lease, "fence": 2, "current_revision": 2}
        elapse(daemon.state_dir, item["id"])
        refused = await client.refused("workgraph/renew", id=item["id"], fence=1)
        assert refused.data == {**said, "fence": 1, "current_revision": 2}


async def test_a_released_item_is_open_and_ready_again(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item = await create(client)
        held = (await claim(client, item))["item"]
        before = await head(client)
        back = (await client.call("workgraph/release", id=item["id"], fence=1))["item"]
        assert back == {**item, "revision": 3, "updated_at": back["updated_at"]}
        data = {"revision": 3, "owner": owner("a"), "fence": 1, "cause": "released"}
        assert await since(client, before) == [
            ("item_released", item["id"], {**data, "lease_expires_at": held["claim"]["lease_expires_at"]}),
            ("item_ready", item["id"], {"revision": 3, "cause": "released"}),
        ]
        assert await ready_ids(client) == [item["id"]]


async def test_a_released_item_that_something_holds_back_is_not_ready(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        item, blocker = await create(client), await create(client)
        await claim(client, item, lease_seconds=0)
        await link(client, "blocks", blocker, item)
        before = await head(client)
        await client.call("workgraph/release", id=item["id"], fence=1, expected_revision=2)
        data = {"revision": 3, "owner": owner("a"), "fence": 1, "cause": "released"}
        assert await since(client, before) == [("item_released", item["id"], data)]
        assert await ready_ids(client) == [blocker["id"]]


async def test_an_elapsed_lease_is_recorded_before_the_next_claim(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        for method in ("claim", "claim_next"):
            held = (await claim(client, await create(client)))["item"]
            elapse(daemon.state_dir, held["id"])
            until = (await get(client, held["id"]))["claim"]["lease_expires_at"]
            assert await ready_ids(client) == [held["id"]]
            before = await head(client)
            params = at(held) if method == "claim" else {}
            taken = await client.call(f"workgraph/{method}", **params, owner=owner("b"), lease_seconds=0)
            assert (taken["item"]["revision"], taken["fence"]) == (4, 2)
            assert await since(client, before) == [
                ("item_released", held["id"], {"revision": 3, "owner": owner("a"), "fence": 1,
                                               "cause": "lease_expired", "lease_expires_at": until}),
                ("item_claimed", held["id"], {"revision": 4, "owner": owner("b"), "fence": 2}),
            ]  # fmt: skip


async def test_a_late_holder_changes_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        late = (await claim(client, await create(client), "late"))["item"]
        elapse(daemon.state_dir, late["id"])
        calls: list[tuple[str, dict[str, Any]]] = [
            ("close", at(late)),
            ("update", {**at(late), "title": "u"}),
            ("block", at(late)),
            ("release", {"id": late["id"]}),
            ("evidence/add", {"id": late["id"], "evidence": {"kind": "k", "id": "1"}}),
            ("renew", {"id": late["id"]}),
        ]
        taken = await claim(client, late, "next")
        before = await head(client)
        for method, params in calls:
            for revision in ({}, {"expected_revision": taken["item"]["revision"]}):
                if method == "renew" and revision:
                    continue
                stale = await client.refused(f"workgraph/{method}", **{**params, **revision}, fence=1)
                assert (stale.code, stale.data["current_fence"], stale.data["holder"]) == (
                    "stale_lease",
                    2,
                    owner("next"),
                )
        assert (await get(client, late["id"]), await head(client)) == (taken["item"], before)
        await client.call("workgraph/close", **at(taken["item"]), fence=2)
        for method, params in calls:
            assert (await client.refused(f"workgraph/{method}", **params, fence=1)).code == "stale_lease"


async def test_of_racers_with_one_revision_exactly_one_has_it(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as one, daemon.client() as two:
        item = await create(one)
        answers = [
            await future
            for future in [
                client.start("workgraph/claim", **at(item), owner=owner(str(n)))
                for n in range(10)
                for client in (one, two)
            ]
        ]
        assert len([answer for answer in answers if "result" in answer]) == 1
        lost = {Refused(answer["error"]).code for answer in answers if "error" in answer}
        assert lost == {"stale_revision"}


async def test_many_callers_over_some_ready_items_win_each_once(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as one, daemon.client() as two:
        made = [(await create(one))["id"] for _ in range(15)]
        started = [
            client.start("workgraph/claim_next", owner=owner(str(n))) for n in range(10) for client in (one, two)
        ]
        results = [result_of(answer) for answer in await asyncio.gather(*started)]
        won = [result["item"]["id"] for result in results if "item" in result]
        assert sorted(won) == sorted(made)
        assert len(results) - len(won) == 5


async def test_callers_of_two_processes_win_each_once_too(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as one, other_process(tmp_path) as two:
        made = [(await create(one))["id"] for _ in range(20)]
        started = [
            client.start("workgraph/claim_next", owner=owner(str(n))) for n in range(12) for client in (one, two)
        ]
        results = [result_of(answer) for answer in await asyncio.gather(*started)]
        assert sorted(result["item"]["id"] for result in results if "item" in result) == sorted(made)
        assert (await one.call("workgraph/claim_next", owner=owner("a")))["as_of_seq"] == await head(one)


ORDER: Final[list[dict[str, Any]]] = [
    {"priority": "high", "due_at": "2900-01-01T00:00:00Z"},
    {"priority": "high", "due_at": "2901-01-01T00:00:00Z"},
    {"priority": "high"},
    {"due_at": "2001-01-01T00:00:00Z"},
    {"priority": "medium", "due_at": "2999-01-01T00:00:00Z"},
    {},
    {"priority": "medium"},
    {"priority": "low", "due_at": "2001-01-01T00:00:00Z"},
    {"priority": "low"},
]
"""From the first that is to be begun to the last; those alike in the order of their making."""


async def test_the_most_urgent_comes_first(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = {n: (await create(client, **ORDER[n]))["id"] for n in (8, 5, 1, 4, 6, 0, 3, 7, 2)}
        expected = [made[n] for n in range(len(ORDER))]
        assert await ready_ids(client) == expected
        taken = [(await client.call("workgraph/claim_next", owner=owner("a")))["item"]["id"] for _ in ORDER]
        assert taken == expected


async def test_of_items_of_one_instant_the_smaller_id_comes_first(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        made = sorted([(await create(client))["id"] for _ in range(6)], reverse=True)
        sql(daemon.state_dir, "UPDATE items SET created_at = 1")
        assert await ready_ids(client) == made[::-1]
        item = (await client.call("workgraph/claim_next", owner=owner("a")))["item"]
        assert item["id"] == made[-1]


async def test_what_time_has_made_ready_stands_in_its_place_before_anyone_noticed(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        urgent = await create(client, priority="high", not_before="2999-01-01T00:00:00Z", labels=["x"])
        plain = await create(client, labels=["x"])
        held = (await claim(client, await create(client, priority="low", labels=["x"])))["item"]
        snoozed = await create(client, snoozed_until="2999-01-01T00:00:00Z")
        last = await create(client, priority="low", labels=["x"])
        assert await ready_ids(client) == [plain["id"], last["id"]]
        sql(daemon.state_dir, "UPDATE items SET not_before = 1, gate_at = 1 WHERE id = ?", urgent["id"])
        elapse(daemon.state_dir, held["id"])
        expected = [urgent["id"], plain["id"], held["id"], last["id"]]
        assert await ready_ids(client) == await ready_ids(client, labels=["x"]) == expected
        taken = [await client.call("workgraph/claim_next", owner=owner("b"), labels=["x"]) for _ in range(5)]
        assert [one["item"]["id"] for one in taken if "item" in one] == expected
        assert await ready_ids(client) == []
        assert (await get(client, snoozed["id"]))["status"] == "open"


async def test_what_a_command_finds_opened_is_told_once_whatever_it_does(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        blocker = await create(client, "blocker")
        for method, causes in (
            ("update", ["gate_opened"]),
            ("claim", []),
            ("block", []),
            ("link", []),
            ("evidence/add", ["gate_opened"]),
        ):
            item = await create(client, not_before="2999-01-01T00:00:00Z")
            sql(daemon.state_dir, "UPDATE items SET not_before = 1, gate_at = 1 WHERE id = ?", item["id"])
            more: dict[str, dict[str, Any]] = {
                "update": {**at(item), "title": "u"},
                "claim": {**at(item), "owner": owner("a")},
                "block": at(item),
                "link": {"kind": "blocks", "from_id": blocker["id"], "to_id": item["id"]},
                "evidence/add": {"id": item["id"], "evidence": {"kind": "k", "id": "1"}},
            }
            await client.call(f"workgraph/{method}", **more[method])
            found = await told(client, item["id"], "item_ready")
            assert [event["data"]["cause"] for event in found] == causes, method


async def test_an_elapsed_lease_does_not_make_ready_what_something_else_holds_back(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        await stop_sweeper()
        blocked, parent, gated = [(await claim(client, await create(client)))["item"] for _ in range(3)]
        other = await create(client)
        await link(client, "blocks", other, blocked)
        await link(client, "parent", other, parent)
        gate = {"not_before": "2999-01-01T00:00:00Z"}
        gated = (await client.call("workgraph/update", **at(gated), **gate, fence=1))["item"]
        for item in (blocked, parent, gated):
            elapse(daemon.state_dir, item["id"])
        assert await ready_ids(client) == [other["id"]]
        before = [await get(client, item["id"]) for item in (blocked, parent, gated)]
        mark = await head(client)
        for item, reason in zip(before, ("unresolved_blockers", "waiting_children", "gated"), strict=True):
            refused = await client.refused("workgraph/claim", **at(item), owner=owner("b"))
            assert refused.data["reason"] == reason
        assert [await get(client, item["id"]) for item in (blocked, parent, gated)] == before
        assert await head(client) == mark, "a refused call does not even record the elapsed lease"


async def test_a_claim_takes_only_what_carries_every_label(tmp_path: Path) -> None:
    async with served(tmp_path) as daemon, daemon.client() as client:
        one = await create(client, labels=["a"], priority="high")
        both = await create(client, labels=["b", "a", "c"])
        await create(client)
        for labels, expected in (
            (["a", "b"], [both["id"]]),
            (["a", "a"], [one["id"], both["id"]]),
            (["c"], [both["id"]]),
            (["a", "none"], []),
            (["A"], []),
        ):
            assert await ready_ids(client, labels=labels) == expected
        taken = await client.call("workgraph/claim_next", owner=owner("x"), labels=["a", "c"])
        assert taken["item"]["id"] == both["id"]
        assert "item" not in await client.call("workgraph/claim_next", owner=owner("x"), labels=["b"])
        refused = await client.refused("workgraph/claim_next", owner=owner("x"), labels=[str(n) for n in range(17)])
        assert refused.code == "too_large"
