"""The preview is cut between grapheme clusters, never inside one (contract ledger 1.2)."""

from __future__ import annotations

import regex
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.lifecycle.mail import Body, Image
from interlock.stores.preview import CLUSTERS, cut, head_of

CLUSTER_CORPUS = (
    "a",
    "\r\n",
    "\n",
    "e\u0301",  # a letter with a combining accent
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",  # a family: three people joined
    "\U0001f1e9\U0001f1ea",  # a flag: two regional indicators
    "\U0001f44d\U0001f3fd",  # a thumb with a skin tone
    "\u2764\ufe0f",  # a heart with a variation selector
    "\u1100\u1161\u11a8",  # a Hangul syllable in three parts
    "\u0915\u094d\u0937\u093f",  # a Devanagari conjunct
    "\u0e01\u0e33",  # Thai with a spacing vowel
    "1\ufe0f\u20e3",  # a keycap
    "Z" + "\u0316\u0317\u0318" * 5,  # a letter under many marks
)
texts = st.lists(st.sampled_from(CLUSTER_CORPUS) | st.characters(codec="utf-8"), max_size=450).map("".join)


def clusters(text: str) -> list[str]:
    return regex.findall(r"\X", text)


@given(texts)
@example("\U0001f1e9" * 401)
@example("\r\n" * 300)
@example("a" * 199 + "\r\n" + "b")
@example("a" * 200 + "\u0301")
def test_the_preview_is_the_first_200_clusters_and_never_part_of_one(text: str) -> None:
    found = cut(text)
    assert text.startswith(found)
    assert clusters(found) == clusters(text)[:CLUSTERS]


@given(st.text(st.characters(max_codepoint=127), max_size=500))
def test_the_quick_way_for_ascii_gives_what_the_table_of_unicode_gives(text: str) -> None:
    assert cut(text) == "".join(clusters(text)[:CLUSTERS])


def test_the_senders_own_preview_comes_before_the_text_and_the_text_before_the_image() -> None:
    image = Image(mime="image/png", data="")
    assert head_of(Body(text="text", head="head", image=image)) == "head"
    assert head_of(Body(text="text", image=image)) == "text"
    assert head_of(Body(image=image)) == "image:image/png"
    assert head_of(None) == ""


def test_a_senders_preview_is_cut_as_well() -> None:
    assert head_of(Body(text="text", head="h" * 1000)) == "h" * 200
