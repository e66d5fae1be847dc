-- The first schema. Files here are never edited once released: a change is a new file with the next number.

-- One row: which database this is, so that a derived file made from another one is never believed.
CREATE TABLE installation (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    database_id TEXT NOT NULL
);
INSERT INTO installation (only_row, database_id) VALUES (1, lower(hex(randomblob(16))));

-- Counters that workers compare with what they saw last.
CREATE TABLE generations (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO generations (name, value) VALUES ('keys', 0), ('exact_answers', 0);

CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    secret_hmac TEXT NOT NULL UNIQUE,
    prefix TEXT NOT NULL,
    tenant TEXT NOT NULL,
    tenant_name TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at_s REAL NOT NULL,
    revoked_at_s REAL
) WITHOUT ROWID;

CREATE TABLE exact_answers (
    id INTEGER PRIMARY KEY,
    key BLOB NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    stored_at_s REAL NOT NULL,
    last_used_at_s REAL NOT NULL,
    size_bytes INTEGER NOT NULL,
    engine TEXT NOT NULL,
    content_type TEXT NOT NULL,
    usage_estimated INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX exact_answers_by_use ON exact_answers (last_used_at_s);
CREATE INDEX exact_answers_by_age ON exact_answers (stored_at_s);
CREATE INDEX exact_answers_by_tenant ON exact_answers (tenant);

-- Triggers keep the sum, so that the size cap costs no scan.
CREATE TABLE exact_size (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    total_bytes INTEGER NOT NULL
);
INSERT INTO exact_size (only_row, total_bytes) VALUES (1, 0);
CREATE TRIGGER exact_answers_grow AFTER INSERT ON exact_answers BEGIN
    UPDATE exact_size SET total_bytes = total_bytes + NEW.size_bytes;
END;
CREATE TRIGGER exact_answers_change AFTER UPDATE OF size_bytes ON exact_answers BEGIN
    UPDATE exact_size SET total_bytes = total_bytes - OLD.size_bytes + NEW.size_bytes;
END;
CREATE TRIGGER exact_answers_shrink AFTER DELETE ON exact_answers BEGIN
    UPDATE exact_size SET total_bytes = total_bytes - OLD.size_bytes;
END;

-- The last place given out in the log of examples. A place is never used twice.
CREATE TABLE example_sequence (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    last_seq INTEGER NOT NULL
);
INSERT INTO example_sequence (only_row, last_seq) VALUES (1, 0);

-- The vector stands before the texts: a scan for vectors then never walks a long text's overflow pages.
CREATE TABLE examples (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    seq INTEGER NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    scope TEXT NOT NULL,
    source_engine TEXT NOT NULL,
    request_id TEXT NOT NULL,
    created_at_s REAL NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    uses INTEGER NOT NULL DEFAULT 0,
    last_used_at_s REAL,
    embedding_version TEXT NOT NULL,
    vector BLOB,
    question TEXT NOT NULL,
    answer TEXT NOT NULL,
    embedded_text TEXT NOT NULL
);
CREATE UNIQUE INDEX examples_by_request ON examples (tenant, request_id) WHERE request_id <> '';
CREATE INDEX examples_by_tenant ON examples (tenant, seq);
CREATE INDEX examples_by_vector ON examples (embedding_version, id) WHERE vector IS NULL;

-- What is left of an example that was removed: its place in the log, no text and no vector.
CREATE TABLE removed_examples (
    seq INTEGER PRIMARY KEY,
    example_id INTEGER NOT NULL,
    tenant TEXT NOT NULL
);
CREATE INDEX removed_examples_by_tenant ON removed_examples (tenant, seq);

CREATE TABLE requests (
    row_id INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    started_at_s REAL NOT NULL,
    endpoint TEXT NOT NULL,
    model TEXT NOT NULL,
    engine TEXT NOT NULL,
    outcome TEXT NOT NULL,
    status INTEGER NOT NULL,
    policy TEXT NOT NULL,
    policy_version TEXT NOT NULL,
    probability REAL NOT NULL,
    reason TEXT NOT NULL,
    example_count INTEGER NOT NULL,
    example_ids TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    usage_estimated INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    total_ms REAL NOT NULL,
    first_chunk_ms REAL,
    overhead_ms REAL NOT NULL,
    stages_ms TEXT NOT NULL
);
CREATE INDEX requests_by_time ON requests (started_at_s);
CREATE INDEX requests_by_tenant ON requests (tenant, started_at_s);
