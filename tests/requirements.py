"""What delivery promises, sentence by sentence, and the tests that prove it.

An id is `ledger 2.2` for a section of the contract's ledger file, `method ledger/pull` for an entry of it, `lesson 7`
and `finding e` for what went wrong in the system that this one succeeds, and `C75` for a failure that others reported
of daemons like this one. `test_requirements` checks that each named test exists, that every lesson, finding and failure
of the lists below is proved or is somebody else's, and that every method has an entry.

A test is named by its file below tests/, without `test_` and `.py`, and the beginning of its name, as in
`ledger/pull:rows_are`. It must be the beginning of exactly one test's name.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Requirement(NamedTuple):
    """A sentence that holds, and the tests without which it would be a claim."""

    id: str
    says: str
    tests: tuple[str, ...]


def _says(id_: str, says: str, *tests: str) -> Requirement:
    return Requirement(id_, says, tests)


CONTRACT: Final = (
    _says("ledger 1.1",
          "An envelope of a wrong shape is refused with its path, one too large with its bound",
          "ledger/send:a_wrong_shape", "ledger/send:what_is_too_large", "ledger/send:what_is_exactly",
          "ledger/send:a_ttl_below"),
    _says("ledger 1.2", "Receipt, row and delivery say what was stored, and a head is whole clusters",
          "ledger/send:the_receipt", "ledger/send:the_row_and_the_envelope", "ledger/send:a_delivered_envelope",
          "stores/preview:the_preview_is"),
    _says("ledger 1.3", "A role has its defaults; `operator` is there from the start", "ledger/roles:a_new_role",
          "ledger/roles:the_role_operator"),
    _says("ledger 1.5", "At most one fault is open per subject and kind", "ledger/faults:a_subject_has",
          "ledger/faults:the_subject_is"),
    _says("ledger 1.6", "Seqs strictly increase, are never used twice, and an unknown word of a filter is refused",
          "ledger/feed:seqs_of", "ledger/feed:a_filter_matches", "ledger/feed:a_filter_that",
          "ledger/retention:pruned_events"),
    _says("ledger 2.1", "Only the addressee and the operator touch mail; an unknown role comes with near names",
          "ledger/delivery:existence_is", "ledger/delivery:the_sender_of", "ledger/roles:an_unknown_role",
          "ledger/refusals:the_refusal_has"),
    _says("ledger 2.2", "A row moves as the table says, one event each, and what holds already changes nothing",
          "ledger/delivery:every_verb", "lifecycle/delivery:a_move_exists", "ledger/delivery:acking_a_queued",
          "ledger/fold:folding_the_feed"),
    _says("ledger 2.3", "When a holder is gone each of its rows leaves it once, by the first rule that applies",
          "ledger/presence:a_connection_that_ends", "ledger/presence:a_settled_task", "ledger/presence:a_row_beyond",
          "ledger/presence:a_row_put_back", "lifecycle/delivery:the_requeue_gate",
          "ledger/presence:a_process_that_is_killed"),
    _says("ledger 2.4", "What is due expires, also what became due while nobody ran, and is not offered before",
          "ledger/expiry:a_queued_note", "ledger/expiry:a_waiting_task", "ledger/expiry:mail_that_an_absent",
          "ledger/expiry:what_became_due", "ledger/expiry:a_note_that_is_due", "ledger/expiry:a_completion_never"),
    _says("ledger 2.5", "The verdict of a task is said once, by the first who may", "ledger/send:the_verdict_is",
          "ledger/send:a_later_completion", "ledger/send:a_completion_without"),
    _says("ledger 2.6", "A child is one hop further, in its parent's family, and never freer than it",
          "ledger/send:a_family_carries", "lifecycle/causality:a_child_is_never", "ledger/send:an_answer_stands"),
    _says("ledger 2.8", "Retention removes what is old and final, and nothing else", "ledger/retention:after_retention",
          "ledger/retention:after_history", "ledger/retention:what_is_young"),
    _says("daemon 1.6", "The same content under an op id answers the first result, other content conflicts",
          "ledger/ops:the_first_result", "ledger/ops:other_content", "ledger/ops:a_refused_call",
          "ledger/ops:another_role", "ledger/send:op_ids_are"),
    _says("refusals", "Every refusal that a method declares is provoked and says what the caller needs",
          "ledger/refusals:every_declared", "ledger/refusals:the_refusal_has"),
)  # fmt: skip

METHODS: Final = (
    _says("method ledger/send", "The checks come in their order", "ledger/send:the_checks_come",
          "ledger/send:the_same_send", "ledger/send:the_operator_repeating", "ledger/send:a_replay_comes"),
    _says("method ledger/get", "One message, its row and its envelope", "ledger/send:the_row_and_the_envelope"),
    _says("method ledger/query", "Filters are exact, pages stable", "ledger/query:every_filter",
          "ledger/query:pages_are_stable", "ledger/query:a_cursor_of", "ledger/query:a_page_ends"),
    _says("method ledger/task", "A task's rows, earliest first, and its verdict", "ledger/query:a_tasks_rows"),
    _says("method ledger/depth", "Counts are exact and leave notes out", "ledger/query:depth_counts"),
    _says("method ledger/attach", "Holds are held, taken back or lost, and the events come before online",
          "ledger/presence:holds_take_up", "ledger/presence:the_events_of", "ledger/presence:attaching_again",
          "ledger/presence:attaching_answers"),
    _says("method ledger/detach", "What is held goes back, then the role is offline", "ledger/presence:detaching_puts"),
    _says("method ledger/pull", "Arrival order, capacity, sessions, four MiB, and no gap before the wait",
          "ledger/pull:rows_are", "ledger/pull:a_role_has", "ledger/pull:a_named_session", "ledger/pull:mail_for_a",
          "ledger/pull:a_pull_stops", "ledger/wakeups:a_thousand", "ledger/wakeups:several_waiters",
          "ledger/wakeups:another_process"),
    _says("method ledger/ack", "Queued or in flight to acked", "ledger/delivery:every_verb",
          "ledger/delivery:any_connection"),
    _says("method ledger/reject", "Queued or in flight to rejected", "ledger/delivery:every_verb",
          "ledger/delivery:without_a_reason"),
    _says("method ledger/surfaced", "Said once, of what was offered", "ledger/delivery:surfaced_is"),
    _says("method ledger/requeue", "Through the gate for the addressee, past it for the operator",
          "ledger/delivery:a_requeue_of_the_addressee", "ledger/delivery:who_is_attached"),
    _says("method ledger/expire", "One message, or a backlog from strictly before, oldest first",
          "ledger/delivery:a_backlog", "ledger/delivery:expire_takes"),
    _says("method ledger/fail", "The operator gives up what cannot be delivered", "ledger/delivery:what_the_operator"),
    _says("method ledger/prune", "Bodies of acked rows, or events and the floor", "ledger/retention:bodies_of",
          "ledger/retention:pruned_events", "ledger/retention:what_happened"),
    _says("method ledger/role/upsert", "Absent keeps, null gives the default back", "ledger/roles:absent_keeps"),
    _says("method ledger/role/list", "By name, in pages", "ledger/roles:roles_are_listed"),
    _says("method ledger/role/sync", "Exactly these roles, unless one is in use", "ledger/roles:sync_makes",
          "ledger/roles:a_role_in_use"),
    _says("method ledger/fault/record", "Stored and announced once", "ledger/faults:a_fault_is_stored"),
    _says("method ledger/fault/list", "Oldest first by every filter", "ledger/faults:faults_are_listed"),
    _says("method ledger/fault/ack", "Open to acked, once", "ledger/faults:acking_a_fault"),
    _says("method ledger/fault/move", "All open faults of a task, an event each", "ledger/faults:all_open_faults"),
    _says("method ledger/events/since", "Strictly above, ascending, filtered before the limit",
          "ledger/feed:since_is", "ledger/feed:a_page_goes_on"),
    _says("method ledger/events/head", "Head and floor", "ledger/feed:the_head_and"),
    _says("method ledger/events/subscribe", "Every event once and in order, whoever wrote it",
          "ledger/subscriptions:catching_up", "ledger/subscriptions:a_live_reader", "ledger/subscriptions:a_drain"),
    _says("method ledger/events/unsubscribe", "Nothing follows the answer", "ledger/subscriptions:nothing_of"),
    _says("method ledger/events/publish", "The closed set, and nothing else", "ledger/feed:a_client_publishes",
          "ledger/feed:publish_refuses"),
    _says("method ledger/cursor/get", "Where an inbox stands; 0 before the first pull", "ledger/pull:the_inbox_cursor"),
    _says("method ledger/cursor/set", "Either way; delivery does not depend on it", "ledger/feed:an_inbox_cursor"),
    _says("method daemon/wait", "At once, or when the first condition holds; it reserves nothing",
          "ledger/wait:a_condition_that", "ledger/wait:hundreds_of", "ledger/wait:a_wait_without",
          "ledger/wait:a_wait_reserves"),
    _says("method daemon/batch", "All steps or none, consecutive events, references to earlier results",
          "ledger/batch:steps_commit", "ledger/batch:a_failing_step", "ledger/batch:a_reference_stands",
          "ledger/batch:a_batch_with_an_op_id"),
)  # fmt: skip

LESSONS: Final = (
    _says("lesson 5", "The plans that are tested are those of the statements that run",
          "stores/plans:a_statement_reads"),
    _says("lesson 7", "A row in flight is not offered again", "ledger/pull:what_is_in_flight"),
    _says("lesson 8", "The feed folds to the table after any script", "ledger/fold:folding_the_feed"),
    _says("lesson 9", "What is sent between a loss and the next attach is delivered once",
          "ledger/wakeups:a_connection_that_goes"),
    _says("lesson 10", "A broken connection is offline, and its rows go back",
          "ledger/presence:a_connection_that_ends"),
    _says("lesson 11", "A restart before a note's end does not save it", "ledger/expiry:what_became_due"),
    _says("lesson 12", "A control is stored and delivered whole", "ledger/send:a_control_survives"),
    _says("lesson 13", "A full consumer can be cancelled", "ledger/pull:notes_completions_and"),
    _says("lesson 14", "A control names its addressee and its task, or is refused", "ledger/send:a_wrong_shape",
          "ledger/send:controls_are"),
    _says("lesson 19", "A row of a settled task is not dispatched again", "ledger/presence:a_settled_task",
          "ledger/delivery:a_requeue_of_a_settled"),
    _says("lesson 24", "Mail for a role that never returns expires where the setting says so",
          "ledger/expiry:mail_that_an_absent"),
    _says("lesson 25", "One row that cannot be read stops no pass", "ledger/expiry:a_row_the_sweeper"),
    _says("lesson 28", "A repeated verdict holds no capacity", "ledger/delivery:a_duplicate_completion"),
    _says("lesson 36", "A poisonous message is put back a bounded number of times", "ledger/presence:a_row_put_back"),
    _says("lesson 37", "One table says which code may be tried again", "ledger/refusals:the_refusal_has"),
    _says("lesson 40", "No state changes without its event", "ledger/fold:folding_the_feed",
          "ledger/delivery:every_verb"),
    _says("lesson 42", "A burst keeps its order", "ledger/feed:seqs_of", "ledger/pull:a_long_queue"),
    _says("lesson 43", "A preview is never cut inside a cluster", "stores/preview:the_preview_is"),
    _says("lesson 44", "Depth is the number of rows, not of a page's", "ledger/pull:a_long_queue",
          "ledger/query:depth_counts"),
    _says("lesson 45", "A role's filter is exact for every form of a principal", "ledger/query:every_filter"),
    _says("finding a", "What the store itself writes is told like everything else",
          "ledger/presence:a_row_put_back", "ledger/expiry:a_queued_note"),
    _says("finding b", "A subscription has no gap between its page and its live part",
          "ledger/subscriptions:catching_up"),
    _says("finding c", "The feed is filtered before its limit, and a page says where it ended",
          "ledger/feed:a_page_goes_on"),
    _says("finding d", "Without a cursor a page begins at the oldest event, a subscription at the head",
          "ledger/feed:since_is", "ledger/subscriptions:a_subscription_without"),
    _says("finding f", "Mail that is not for this session never hides what is", "ledger/pull:mail_of_other"),
    _says("finding g", "A note that was put back is offered again while its time lasts, and not in flight twice",
          "ledger/expiry:a_note_that_was", "ledger/pull:what_is_in_flight"),
    _says("finding h", "Each command is one transaction", "ledger/pull:an_offer_is", "ledger/delivery:acking_a_queued"),
    _says("finding i", "Mail is its addressee's", "ledger/refusals:the_refusal_has", "ledger/delivery:the_sender_of"),
    _says("finding j", "Every way to end a connection goes through the same gate",
          "ledger/presence:a_connection_that_ends"),
    _says("finding k", "An acked fault is found by its id, its reason is stored", "ledger/faults:acking_a_fault"),
    _says("finding o", "A repeated message id is a duplicate, never an internal error", "ledger/send:a_message_id"),
    _says("finding p", "The op id is looked up before the rules", "ledger/send:a_replay_comes"),
    _says("finding q", "History is removed, and a seq is never used twice", "ledger/retention:after_history",
          "ledger/retention:pruned_events"),
    _says("finding s", "No fixed number of rows is silently all", "ledger/presence:more_rows_than",
          "ledger/expiry:more_due_rows"),
    _says("finding t", "Sender and operator are part of what an op id stands for",
          "ledger/send:the_operator_repeating"),
    _says("finding v", "One open fault per subject and kind, however many there are", "ledger/faults:more_than_five"),
)  # fmt: skip

FIELD: Final = (
    _says("C27", "Listings page, and a large answer arrives whole", "ledger/query:a_page_ends",
          "ledger/feed:large_pages"),
    _says("C28", "What is too large is refused, never dropped", "ledger/send:what_is_too_large"),
    _says("C37", "A refusal says what belongs there", "ledger/send:a_wrong_shape", "ledger/feed:a_filter_that"),
    _says("C40", "A subscriber that does not read is told where to go on, and harms nobody",
          "ledger/subscriptions:a_live_reader"),
    _says("C41", "A client that vanishes gives its mail back", "ledger/presence:a_connection_that_ends"),
    _says("C43", "Two processes write side by side", "ledger/wakeups:another_process",
          "ledger/subscriptions:catching_up"),
    _says("C45", "A call cancelled at any moment did happen or did not", "ledger/wakeups:a_cancel_at"),
    _says("C72", "Time never goes back for what is due", "stores/clock:no_sequence_of_steps"),
    _says("C75", "A mistyped recipient is refused with near names", "ledger/roles:an_unknown_role"),
    _says("C76", "Cursor and state are apart, and a long queue is drained in order", "ledger/feed:an_inbox_cursor",
          "ledger/pull:a_long_queue"),
    _says("C77", "Order is kept, and nothing is replaced by what comes later", "ledger/pull:rows_are",
          "ledger/pull:a_row_keeps", "ledger/send:a_later_completion"),
    _says("C79", "Mail is never left to a role that is gone: the role stays, or the row ends with a reason",
          "ledger/roles:a_role_in_use", "ledger/delivery:what_the_operator", "ledger/expiry:mail_that_an_absent"),
    _says("C80", "What failed says why, and how often it was tried", "ledger/presence:a_row_put_back",
          "ledger/delivery:without_a_reason"),
    _says("C81", "A backlog can be cleared by its owner and by the operator", "ledger/delivery:a_backlog"),
    _says("C83", "An empty answer says up to which event it is true", "ledger/query:a_page_says",
          "ledger/wait:the_time_out"),
    _says("C85", "A retry learns what happened", "ledger/ops:the_first_result", "ledger/ops:a_repeat_in_flight",
          "ledger/ops:a_replay_survives"),
    _says("C86", "Attempts count when offered; beyond the cap a row is rejected, kept and a fault",
          "ledger/presence:a_row_put_back", "ledger/pull:a_redelivery"),
    _says("C87", "A hint wakes, the store decides", "ledger/wakeups:a_thousand", "ledger/wakeups:another_process"),
    _says("C89", "Who sends to nobody is told so", "ledger/send:the_receipt", "ledger/refusals:the_refusal_has"),
    _says("C90", "Offered, surfaced and acked are three things", "ledger/delivery:surfaced_is"),
)  # fmt: skip

REQUIREMENTS: Final = (*CONTRACT, *METHODS, *LESSONS, *FIELD)

ELSEWHERE: Final = {
    "sessions, bindings, repair, hooks, ghost sweeps": (
        *(f"lesson {n}" for n in (1, 2, 3, 6, 20, 21, 22, 23, 33, 41)),
        *(f"finding {letter}" for letter in "elmnrwx"),
    ),
    "the plans of every named statement": ("lesson 4",),
    "the store: engine, files, schema, failures": (
        *(f"C{n}" for n in (44, 46, 47, 48, 49, 50, 51, 52, 53, 55, 56, 57, 58, 59, 60, 61, 62, 63)),
        "finding u",
    ),
    "the wire and the process": (
        *(f"C{n}" for n in (26, 30, 31, 32, 34, 35, 36, 38, 39)),
        "lesson 31",
        "lesson 35",
        "lesson 39",
    ),
    "claims and leases": tuple(f"C{n}" for n in (64, 65, 67, 69, 70, 71, 73, 74)),
    "consumers, and what does not exist here: tickets, links over TLS, a second notifier": (
        *(f"lesson {n}" for n in (15, 16, 17, 18, 26, 27, 29, 30, 32, 34, 38)),
        "C88",
    ),
}
"""Lessons, findings and failures that are not about delivery, by whose they are."""
