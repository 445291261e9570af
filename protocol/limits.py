"""Every bound of the wire by its name in the contract (daemon 2.1), announced by `initialize` and `daemon/discover`."""

from __future__ import annotations

from typing import Final

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
SCAN_ROWS: Final = 10_000
FRESH_WAIT_MS: Final = 30_000
PAGE_DEFAULT: Final = 100
PAGE_LIMIT: Final = 500
PAGE_BYTES: Final = 4 << 20
PULL_LIMIT: Final = 100
WAIT_MS: Final = 60_000
HOLDS: Final = 500
BATCH_STEPS: Final = 64
OP_ID_BYTES: Final = 128
NAME_BYTES: Final = 256
TITLE_BYTES: Final = 1024
TEXT_BYTES: Final = 1 << 20
IMAGE_BYTES: Final = 2 << 20
JSON_BYTES: Final = 65536
LABELS: Final = 8
SUBSCRIPTIONS: Final = 64
SUBSCRIBER_LAG: Final = 256
FILTER_VALUES: Final = 64
HOOKS: Final = 64
HOOK_OUTPUT_BYTES: Final = 65536
HOOK_TIMEOUT_MS: Final = 600_000
SYNC_ROLES: Final = 1000
MAX_SESSIONS: Final = 10_000
ITEM_LABELS: Final = 64
FILTER_LABELS: Final = 16
EXTERNAL_REFS: Final = 64
EVIDENCE_REFS: Final = 256
SUMMARY_BYTES: Final = 8192
ITEM_BINDINGS: Final = 64
LEASE_DEFAULT_SECONDS: Final = 900
LEASE_SECONDS: Final = 31_536_000
QUORUM: Final = 64
PROJECTION_CHARS: Final = 262_144
CYCLE_EDGES: Final = 50_000
EXPLAINED: Final = 50
PRUNE_ROWS: Final = 10_000
SETTLED: Final = 16
ADMISSION_WAIT_MS: Final = 30_000
RUNTIME_CACHE_MS: Final = 60_000
RUNTIME_CACHE_ENTRIES: Final = 4096

LIMITS: Final[dict[str, int]] = {
    name.lower(): value for name, value in dict(globals()).items() if name.isupper() and isinstance(value, int)
}
