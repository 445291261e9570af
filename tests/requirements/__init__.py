"""What is promised, sentence by sentence, and the tests that prove it.

An id is `ledger 2.2` or `workgraph 3.1` for a section of a family's contract, `method ledger/pull` for an entry of it,
`lesson 7` and `finding e` for what went wrong in the delivery, and `weakness 13` in the work graph, of the system that
this one succeeds, and `C75` for a failure that others reported of daemons like this one. `test_requirements` checks
that each named test exists, that every lesson, finding, weakness and failure of the lists below is proved or is
somebody else's, and that every method has an entry.

A test is named by its file below tests/, without `test_` and `.py`, and the beginning of its name, as in
`ledger/pull:rows_are`. It must be the beginning of exactly one test's name.
"""

from __future__ import annotations

from typing import Final

from . import delivery, workgraph

METHODS: Final = (*delivery.METHODS, *workgraph.METHODS)
LESSONS: Final = (*delivery.LESSONS, *delivery.FIELD, *workgraph.WEAKNESSES, *workgraph.FIELD)
REQUIREMENTS: Final = (*delivery.CONTRACT, *workgraph.CONTRACT, *METHODS, *LESSONS)

ELSEWHERE: Final = {
    "sessions, bindings, repair, hooks, ghost sweeps": (
        *(f"lesson {n}" for n in (1, 2, 3, 6, 20, 21, 22, 23, 33, 41)),
        *(f"finding {letter}" for letter in "elmnrwx"),
    ),
    "the plans of every named statement": ("lesson 4",),
    "the store: engine, files, schema, failures": (
        *(f"C{n}" for n in (44, 46, 47, 48, 49, 50, 51, 52, 53, 55, 56, 57, 58, 59, 60, 61, 62, 63)),
        "finding u",
        "weakness 9",
    ),
    "the wire and the process": (
        *(f"C{n}" for n in (26, 30, 31, 32, 34, 35, 36, 38, 39)),
        "lesson 31",
        "lesson 35",
        "lesson 39",
    ),
    "consumers, and what does not exist here: tickets, links over TLS, a second notifier, a second kind of store": (
        *(f"lesson {n}" for n in (15, 16, 17, 18, 26, 27, 29, 30, 32, 34, 38)),
        "C88",
        "weakness 33",
    ),
}
"""Lessons, findings, weaknesses and failures that are about neither delivery nor work, by whose they are."""
