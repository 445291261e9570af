-- Work: what is to be done and who holds it (contract workgraph 1). `n` is the row's number, which other tables use.
--
-- `stage` says in which queue an item stands: 1 ready (open, nothing in its way, gate open), 2 gated (the same behind a
-- future `gate_at`), 0 neither. The sweeper moves 2 to 1, so a row changes its queue only in a transaction that says so.
CREATE TABLE items(
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    realm_id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    title TEXT NOT NULL,
    status TEXT NOT NULL,
    priority INTEGER NOT NULL,          -- 0 high, 1 medium, 2 low: in the order of urgency
    labels TEXT,                        -- JSON array, sorted; NULL is none
    policy TEXT NOT NULL,               -- JSON
    failed_join TEXT NOT NULL,
    cancelled_join TEXT NOT NULL,
    unresolved_blockers INTEGER NOT NULL,
    join_state TEXT NOT NULL,
    children_active INTEGER NOT NULL,
    children_completed INTEGER NOT NULL,
    children_failed INTEGER NOT NULL,
    children_cancelled INTEGER NOT NULL,
    owner_kind TEXT,                    -- of the claim, with the two below; NULL without one
    owner_id TEXT,
    owner_name TEXT,
    fence INTEGER NOT NULL,             -- the last one given out, 0 at first
    alias_claim INTEGER NOT NULL,       -- 1 where the claim was made through mobkit/, whose clients know no fence
    claimed_at INTEGER,
    lease_expires_at INTEGER,           -- of the claim; NULL is never
    due_at INTEGER,
    due_order INTEGER NOT NULL,         -- due_at, or the end of time
    overdue_at INTEGER,                 -- due_at until item_overdue was said of it
    not_before INTEGER,
    snoozed_until INTEGER,
    gate_at INTEGER,                    -- the later of the two
    stage INTEGER NOT NULL,
    block_note TEXT,
    has_content INTEGER NOT NULL,       -- whether item_content has a row
    evidence INTEGER NOT NULL,          -- how many rows of item_evidence
    confirmations TEXT,                 -- JSON of what counts now; NULL is nothing
    content_revision INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    terminal_at INTEGER
);
CREATE UNIQUE INDEX items_item ON items(id);
CREATE INDEX items_listed ON items(realm_id, namespace, status, updated_at, id);
CREATE INDEX items_ready ON items(realm_id, namespace, priority, due_order, created_at, id) WHERE stage = 1;
CREATE INDEX items_gated ON items(gate_at, realm_id, namespace) WHERE stage = 2;
CREATE INDEX items_leases ON items(lease_expires_at, realm_id, namespace) WHERE lease_expires_at IS NOT NULL;
CREATE INDEX items_overdue ON items(overdue_at) WHERE overdue_at IS NOT NULL;
CREATE INDEX items_held ON items(realm_id, namespace, owner_kind, owner_id, updated_at, id)
    WHERE owner_kind IS NOT NULL;
-- IS, not =: else SQLite would prepare every `status = ?` anew for each execution.
CREATE INDEX items_settling ON items(realm_id, namespace, created_at, id)
    WHERE status IS 'open' AND join_state IN ('propagate_failure', 'propagate_cancellation');

-- What may be large and seldom changes, apart, so that a claim does not write it again.
CREATE TABLE item_content(
    item INTEGER PRIMARY KEY REFERENCES items(n),
    description TEXT,
    external_refs TEXT                  -- JSON array
);

CREATE TABLE item_evidence(
    item INTEGER NOT NULL REFERENCES items(n),
    pos INTEGER NOT NULL,
    data TEXT NOT NULL,                 -- JSON
    PRIMARY KEY(item, pos)
) WITHOUT ROWID;

-- One row per label of an item, with what filtered pages are ordered by: kept equal to the item's in its transactions.
CREATE TABLE item_labels(
    item INTEGER NOT NULL REFERENCES items(n),
    label TEXT NOT NULL,
    realm_id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    status TEXT NOT NULL,
    stage INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    due_order INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY(item, label)
) WITHOUT ROWID;
CREATE INDEX item_labels_listed ON item_labels(realm_id, namespace, label, status, updated_at, id);
CREATE INDEX item_labels_ready ON item_labels(realm_id, namespace, label, priority, due_order, created_at, id)
    WHERE stage = 1;

CREATE TABLE edges(
    from_item INTEGER NOT NULL REFERENCES items(n),
    kind TEXT NOT NULL,
    to_item INTEGER NOT NULL REFERENCES items(n),
    on_failure TEXT,                    -- of blocks only
    created_at INTEGER NOT NULL,
    PRIMARY KEY(from_item, kind, to_item)
) WITHOUT ROWID;
CREATE INDEX edges_to ON edges(to_item, kind, from_item);

-- Who attends to what (contract workgraph 5.2). The unique index is the guarantee that a target has one occupant.
CREATE TABLE attention(
    n INTEGER PRIMARY KEY,
    binding_id TEXT NOT NULL,
    realm_id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    item INTEGER NOT NULL REFERENCES items(n),
    target_key TEXT NOT NULL,           -- session:<uuid> or owner:<kind>:<id>; the target is read off it
    alias_key TEXT,                     -- the member key that another binding holds
    mode TEXT NOT NULL,
    delegated_authority TEXT NOT NULL,
    max_text_chars INTEGER NOT NULL,
    include_parent_context INTEGER NOT NULL,
    status TEXT NOT NULL,
    paused_until INTEGER,
    superseded_by TEXT,
    revision INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    terminal_at INTEGER,
    op_id TEXT                          -- of the reassign that made it: forgotten with it
);
CREATE UNIQUE INDEX attention_binding ON attention(binding_id);
CREATE UNIQUE INDEX attention_occupying ON attention(realm_id, namespace, target_key)
    WHERE status IN ('active', 'paused');
CREATE INDEX attention_everywhere ON attention(target_key, created_at, binding_id) WHERE status IN ('active', 'paused');
CREATE INDEX attention_alias ON attention(realm_id, namespace, alias_key, created_at, binding_id)
    WHERE alias_key IS NOT NULL;
CREATE INDEX attention_item ON attention(item, updated_at, binding_id);
CREATE INDEX attention_on_item ON attention(item, n) WHERE status IN ('active', 'paused');
CREATE INDEX attention_listed ON attention(realm_id, namespace, status, updated_at, binding_id);
CREATE INDEX attention_target ON attention(realm_id, namespace, target_key, updated_at, binding_id);
CREATE INDEX attention_pauses ON attention(paused_until, realm_id, namespace) WHERE paused_until IS NOT NULL;

-- Who is who: of the store, not of a realm (contract workgraph 9).
CREATE TABLE members(
    mob_id TEXT NOT NULL,
    identity TEXT NOT NULL,
    session_id TEXT,                    -- the current one
    status TEXT NOT NULL,
    source TEXT NOT NULL,
    revision INTEGER NOT NULL,
    registered_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    retired_at INTEGER,
    PRIMARY KEY(mob_id, identity)
) WITHOUT ROWID;
CREATE INDEX members_status ON members(status, mob_id, identity);

-- The sessions that map to a member, former ones too. A session maps to the member that registered it last.
CREATE TABLE member_sessions(
    session_id TEXT PRIMARY KEY NOT NULL,
    mob_id TEXT NOT NULL,
    identity TEXT NOT NULL,
    source TEXT NOT NULL,               -- registered, or runtime: what a runtime says later comes before it
    from_at INTEGER NOT NULL,
    to_at INTEGER,
    FOREIGN KEY(mob_id, identity) REFERENCES members(mob_id, identity)
) WITHOUT ROWID;
CREATE INDEX member_sessions_member ON member_sessions(mob_id, identity, from_at, session_id);

-- The fault of a binding, whatever became of it: whose key is free again has its fault closed.
CREATE INDEX faults_subject ON faults(subject, kind, id);
