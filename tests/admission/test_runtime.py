"""What an external runtime said is believed for a while; what it did not say, never (contract workgraph 5.1)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from interlock.admission.runtime import Answers, MemberId, unreadable
from interlock.lifecycle.refusal import Refusal

ANNA = MemberId("m", "anna")
BERT = MemberId("m", "bert")


def test_an_answer_is_believed_until_its_time_is_over() -> None:
    answers = Answers(60_000, 4096)
    answers.keep("mob.m", "s1", ANNA, 1_000)
    assert answers.find("mob.m", "s1", 60_999) == ANNA
    assert answers.find("mob.m", "s1", 61_000) is None
    assert len(answers) == 0


def test_an_answer_is_of_one_realm_and_one_session() -> None:
    answers = Answers(60_000, 4096)
    answers.keep("mob.m", "s1", ANNA, 0)
    assert answers.find("mob.n", "s1", 0) is None
    assert answers.find("mob.m", "s2", 0) is None


def test_a_newer_answer_takes_the_place_and_the_time_of_the_older() -> None:
    answers = Answers(100, 4096)
    answers.keep("mob.m", "s1", ANNA, 0)
    answers.keep("mob.m", "s1", BERT, 50)
    assert answers.find("mob.m", "s1", 120) == BERT


def test_the_oldest_answer_goes_when_there_are_too_many() -> None:
    answers = Answers(60_000, 2)
    answers.keep("mob.m", "s1", ANNA, 0)
    answers.keep("mob.m", "s2", ANNA, 1)
    answers.keep("mob.m", "s1", ANNA, 2)
    answers.keep("mob.m", "s3", BERT, 3)
    assert answers.find("mob.m", "s2", 4) is None
    assert answers.find("mob.m", "s1", 4) == ANNA
    assert answers.find("mob.m", "s3", 4) == BERT


def test_what_was_said_of_one_realm_can_be_forgotten() -> None:
    answers = Answers(60_000, 4096)
    answers.keep("mob.m", "s1", ANNA, 0)
    answers.keep("mob.n", "s1", BERT, 0)
    answers.forget("mob.m")
    assert answers.find("mob.m", "s1", 0) is None
    assert answers.find("mob.n", "s1", 0) == BERT


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 40))))
def test_nothing_but_what_was_said_last_and_not_long_ago_is_ever_found(said: list[tuple[int, int, int]]) -> None:
    answers, now = Answers(100, 3), 0
    last: dict[str, tuple[int, MemberId]] = {}
    for session, identity, later in said:
        now += later
        member = MemberId("m", f"agent{identity}")
        answers.keep("mob.m", f"s{session}", member, now)
        last[f"s{session}"] = (now, member)
        assert len(answers) <= 3
        for name, (at, newest) in last.items():
            found = answers.find("mob.m", name, now)
            assert found in (None, newest)
            assert found is None or now < at + 100
        assert answers.find("mob.m", f"s{session}", now) == member


def test_a_failed_read_is_told_without_what_the_runtime_wrote() -> None:
    refusal = unreadable("mob.m", "s1", RuntimeError("bearer secret"))
    assert refusal.code == "unavailable"
    assert "RuntimeError" in refusal.message
    assert "secret" not in refusal.message
    assert refusal.data == {"realm_id": "mob.m", "session_id": "s1"}


def test_a_refused_read_is_told_with_its_reason() -> None:
    refusal = unreadable("mob.m", "s1", Refusal("unavailable", "the client has gone"))
    assert "the client has gone" in refusal.message
