-- Roles and who is attached to them.
CREATE TABLE roles(
    name TEXT PRIMARY KEY NOT NULL,
    admin INTEGER NOT NULL,
    max_sessions INTEGER NOT NULL,
    allowed_senders TEXT,               -- JSON array, NULL is everybody
    note_queue INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE attachments(
    role TEXT NOT NULL REFERENCES roles(name),
    instance_id TEXT NOT NULL,
    holder TEXT NOT NULL,               -- one connection of one process: what messages.holder names
    attached_at INTEGER NOT NULL,
    PRIMARY KEY(role, holder)
) WITHOUT ROWID;
CREATE INDEX attachments_instance ON attachments(instance_id, holder);

-- Mail. `id` is the arrival order. Every partial index holds live rows only, so no cost grows with history.
CREATE TABLE messages(
    id INTEGER PRIMARY KEY,
    msg_id TEXT NOT NULL,
    op_id TEXT,
    kind TEXT NOT NULL,
    from_role TEXT NOT NULL,
    to_role TEXT NOT NULL,
    to_session TEXT,
    task TEXT,
    parent_task TEXT,
    family TEXT,
    hop INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    hop_budget INTEGER,
    deadline_at INTEGER,
    origin TEXT,
    reply_to TEXT,
    labels TEXT,
    outcome TEXT,
    control TEXT,
    admin INTEGER NOT NULL,
    head TEXT NOT NULL,
    body TEXT,                          -- JSON; NULL when there was none or retention took it
    has_body INTEGER NOT NULL,          -- 0 never had one, 1 kept, 2 pruned
    ts INTEGER NOT NULL,
    ttl_ms INTEGER,
    state TEXT NOT NULL,
    reason TEXT,
    enqueued_at INTEGER NOT NULL,
    due_at INTEGER,                     -- when the sweeper must expire it; NULL unless it can expire in this state
    offered_at INTEGER,
    surfaced_at INTEGER,
    settled_at INTEGER,
    settled_by TEXT,
    session TEXT,
    holder TEXT,                        -- the connection that holds it while in flight
    deliveries INTEGER NOT NULL,
    requeued INTEGER NOT NULL
);
CREATE UNIQUE INDEX messages_msg ON messages(msg_id);
CREATE INDEX messages_task ON messages(task, id) WHERE task IS NOT NULL;
-- IS, not =: else SQLite would prepare every `kind = ?` anew for each execution, as its value could bring this one in.
CREATE INDEX messages_tasks ON messages(task, id) WHERE kind IS 'task';
CREATE INDEX messages_queued ON messages(to_role, kind, id) WHERE state = 'queued';
CREATE INDEX messages_in_flight ON messages(to_role, kind, id) WHERE state = 'in_flight';
CREATE INDEX messages_due ON messages(due_at) WHERE due_at IS NOT NULL;
CREATE INDEX messages_settled ON messages(settled_at, id) WHERE settled_at IS NOT NULL;
CREATE INDEX messages_bodies ON messages(settled_at, id) WHERE state = 'acked' AND has_body = 1;

CREATE TABLE verdicts(
    task TEXT PRIMARY KEY NOT NULL,
    outcome TEXT NOT NULL,
    by_what TEXT NOT NULL,
    at_ms INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE cursors(
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    seq INTEGER NOT NULL,
    msg_id TEXT,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY(kind, name)
) WITHOUT ROWID;

CREATE TABLE faults(
    id INTEGER PRIMARY KEY,
    fault_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    subject TEXT NOT NULL,
    task_id TEXT,
    msg_id TEXT,
    session_id TEXT,
    role TEXT,
    hook TEXT,
    generation INTEGER,
    seq INTEGER,
    detail TEXT,
    op_id TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX faults_fault ON faults(fault_id);
CREATE UNIQUE INDEX faults_open ON faults(subject, kind) WHERE state = 'open';
CREATE INDEX faults_task ON faults(task_id, id) WHERE task_id IS NOT NULL;
CREATE INDEX faults_state ON faults(state, id);
CREATE INDEX faults_settled ON faults(updated_at, id) WHERE state <> 'open';

-- One table of op ids for all families (DESIGN 4.4). `subject` names what the operation created and lives as long.
CREATE TABLE ops(
    id INTEGER PRIMARY KEY,
    op_id TEXT NOT NULL,
    method TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    result BLOB NOT NULL,
    subject TEXT,
    at_ms INTEGER NOT NULL
);
CREATE UNIQUE INDEX ops_op ON ops(op_id);
CREATE INDEX ops_expiry ON ops(at_ms) WHERE subject IS NULL;

-- The feed of all families. AUTOINCREMENT: a seq is never used twice.
CREATE TABLE events(
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    family TEXT NOT NULL,
    type TEXT NOT NULL,
    realm_id TEXT,
    namespace TEXT,
    subject TEXT NOT NULL,
    role TEXT,
    at_ms INTEGER NOT NULL,
    data TEXT NOT NULL
);

-- One row: the feed's floor and the probe that health writes and reads back.
CREATE TABLE facts(
    name TEXT PRIMARY KEY NOT NULL,
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO facts(name, value) VALUES ('floor', 0), ('probe', 0);

INSERT INTO roles(name, admin, max_sessions, allowed_senders, note_queue, updated_at)
VALUES ('operator', 0, 1, NULL, 1, CAST(strftime('%s', 'now') AS INTEGER) * 1000);
