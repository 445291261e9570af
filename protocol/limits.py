"""Every bound of the wire by its name in the contract (daemon 2.1), announced by `initialize` and `daemon/discover`."""

from __future__ import annotations

from typing import Final

from interlock.lifecycle import attention, bounds, roles, types, work

MESSAGE_BYTES: Final = 8 << 20
HEADER_BYTES: Final = 4096
OUTPUT_BYTES: Final = 8 << 20
DEPTH: Final = 128
ID_BYTES: Final = 1024
BATCH_MEMBERS: Final = 256
REQUESTS_IN_FLIGHT: Final = 256
WAITING_CALLS: Final = 128
SERVER_REQUESTS: Final = 64
SERVER_REQUEST_MS: Final = 30_000
SCAN_ROWS: Final = bounds.SCAN_ROWS
FRESH_WAIT_MS: Final = 30_000
PAGE_DEFAULT: Final = types.PAGE_DEFAULT
PAGE_LIMIT: Final = types.PAGE_LIMIT
PAGE_BYTES: Final = bounds.PAGE_BYTES
PULL_LIMIT: Final = 100
WAIT_MS: Final = 60_000
HOLDS: Final = 500
BATCH_STEPS: Final = 64
OP_ID_BYTES: Final = 128
NAME_BYTES: Final = types.NAME_BYTES
TITLE_BYTES: Final = 1024
TEXT_BYTES: Final = types.TEXT_BYTES
IMAGE_BYTES: Final = 2 << 20
JSON_BYTES: Final = types.JSON_BYTES
LABELS: Final = 8
SUBSCRIPTIONS: Final = 64
SUBSCRIBER_LAG: Final = 256
FILTER_VALUES: Final = 64
HOOKS: Final = 64
HOOK_OUTPUT_BYTES: Final = 65536
HOOK_TIMEOUT_MS: Final = 600_000
SYNC_ROLES: Final = 1000
MAX_SESSIONS: Final = roles.MAX_SESSIONS
ITEM_LABELS: Final = work.ITEM_LABELS
FILTER_LABELS: Final = 16
EXTERNAL_REFS: Final = work.EXTERNAL_REFS
EVIDENCE_REFS: Final = work.EVIDENCE_REFS
SUMMARY_BYTES: Final = work.SUMMARY_BYTES
ITEM_BINDINGS: Final = attention.ITEM_BINDINGS
LEASE_DEFAULT_SECONDS: Final = 900
LEASE_SECONDS: Final = 31_536_000
QUORUM: Final = work.QUORUM
PROJECTION_CHARS: Final = attention.PROJECTION_CHARS
CYCLE_EDGES: Final = bounds.CYCLE_EDGES
EXPLAINED: Final = bounds.EXPLAINED
PRUNE_ROWS: Final = bounds.PRUNE_ROWS
SETTLED: Final = bounds.SETTLED
ADMISSION_WAIT_MS: Final = 30_000
RUNTIME_CACHE_MS: Final = 60_000
RUNTIME_CACHE_ENTRIES: Final = 4096

LIMITS: Final[dict[str, int]] = {
    name.lower(): value for name, value in dict(globals()).items() if name.isupper() and isinstance(value, int)
}
