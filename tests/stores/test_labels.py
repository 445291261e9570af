"""What is kept of labels in memory, whoever chooses them."""

from __future__ import annotations

import tracemalloc

from interlock.stores.workgraph import rows
from interlock.stores.workgraph.rows import Item


def test_the_memory_for_labels_is_bounded_though_callers_choose_them() -> None:
    empty = Item._make([None] * len(Item._fields))
    tracemalloc.start()
    for n in range(1000):
        labels = [f"{n:04}{place:02}{'x' * 250}" for place in range(64)]
        assert rows.labels_of(empty._replace(labels=rows.encoded(labels))) == tuple(labels)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 16 << 20
