"""The preview of a message: its first 200 grapheme clusters, never part of one (contract ledger 1.2)."""

from __future__ import annotations

from typing import Final

from interlock.lifecycle.mail import Body

CLUSTERS: Final = 200


def head_of(body: Body | None) -> str:
    """The sender's own preview, else the text, else the kind of image; cut between clusters."""
    if body is None:
        return ""
    text = body.head or body.text or (f"image:{body.image.mime}" if body.image else "")
    return cut(text)


def cut(text: str) -> str:
    """The first 200 extended grapheme clusters of a text."""
    # In ASCII every character is a cluster but CR LF, so the common case needs no table of Unicode.
    if text.isascii() and "\r" not in text[: CLUSTERS + 1]:
        return text[:CLUSTERS]
    import regex  # its import costs more than most processes ever need

    match = regex.match(rf"\X{{0,{CLUSTERS}}}", text)
    return match.group() if match else ""
