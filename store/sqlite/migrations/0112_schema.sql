-- The schema of SQLite, at the number in this file's name. store/postgres/migrations has the same tables for PostgreSQL.
-- A database that has this number is as this file says: a change is a new file beside it, with the next number, in both folders.

-- ==== the database ====

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
INSERT INTO generations (name, value) VALUES
    ('artifacts', 0), ('dials', 0), ('drained_engines', 0), ('exact_answers', 0), ('keys', 0), ('kv_plans', 0), ('tasks', 0);

-- Who does what only one process does at a time: by the database's clock, on whatever machine it runs.
CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    -- Which process, on which machine.
    holder TEXT NOT NULL,
    -- Grows with every holder: what one writes under an earlier epoch is refused.
    epoch INTEGER NOT NULL,
    -- Seconds since 1970; in the past once it was let go.
    until_s REAL NOT NULL
) WITHOUT ROWID;

-- Files that every replica needs, in pieces of at most 1 MiB. Here the table stays empty: with SQLite these are files of the
-- data folder.
CREATE TABLE blobs (
    name TEXT NOT NULL,
    part INTEGER NOT NULL,
    bytes BLOB NOT NULL CHECK (length(bytes) <= 1048576),
    at_s REAL NOT NULL,
    PRIMARY KEY (name, part)
) WITHOUT ROWID;

-- ==== people: tenants, keys, operators ====

-- What a tenant may use: its limits and retention are JSON objects as store/people reads them.
CREATE TABLE tenants (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    created_at_s REAL NOT NULL,
    limits TEXT NOT NULL,
    each_user TEXT NOT NULL,
    expires_at_s REAL,
    memory_partition TEXT,
    users_required INTEGER,
    region TEXT NOT NULL,
    -- JSON object: days by what is kept.
    retention TEXT NOT NULL,
    source TEXT NOT NULL,
    closed_at_s REAL
) WITHOUT ROWID;

-- Tenants that were deleted. A row goes when a key or a record of that name is made anew.
CREATE TABLE deleted_tenants (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    deleted_at_s REAL NOT NULL
) WITHOUT ROWID;

-- Keys of clients. Limits are JSON objects as store/people reads them.
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    secret_hmac TEXT NOT NULL UNIQUE,
    prefix TEXT NOT NULL,
    tenant TEXT NOT NULL,
    tenant_name TEXT NOT NULL,
    name TEXT NOT NULL,
    created_at_s REAL NOT NULL,
    revoked_at_s REAL,
    limits TEXT NOT NULL DEFAULT '{}',
    each_user TEXT NOT NULL DEFAULT '{}',
    expires_at_s REAL,
    memory_partition TEXT,
    -- 0, 1 or NULL.
    users_required INTEGER,
    source TEXT NOT NULL DEFAULT 'cli'
) WITHOUT ROWID;

-- Secrets that a key had before it was rotated, while they are still taken.
CREATE TABLE older_secrets (
    secret_hmac TEXT PRIMARY KEY,
    key_id TEXT NOT NULL,
    until_s REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX older_secrets_by_key ON older_secrets (key_id);

-- Who may use the admin pages.
CREATE TABLE admin_users (
    name TEXT PRIMARY KEY,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'viewer-content', 'operator')),
    password_hash TEXT NOT NULL,
    created_at_s REAL NOT NULL,
    changed_at_s REAL NOT NULL
) WITHOUT ROWID;

-- Who is signed in. Only a keyed hash of the cookie is kept: whoever reads the database can sign in as nobody.
CREATE TABLE admin_sessions (
    id_hash TEXT PRIMARY KEY,
    user_name TEXT NOT NULL REFERENCES admin_users (name) ON DELETE CASCADE,
    created_at_s REAL NOT NULL,
    seen_at_s REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX admin_sessions_by_user ON admin_sessions (user_name);

-- Who may use the admin API.
CREATE TABLE admin_tokens (
    id TEXT PRIMARY KEY,
    secret_hmac TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    prefix TEXT NOT NULL,
    created_at_s REAL NOT NULL,
    expires_at_s REAL,
    revoked_at_s REAL
) WITHOUT ROWID;

-- What operators did. Rows are added and dropped when old, never changed. Holds no content and no secret.
CREATE TABLE audit_log (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_s REAL NOT NULL,
    user_name TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('done', 'failed', 'refused')),
    address TEXT NOT NULL,
    detail TEXT NOT NULL
);
CREATE INDEX audit_log_by_age ON audit_log (at_s);
CREATE INDEX audit_log_by_user ON audit_log (user_name, id);

-- ==== limits ====

-- What keys, tenants and end users have spent of their limits in a window, and what workers hold of the rest to hand out
-- without asking here. Integers only: nanodollars, tokens, requests. Holds no content.
CREATE TABLE allowances (
    scope TEXT NOT NULL,
    kind TEXT NOT NULL,
    start_s INTEGER NOT NULL,
    ends_s REAL NOT NULL,
    spent INTEGER NOT NULL CHECK (spent >= 0),
    -- Of what was spent: what nobody counted, such as the answer of a client that left.
    estimated INTEGER NOT NULL CHECK (estimated >= 0),
    -- What workers hold and have not booked as spent: the sum over allowance_leases.
    leased INTEGER NOT NULL CHECK (leased >= 0),
    -- Until then whoever holds more than it needs is to give it back.
    wanted_until_s REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (scope, kind, start_s)
);
CREATE INDEX allowances_by_end ON allowances (ends_s);
CREATE INDEX allowances_wanted ON allowances (wanted_until_s) WHERE wanted_until_s > 0;

-- Workers that hold something.
CREATE TABLE allowance_workers (
    id TEXT PRIMARY KEY,
    -- Of the machine since it was started: elsewhere, or after a power cut, a worker's journal cannot be trusted.
    boot_id TEXT NOT NULL,
    until_s REAL NOT NULL
);

-- What a worker was granted in all, and what of it is booked as spent. Its slot in the worker's journal says how much is
-- reserved.
CREATE TABLE allowance_leases (
    worker TEXT NOT NULL REFERENCES allowance_workers (id) ON DELETE CASCADE,
    scope TEXT NOT NULL,
    kind TEXT NOT NULL,
    start_s INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    granted INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    PRIMARY KEY (worker, scope, kind, start_s)
);

-- ==== examples ====

-- The last place given out in the log of examples. A place is never used twice.
CREATE TABLE example_sequence (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    last_seq INTEGER NOT NULL
);
INSERT INTO example_sequence (only_row, last_seq) VALUES (1, 0);

-- Past requests with their answers. The vector stands before the texts: a scan for vectors then never walks a long text's
-- overflow pages.
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
    embedding_version TEXT NOT NULL,
    vector BLOB,
    question TEXT NOT NULL,
    answer TEXT NOT NULL,
    embedded_text TEXT NOT NULL
);
CREATE UNIQUE INDEX examples_by_request ON examples (tenant, request_id) WHERE request_id <> '';
CREATE INDEX examples_by_tenant ON examples (tenant, seq);
CREATE INDEX examples_waiting ON examples (id) WHERE vector IS NULL;
CREATE INDEX examples_by_version ON examples (embedding_version, id);
CREATE INDEX examples_by_scope ON examples (tenant, scope);
-- Examples are found by their words; requests look only in the tenant's scope, the rarest words first.
CREATE VIRTUAL TABLE example_words USING fts5 (
    tenant, scope, question, answer, content = 'examples', content_rowid = 'id',
    tokenize = "unicode61 remove_diacritics 2"
);
CREATE VIRTUAL TABLE example_vocabulary USING fts5vocab ('example_words', 'row');
CREATE TRIGGER semantic_entries_go_with_example AFTER DELETE ON examples BEGIN
    DELETE FROM semantic_entries WHERE example_id = OLD.id;
END;
CREATE TRIGGER semantic_entries_go_with_texts AFTER UPDATE OF question, answer ON examples
WHEN NEW.question IS NOT OLD.question OR NEW.answer IS NOT OLD.answer BEGIN
    DELETE FROM semantic_entries WHERE example_id = OLD.id;
END;
CREATE TRIGGER answer_vectors_wait AFTER INSERT ON examples BEGIN
    INSERT INTO answer_vectors (example_id) VALUES (NEW.id);
END;
CREATE TRIGGER answer_vectors_go_with_answer AFTER UPDATE OF answer ON examples WHEN NEW.answer IS NOT OLD.answer BEGIN
    UPDATE answer_vectors SET version = '', vector = NULL WHERE example_id = OLD.id;
END;
CREATE TRIGGER replay_texts_go_with_example AFTER DELETE ON examples BEGIN
    UPDATE replay_asks SET text = '' WHERE text <> '' AND step_id IN
        (SELECT id FROM replay_steps WHERE example_id = OLD.id);
END;
CREATE TRIGGER example_versions_go_with_texts AFTER UPDATE OF question, request_id ON examples
WHEN NEW.question IS NOT OLD.question OR NEW.request_id IS NOT OLD.request_id BEGIN
    DELETE FROM example_versions WHERE example_id = OLD.id;
END;
CREATE TRIGGER example_instructions_go_with_examples AFTER DELETE ON examples BEGIN
    DELETE FROM example_instructions WHERE tenant = OLD.tenant AND scope = OLD.scope
        AND NOT EXISTS (SELECT 1 FROM examples WHERE tenant = OLD.tenant AND scope = OLD.scope);
END;
CREATE TRIGGER semantic_aliases_go_with_texts AFTER UPDATE OF question, answer ON examples
WHEN NEW.question IS NOT OLD.question OR NEW.answer IS NOT OLD.answer BEGIN
    DELETE FROM semantic_aliases WHERE example_id = OLD.id;
END;
CREATE TRIGGER example_words_in AFTER INSERT ON examples BEGIN
    INSERT INTO example_words (rowid, tenant, scope, question, answer)
        VALUES (NEW.id, NEW.tenant, NEW.scope, NEW.question, NEW.answer);
END;
CREATE TRIGGER example_words_out AFTER DELETE ON examples BEGIN
    INSERT INTO example_words (example_words, rowid, tenant, scope, question, answer)
        VALUES ('delete', OLD.id, OLD.tenant, OLD.scope, OLD.question, OLD.answer);
END;
CREATE TRIGGER example_words_change AFTER UPDATE OF tenant, scope, question, answer ON examples
WHEN NEW.question IS NOT OLD.question OR NEW.answer IS NOT OLD.answer OR NEW.tenant IS NOT OLD.tenant
    OR NEW.scope IS NOT OLD.scope BEGIN
    INSERT INTO example_words (example_words, rowid, tenant, scope, question, answer)
        VALUES ('delete', OLD.id, OLD.tenant, OLD.scope, OLD.question, OLD.answer);
    INSERT INTO example_words (rowid, tenant, scope, question, answer)
        VALUES (NEW.id, NEW.tenant, NEW.scope, NEW.question, NEW.answer);
END;

-- What is left of an example that was removed: its place in the log, no text and no vector.
CREATE TABLE removed_examples (
    seq INTEGER PRIMARY KEY,
    example_id INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    removed_at_s REAL NOT NULL DEFAULT 0,
    -- Removed because somebody wanted it gone: its vector has to leave every file, too.
    erase INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX removed_examples_by_tenant ON removed_examples (tenant, seq);

-- Removals are dropped from the log when they are old; who has not followed that far reads the tenant anew.
CREATE TABLE dropped_removals (
    tenant TEXT PRIMARY KEY,
    up_to_seq INTEGER NOT NULL
) WITHOUT ROWID;

-- What an example is worth, whose it is and how long it may stay. One narrow row per example: it is written anew on every
-- use, which must not rewrite the texts and the vector. `worth` is a logarithm referred to 1970 (store/examples/accounting.py).
CREATE TABLE example_accounts (
    id INTEGER PRIMARY KEY REFERENCES examples (id) ON DELETE CASCADE,
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('observed', 'demonstration')),
    contributor TEXT NOT NULL,
    pinned INTEGER NOT NULL,
    flagged INTEGER NOT NULL,
    merged INTEGER NOT NULL,
    served_from_s REAL NOT NULL,
    seen_at_s REAL NOT NULL,
    size_bytes INTEGER NOT NULL,
    uses INTEGER NOT NULL,
    last_used_at_s REAL,
    used REAL NOT NULL,
    used_at_s REAL NOT NULL,
    gain REAL NOT NULL,
    gain_at_s REAL NOT NULL,
    quality_sum REAL NOT NULL,
    quality_count INTEGER NOT NULL,
    worth REAL NOT NULL,
    worth_per_byte REAL NOT NULL,
    -- What was noted of it before its answer was corrected, and is written only now, was of the old answer.
    corrected_at_s REAL NOT NULL DEFAULT 0
);
CREATE INDEX accounts_by_tenant ON example_accounts (tenant);
CREATE INDEX accounts_of_demonstrations ON example_accounts (tenant) WHERE kind = 'demonstration';
CREATE INDEX accounts_by_contributor ON example_accounts (tenant, contributor) WHERE contributor <> '';
CREATE INDEX accounts_by_worth ON example_accounts (tenant, worth)
    WHERE kind = 'observed' AND pinned = 0;
CREATE INDEX accounts_by_worth_per_byte ON example_accounts (tenant, worth_per_byte)
    WHERE kind = 'observed' AND pinned = 0;
CREATE INDEX accounts_by_gain ON example_accounts (tenant, gain, gain_at_s);
CREATE INDEX accounts_by_uses ON example_accounts (tenant, uses);
CREATE INDEX accounts_held_back ON example_accounts (tenant, id) WHERE served_from_s >= 4102444800.0;
CREATE TRIGGER accounts_grow AFTER INSERT ON example_accounts BEGIN
    INSERT INTO example_totals (tenant, examples, size_bytes) VALUES (NEW.tenant, 1, NEW.size_bytes)
        ON CONFLICT (tenant) DO UPDATE SET examples = examples + 1, size_bytes = size_bytes + NEW.size_bytes;
END;
CREATE TRIGGER accounts_change AFTER UPDATE OF size_bytes ON example_accounts BEGIN
    UPDATE example_totals SET size_bytes = size_bytes - OLD.size_bytes + NEW.size_bytes WHERE tenant = NEW.tenant;
END;
CREATE TRIGGER accounts_shrink AFTER DELETE ON example_accounts BEGIN
    UPDATE example_totals SET examples = examples - 1, size_bytes = size_bytes - OLD.size_bytes
        WHERE tenant = OLD.tenant;
    DELETE FROM example_totals WHERE tenant = OLD.tenant AND examples = 0;
END;

-- What a tenant's examples come to. Triggers keep the sums, so that a cap costs no scan.
CREATE TABLE example_totals (
    tenant TEXT PRIMARY KEY,
    examples INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL
) WITHOUT ROWID;

-- Requests whose pair was merged into an example that another request made: a retry is not counted twice.
CREATE TABLE merged_requests (
    tenant TEXT NOT NULL,
    request_id TEXT NOT NULL,
    example_id INTEGER NOT NULL REFERENCES examples (id) ON DELETE CASCADE,
    merged_at_s REAL NOT NULL,
    PRIMARY KEY (tenant, request_id)
) WITHOUT ROWID;
CREATE INDEX merged_requests_by_example ON merged_requests (example_id);
CREATE INDEX merged_requests_by_age ON merged_requests (merged_at_s);

-- Answers that replay or a person replaced, so that it can be taken back.
CREATE TABLE example_versions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    example_id INTEGER NOT NULL REFERENCES examples (id) ON DELETE CASCADE,
    run_id INTEGER NOT NULL,
    at_s REAL NOT NULL,
    -- The answer as it was before.
    answer TEXT NOT NULL,
    source_engine TEXT NOT NULL,
    completion_tokens INTEGER NOT NULL,
    quality_sum REAL NOT NULL,
    quality_count INTEGER NOT NULL,
    -- Digest of the answer that took its place: what a person changed since is not taken back.
    replaced_by BLOB NOT NULL
);
CREATE INDEX example_versions_by_example ON example_versions (example_id, id);
CREATE INDEX example_versions_by_run ON example_versions (run_id, id);
CREATE INDEX example_versions_by_tenant ON example_versions (tenant);
CREATE TRIGGER example_versions_are_counted AFTER INSERT ON example_versions BEGIN
    UPDATE example_accounts SET size_bytes = size_bytes + length(CAST(NEW.answer AS BLOB)) WHERE id = NEW.example_id;
END;
CREATE TRIGGER example_versions_are_counted_off AFTER DELETE ON example_versions BEGIN
    UPDATE example_accounts SET size_bytes = size_bytes - length(CAST(OLD.answer AS BLOB)) WHERE id = OLD.example_id;
END;

-- Which example was written as a variation of which.
CREATE TABLE example_lineage (
    example_id INTEGER PRIMARY KEY REFERENCES examples (id) ON DELETE CASCADE,
    tenant TEXT NOT NULL,
    parent_id INTEGER NOT NULL,
    run_id INTEGER NOT NULL,
    generator TEXT NOT NULL,
    answer_digest BLOB NOT NULL,
    at_s REAL NOT NULL
);
CREATE INDEX example_lineage_by_parent ON example_lineage (parent_id);
CREATE INDEX example_lineage_by_run ON example_lineage (run_id);

-- Under which instructions examples were asked, so that they can be asked again: one row per scope of a tenant. A row
-- goes with the last example under it.
CREATE TABLE example_instructions (
    tenant TEXT NOT NULL,
    scope TEXT NOT NULL,
    -- JSON: [texts of system messages, response format].
    instructions TEXT NOT NULL,
    PRIMARY KEY (tenant, scope)
) WITHOUT ROWID;

-- Where examples stand on the map of their tenant's bank: two numbers each, made now and then.
CREATE TABLE example_places (
    example_id INTEGER PRIMARY KEY REFERENCES examples (id) ON DELETE CASCADE,
    tenant TEXT NOT NULL,
    x REAL NOT NULL,
    y REAL NOT NULL,
    made_at_s REAL NOT NULL
);
CREATE INDEX example_places_by_tenant ON example_places (tenant, example_id);

-- Where an example's answer points, for who compares it with a request. Derived: made in the background, and made again at
-- need. One row per example, without a vector while it waits for one. They count against the tenant's cap.
CREATE TABLE answer_vectors (
    example_id INTEGER PRIMARY KEY REFERENCES examples (id) ON DELETE CASCADE,
    version TEXT NOT NULL DEFAULT '',
    vector BLOB
);
CREATE INDEX answer_vectors_by_version ON answer_vectors (version, example_id);
CREATE TRIGGER answer_vectors_are_counted AFTER UPDATE OF vector ON answer_vectors
WHEN coalesce(length(NEW.vector), 0) <> coalesce(length(OLD.vector), 0) BEGIN
    UPDATE example_accounts
    SET size_bytes = size_bytes + coalesce(length(NEW.vector), 0) - coalesce(length(OLD.vector), 0)
    WHERE id = NEW.example_id;
END;

-- Who embeds what, where several processes embed: a claim that ran out is nobody's.
CREATE TABLE embedding_claims (
    example_id INTEGER NOT NULL REFERENCES examples (id) ON DELETE CASCADE,
    -- Of its question, or of its answer.
    kind TEXT NOT NULL CHECK (kind IN ('question', 'answer')),
    until_s REAL NOT NULL,
    PRIMARY KEY (example_id, kind)
) WITHOUT ROWID;

-- How far each imported file was read, so that an import that was killed goes on where it was. Holds nothing of any line.
CREATE TABLE imports (
    file_sha256 TEXT NOT NULL,
    tenant TEXT NOT NULL,
    lines_done INTEGER NOT NULL,
    changed_at_s REAL NOT NULL,
    PRIMARY KEY (file_sha256, tenant)
) WITHOUT ROWID;

-- Tenants whose own pairs are never served: they are put aside, and only what was told of them with noise leads back to the
-- bank.
CREATE TABLE private_tenants (
    tenant TEXT PRIMARY KEY,
    since_s REAL NOT NULL
) WITHOUT ROWID;

-- What was put aside: questions only. Nothing that serves, indexes, exports or shows reads this table.
CREATE TABLE private_questions (
    id INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    contributor TEXT NOT NULL,
    request_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    -- What `scope` is the fingerprint of; empty where it was not kept.
    instructions TEXT NOT NULL,
    question TEXT NOT NULL,
    at_s REAL NOT NULL
);
CREATE UNIQUE INDEX private_questions_by_request ON private_questions (tenant, request_id) WHERE request_id <> '';
CREATE INDEX private_questions_by_contributor ON private_questions (tenant, contributor);
CREATE INDEX private_questions_by_age ON private_questions (at_s);

-- What was told, and what that cost. Rows stay for ever: what was told cannot be taken back, not even by deleting the
-- tenant.
CREATE TABLE private_releases (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    at_s REAL NOT NULL,
    rho REAL NOT NULL,
    slip REAL NOT NULL,
    -- JSON: how it was made (bounds, variance, threshold), and what was told ([[scope, cell, [words]], ...]).
    made TEXT NOT NULL,
    told TEXT NOT NULL
);
CREATE INDEX private_releases_by_tenant ON private_releases (tenant, id);

-- ==== requests, and what was decided and learnt of them ====

-- The log of requests. Holds no text.
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
    stages_ms TEXT NOT NULL,
    -- Of the prompt, what the engine had cached.
    cached_tokens INTEGER NOT NULL DEFAULT 0,
    -- Who carried on an answer that broke off.
    continued TEXT NOT NULL DEFAULT '',
    -- What the model's reference engine would have charged, by its price; NULL where nobody reckoned.
    reference_cost_usd REAL,
    -- The gateway's own key it came by; empty without one. Blanked when the key is forgotten.
    key_id TEXT NOT NULL DEFAULT '',
    -- Under which key its answer was looked for: a correction finds the answer by it.
    exact_key BLOB,
    -- An answer by another engine than was decided on: which one that was and how it failed, and who else was asked.
    failed_over TEXT NOT NULL DEFAULT '',
    trail TEXT NOT NULL DEFAULT '',
    unpriced INTEGER NOT NULL DEFAULT 0,
    api TEXT NOT NULL DEFAULT 'chat',
    -- The end user's digest.
    end_user TEXT NOT NULL DEFAULT '',
    cache_write_tokens INTEGER NOT NULL DEFAULT 0,
    images INTEGER NOT NULL DEFAULT 0,
    service_tier TEXT NOT NULL DEFAULT '',
    examples_usd REAL NOT NULL DEFAULT 0,
    example_tokens INTEGER NOT NULL DEFAULT 0,
    completion_id TEXT NOT NULL DEFAULT '',
    -- A digest of the conversation that it belongs to.
    session TEXT NOT NULL DEFAULT '',
    error_kind TEXT NOT NULL DEFAULT '',
    finish_reason TEXT NOT NULL DEFAULT '',
    -- Why no text of it is kept; empty where there is one.
    no_text TEXT NOT NULL DEFAULT ''
);
CREATE INDEX requests_by_time ON requests (started_at_s);
CREATE INDEX requests_by_tenant ON requests (tenant, started_at_s);
CREATE INDEX requests_by_completion ON requests (completion_id) WHERE completion_id <> '';
CREATE INDEX requests_by_session ON requests (session, started_at_s) WHERE session <> '';
CREATE INDEX requests_by_user ON requests (end_user, started_at_s) WHERE end_user <> '';

-- What was asked and answered, for whoever may read it: apart from the log of requests, for a shorter time, and gone with
-- whoever asked. An exact repeat has a row only for what is its own: the log says that its texts are those of its key.
CREATE TABLE request_texts (
    row_id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    request_id TEXT NOT NULL,
    contributor TEXT NOT NULL,
    at_s REAL NOT NULL,
    -- Equal for exact repeats: a repeat answered from memory has a row without texts, and is shown with those of the first.
    same BLOB,
    size_bytes INTEGER NOT NULL,
    question TEXT NOT NULL,
    answer TEXT NOT NULL,
    -- The conversation and how it was sent: JSON, deflated.
    conversation BLOB,
    -- What else is content of a request: JSON, deflated (store/decisions/kept_details.py).
    details BLOB,
    UNIQUE (tenant, request_id)
);
CREATE INDEX request_texts_by_age ON request_texts (at_s);
CREATE INDEX request_texts_by_same ON request_texts (tenant, same, row_id) WHERE conversation IS NOT NULL;
CREATE INDEX request_texts_by_contributor ON request_texts (tenant, contributor) WHERE contributor <> '';
-- Words of questions and answers, to search by. They hold no text of their own but the words, and those of a deleted row are
-- in them until they are purged (store/sqlite/words.py).
CREATE VIRTUAL TABLE request_words USING fts5 (
    question, answer, content = 'request_texts', content_rowid = 'row_id', tokenize = "unicode61 remove_diacritics 2"
);
CREATE TRIGGER request_texts_grow AFTER INSERT ON request_texts BEGIN
    UPDATE request_texts_size SET total_bytes = total_bytes + NEW.size_bytes;
END;
CREATE TRIGGER request_texts_shrink AFTER DELETE ON request_texts BEGIN
    UPDATE request_texts_size SET total_bytes = total_bytes - OLD.size_bytes;
END;
CREATE TRIGGER request_words_in AFTER INSERT ON request_texts WHEN NEW.conversation IS NOT NULL BEGIN
    INSERT INTO request_words (rowid, question, answer) VALUES (NEW.row_id, NEW.question, NEW.answer);
END;
CREATE TRIGGER request_words_out AFTER DELETE ON request_texts WHEN OLD.conversation IS NOT NULL BEGIN
    INSERT INTO request_words (request_words, rowid, question, answer)
        VALUES ('delete', OLD.row_id, OLD.question, OLD.answer);
END;

-- Triggers keep the sum, so that the size cap costs no scan.
CREATE TABLE request_texts_size (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    total_bytes INTEGER NOT NULL
);
INSERT INTO request_texts_size (only_row, total_bytes) VALUES (1, 0);

-- What the router weighed for each request. Holds no text; the request's vector, as 16-bit floats, is the one thing that
-- tells of it.
CREATE TABLE choices (
    row_id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    request_id TEXT NOT NULL,
    contributor TEXT NOT NULL,
    at_s REAL NOT NULL,
    model TEXT NOT NULL,
    completion_id TEXT NOT NULL,
    engine TEXT NOT NULL,
    embedding_version TEXT NOT NULL,
    vector BLOB,
    candidate_features BLOB,
    features_per_candidate INTEGER NOT NULL,
    -- The rest of the record: JSON, deflated, because the names of features are most of it.
    record BLOB NOT NULL,
    UNIQUE (tenant, request_id)
);
CREATE INDEX choices_by_model ON choices (tenant, model, row_id);
CREATE INDEX choices_by_age ON choices (at_s);
CREATE INDEX choices_by_completion ON choices (tenant, completion_id) WHERE completion_id <> '';
CREATE INDEX choices_by_contributor ON choices (tenant, contributor) WHERE contributor <> '';
CREATE TRIGGER outcomes_go_with_choice AFTER DELETE ON choices BEGIN
    DELETE FROM outcomes WHERE tenant = OLD.tenant AND request_id = OLD.request_id;
END;
CREATE TRIGGER feedback_goes_with_choice AFTER DELETE ON choices BEGIN
    DELETE FROM feedback WHERE tenant = OLD.tenant AND request_id = OLD.request_id;
END;
CREATE TRIGGER outcomes_learn_their_model AFTER INSERT ON choices BEGIN
    INSERT OR REPLACE INTO outcomes (tenant, request_id, key, model, source, at_s, engine, example_ids, served, quality,
        probability, cost_usd, prompt_tokens, completion_tokens, latency_s, detail)
    SELECT tenant, request_id, key, NEW.model, source, at_s, engine, example_ids, served, quality,
        probability, cost_usd, prompt_tokens, completion_tokens, latency_s, detail
    FROM outcomes WHERE tenant = NEW.tenant AND request_id = NEW.request_id AND model = '' ORDER BY id;
END;

-- How good answers turned out to be. `model` is the choice's, so that counting needs no join; empty until the choice is there,
-- for feedback may overtake the recorder.
CREATE TABLE outcomes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    request_id TEXT NOT NULL,
    key TEXT NOT NULL,
    model TEXT NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('user', 'judge', 'implicit', 'label')),
    at_s REAL NOT NULL,
    engine TEXT NOT NULL,
    example_ids TEXT NOT NULL,
    served INTEGER NOT NULL,
    quality REAL NOT NULL CHECK (quality BETWEEN 0 AND 1),
    probability REAL NOT NULL CHECK (probability > 0 AND probability <= 1),
    cost_usd REAL NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    latency_s REAL,
    detail TEXT NOT NULL,
    UNIQUE (tenant, request_id, key)
);
CREATE INDEX outcomes_by_model ON outcomes (tenant, model, source);
CREATE INDEX outcomes_by_age ON outcomes (at_s);

-- What people said of answers, as they said it. What follows from it for learning stands in `outcomes`.
CREATE TABLE feedback (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    -- Unique per tenant: an Idempotency-Key's digest, or that of the content.
    key TEXT NOT NULL,
    content_digest TEXT NOT NULL,
    request_id TEXT NOT NULL,
    contributor TEXT NOT NULL,
    at_s REAL NOT NULL,
    score REAL,
    thumb TEXT NOT NULL,
    preferred_over TEXT NOT NULL,
    correction TEXT NOT NULL,
    comment TEXT NOT NULL,
    -- Who gave it, where an operator did.
    author TEXT NOT NULL DEFAULT '',
    UNIQUE (tenant, key)
);
CREATE INDEX feedback_by_request ON feedback (tenant, request_id);
CREATE INDEX feedback_by_age ON feedback (at_s);
CREATE INDEX feedback_by_contributor ON feedback (tenant, contributor) WHERE contributor <> '';
CREATE INDEX feedback_by_correction ON feedback (tenant, correction) WHERE correction <> '';

-- What reviewers said of sampled answers. The texts are in request_texts, what follows in outcomes.
CREATE TABLE reviews (
    tenant TEXT NOT NULL,
    request_id TEXT NOT NULL,
    at_s REAL NOT NULL,
    user TEXT NOT NULL,
    verdict TEXT NOT NULL CHECK (verdict IN ('good', 'bad', 'corrected', 'skip')),
    -- With which the answer was sampled.
    probability REAL NOT NULL CHECK (probability > 0 AND probability <= 1),
    PRIMARY KEY (tenant, request_id)
) WITHOUT ROWID;
CREATE INDEX reviews_by_age ON reviews (at_s);

-- The shares of answers that are sampled for review, each for requests from a time on.
CREATE TABLE review_shares (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    from_s REAL NOT NULL,
    user TEXT NOT NULL,
    offloaded REAL NOT NULL CHECK (offloaded BETWEEN 0 AND 1),
    reference REAL NOT NULL CHECK (reference BETWEEN 0 AND 1)
);

-- Whose the ids are that engines gave to what they store. By an HMAC: nobody learns an id from this table.
CREATE TABLE owned_ids (
    id_digest TEXT NOT NULL,
    tenant TEXT NOT NULL,
    -- Empty: the whole tenant's.
    end_user TEXT NOT NULL,
    kind TEXT NOT NULL,
    key_id TEXT NOT NULL,
    engine TEXT NOT NULL,
    replica TEXT NOT NULL,
    at_s REAL NOT NULL,
    PRIMARY KEY (id_digest, tenant, end_user)
);
CREATE INDEX owned_ids_by_tenant ON owned_ids (tenant, end_user);
CREATE INDEX owned_ids_by_time ON owned_ids (at_s);

-- ==== sums of requests ====

-- How far the log of requests was summed.
CREATE TABLE rollup_progress (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    last_row_id INTEGER NOT NULL,
    -- How often requests were deleted on purpose: what was read before must not be added after.
    deletions INTEGER NOT NULL
);
INSERT INTO rollup_progress (only_row, last_row_id, deletions) VALUES (1, 0, 1);

-- Sums over requests by minute and by hour, so that a page over a week reads some hundred rows of any log.
CREATE TABLE request_rollups (
    span_s INTEGER NOT NULL,
    start_s INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    model TEXT NOT NULL,
    engine TEXT NOT NULL,
    outcome TEXT NOT NULL,
    with_examples INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    reference_cost_usd REAL NOT NULL,
    -- Requests of which no reference cost is known; they are left out of what was saved.
    unreckoned INTEGER NOT NULL,
    unreckoned_usd REAL NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    total_ms REAL NOT NULL,
    overhead_ms REAL NOT NULL,
    streams INTEGER NOT NULL,
    first_chunk_ms REAL NOT NULL,
    streamed_ms REAL NOT NULL,
    streamed_tokens INTEGER NOT NULL,
    PRIMARY KEY (span_s, start_s, tenant, model, engine, outcome, with_examples)
) WITHOUT ROWID;

-- By key, for the page of keys: hours only.
CREATE TABLE key_rollups (
    start_s INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    key_id TEXT NOT NULL,
    requests INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    tokens INTEGER NOT NULL,
    PRIMARY KEY (start_s, tenant, key_id)
) WITHOUT ROWID;

-- Stages and latencies are summed over all tenants: by tenant they had nearly a row per request.
CREATE TABLE stage_rollups (
    span_s INTEGER NOT NULL,
    start_s INTEGER NOT NULL,
    engine TEXT NOT NULL,
    stage TEXT NOT NULL,
    requests INTEGER NOT NULL,
    sum_ms REAL NOT NULL,
    PRIMARY KEY (span_s, start_s, engine, stage)
) WITHOUT ROWID;

-- Histograms: `bucket` is floor(8 * log2(milliseconds)), so that a percentile is known to 9 %.
CREATE TABLE latency_rollups (
    span_s INTEGER NOT NULL,
    start_s INTEGER NOT NULL,
    engine TEXT NOT NULL,
    measure TEXT NOT NULL CHECK (measure IN ('total', 'first_chunk', 'token')),
    bucket INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (span_s, start_s, engine, measure, bucket)
) WITHOUT ROWID;

-- How far the log of outcomes was summed.
CREATE TABLE quality_progress (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    last_id INTEGER NOT NULL
);
INSERT INTO quality_progress (only_row, last_id) VALUES (1, 0);

-- Judgements, feedback and reviews of answers that clients got, by minute, hour and day: what the overview, trends and the
-- quality alarm are made from. Derived from `outcomes`; holds no content.
CREATE TABLE quality_rollups (
    -- Of everybody: *.
    tenant TEXT NOT NULL,
    span_s INTEGER NOT NULL,
    start_s INTEGER NOT NULL,
    key_id TEXT NOT NULL,
    model TEXT NOT NULL,
    engine TEXT NOT NULL,
    source TEXT NOT NULL,
    -- Of an answer by another engine than was decided on.
    failed_over INTEGER NOT NULL,
    outcomes INTEGER NOT NULL,
    -- Sums of w, wq, w^2, w^2 q and w^2 q^2, where w is one over the probability of having been picked, and q the quality.
    weight REAL NOT NULL,
    quality REAL NOT NULL,
    weight_2 REAL NOT NULL,
    quality_2 REAL NOT NULL,
    square_2 REAL NOT NULL,
    PRIMARY KEY (tenant, span_s, start_s, key_id, model, engine, source, failed_over)
) WITHOUT ROWID;
CREATE INDEX quality_rollups_by_age ON quality_rollups (span_s, start_s);

-- What requests used and cost, whatever the API, by hour: written with each request.
CREATE TABLE usage_hours (
    start_s INTEGER NOT NULL,
    -- answer: clients' requests. Else what the gateway asks of its own accord: judge, shadow and so on.
    line TEXT NOT NULL,
    tenant TEXT NOT NULL,
    key_id TEXT NOT NULL,
    model TEXT NOT NULL,
    engine TEXT NOT NULL,
    api TEXT NOT NULL,
    requests INTEGER NOT NULL,
    hits INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    images INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    -- Requests whose cost nobody knows; they are missing in cost_usd.
    unpriced INTEGER NOT NULL,
    -- Requests whose tokens were estimated.
    estimated INTEGER NOT NULL,
    example_tokens INTEGER NOT NULL,
    examples_usd REAL NOT NULL,
    -- What the reference engine would have charged, and what was paid, for those of which that is known.
    reference_usd REAL NOT NULL,
    reckoned_usd REAL NOT NULL,
    PRIMARY KEY (start_s, line, tenant, key_id, model, engine, api)
) WITHOUT ROWID;
CREATE INDEX usage_hours_by_tenant ON usage_hours (tenant, start_s);

-- The same by end user and day.
CREATE TABLE usage_users (
    start_s INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    end_user TEXT NOT NULL,
    key_id TEXT NOT NULL,
    model TEXT NOT NULL,
    engine TEXT NOT NULL,
    api TEXT NOT NULL,
    requests INTEGER NOT NULL,
    hits INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    images INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    unpriced INTEGER NOT NULL,
    estimated INTEGER NOT NULL,
    example_tokens INTEGER NOT NULL,
    examples_usd REAL NOT NULL,
    reference_usd REAL NOT NULL,
    reckoned_usd REAL NOT NULL,
    PRIMARY KEY (start_s, tenant, end_user, key_id, model, engine, api)
) WITHOUT ROWID;
CREATE INDEX usage_users_by_tenant ON usage_users (tenant, end_user);

-- What was spent in the background on finding out how good answers are (shadow answers, verdicts), by tenant: for ten minutes
-- and for days. Reserved before it is spent: what a process took with it when it died counts as spent. Holds no content.
CREATE TABLE spending (
    unit TEXT NOT NULL,
    span_s INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    start_s INTEGER NOT NULL,
    amount REAL NOT NULL,
    PRIMARY KEY (unit, span_s, tenant, start_s)
) WITHOUT ROWID;

-- What was paid about rows that are deleted by now, by minute. Of deleted tenants together under 'deleted'.
CREATE TABLE kept_costs (
    tenant TEXT NOT NULL,
    start_s INTEGER NOT NULL,
    -- judge (with what answers to compare with cost), replay, by_hand or warm.
    line TEXT NOT NULL,
    engine TEXT NOT NULL,
    purpose TEXT NOT NULL,
    requests INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    PRIMARY KEY (tenant, start_s, line, engine, purpose)
) WITHOUT ROWID;
CREATE INDEX kept_costs_by_time ON kept_costs (line, start_s);

-- ==== answers that are given again ====

-- Answers by the key of their request, for exact repeats.
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
    body BLOB NOT NULL,
    -- Who got it first, so that a correction finds it.
    request_id TEXT NOT NULL DEFAULT '',
    -- Whom it answered (learning.bank.contributor), so that one user's can be deleted alone; NULL: not known.
    contributor TEXT,
    -- How often it was given again.
    hits INTEGER NOT NULL DEFAULT 0,
    -- A correction, which no engine's answer replaces.
    corrected INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX exact_answers_by_use ON exact_answers (last_used_at_s);
CREATE INDEX exact_answers_by_age ON exact_answers (stored_at_s);
CREATE INDEX exact_answers_by_request ON exact_answers (request_id) WHERE request_id <> '';
CREATE INDEX exact_answers_by_tenant ON exact_answers (tenant, contributor);
CREATE INDEX exact_answers_by_hits ON exact_answers (hits, id, tenant) WHERE hits > 0;
CREATE INDEX exact_answers_by_tenant_age ON exact_answers (tenant, stored_at_s);
CREATE TRIGGER exact_answers_grow AFTER INSERT ON exact_answers BEGIN
    UPDATE exact_size SET total_bytes = total_bytes + NEW.size_bytes;
END;
CREATE TRIGGER exact_answers_change AFTER UPDATE OF size_bytes ON exact_answers BEGIN
    UPDATE exact_size SET total_bytes = total_bytes - OLD.size_bytes + NEW.size_bytes;
END;
CREATE TRIGGER exact_answers_shrink AFTER DELETE ON exact_answers BEGIN
    UPDATE exact_size SET total_bytes = total_bytes - OLD.size_bytes;
END;
CREATE TRIGGER exact_answer_examples_go_with_answer AFTER DELETE ON exact_answers BEGIN
    DELETE FROM exact_answer_examples WHERE key = OLD.key;
END;

-- Triggers keep the sum, so that the size cap costs no scan.
CREATE TABLE exact_size (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    total_bytes INTEGER NOT NULL
);
INSERT INTO exact_size (only_row, total_bytes) VALUES (1, 0);

-- Which examples an exact answer was made with: it goes when one of them turns out to be wrong.
CREATE TABLE exact_answer_examples (
    example_id INTEGER NOT NULL,
    key BLOB NOT NULL,
    PRIMARY KEY (example_id, key)
) WITHOUT ROWID;
CREATE INDEX exact_answer_examples_by_key ON exact_answer_examples (key);

-- Answers of /v1/responses that no upstream holds: so that their ids can be read, deleted and continued.
CREATE TABLE kept_responses (
    id_digest TEXT NOT NULL,
    tenant TEXT NOT NULL,
    contributor TEXT NOT NULL,
    kept_at_s REAL NOT NULL,
    size_bytes INTEGER NOT NULL,
    response BLOB NOT NULL,
    -- What it answered: a JSON list of input items, those of the conversation before it among them.
    input BLOB NOT NULL,
    PRIMARY KEY (id_digest, tenant)
);
CREATE INDEX kept_responses_by_contributor ON kept_responses (tenant, contributor);
CREATE INDEX kept_responses_by_time ON kept_responses (kept_at_s, size_bytes);

-- Answers that may be given to a merely similar question. Each hangs on the example whose question it answers, and triggers
-- make it go with that: whoever removes an example need not know.
CREATE TABLE semantic_entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    example_id INTEGER NOT NULL,
    same_otherwise BLOB NOT NULL,
    stored_at_s REAL NOT NULL,
    engine TEXT NOT NULL,
    content_type TEXT NOT NULL,
    usage_estimated INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (example_id, same_otherwise)
);
CREATE INDEX semantic_entries_by_age ON semantic_entries (tenant, stored_at_s);
CREATE TRIGGER semantic_observations_go_with_entry AFTER DELETE ON semantic_entries BEGIN
    DELETE FROM semantic_observations WHERE entry_id = OLD.id;
END;
CREATE TRIGGER semantic_aliases_go_with_entry AFTER DELETE ON semantic_entries BEGIN
    DELETE FROM semantic_aliases WHERE entry_id = OLD.id;
END;

-- Questions of which a judge said that another question's remembered answer answers them as well: they share its entry from
-- then on.
CREATE TABLE semantic_aliases (
    example_id INTEGER NOT NULL REFERENCES examples (id) ON DELETE CASCADE,
    same_otherwise BLOB NOT NULL,
    tenant TEXT NOT NULL,
    entry_id INTEGER NOT NULL,
    at_s REAL NOT NULL,
    PRIMARY KEY (example_id, same_otherwise)
) WITHOUT ROWID;
CREATE INDEX semantic_aliases_by_entry ON semantic_aliases (entry_id);

-- What comparing a remembered answer with a fresh one has shown: the latest comparisons of each entry, oldest first by id; no
-- text. Rows of one tenant are never read for another.
CREATE TABLE semantic_observations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    embedding_version TEXT NOT NULL,
    entry_id INTEGER NOT NULL,
    at_s REAL NOT NULL,
    similarity REAL NOT NULL,
    is_right INTEGER NOT NULL CHECK (is_right IN (0, 1))
);
CREATE INDEX semantic_observations_by_entry ON semantic_observations (tenant, embedding_version, entry_id, id);
CREATE INDEX semantic_observations_of_entry ON semantic_observations (entry_id);

-- What they, and the answers given out, add up to. `phase` counts how often the monitor took every proof back.
CREATE TABLE semantic_counts (
    tenant TEXT NOT NULL,
    embedding_version TEXT NOT NULL,
    policy TEXT NOT NULL,
    phase INTEGER NOT NULL,
    kind TEXT NOT NULL,
    slot INTEGER NOT NULL,
    total INTEGER NOT NULL,
    PRIMARY KEY (tenant, embedding_version, policy, phase, kind, slot)
) WITHOUT ROWID;

-- ==== what is learnt ====

-- Versions of what was learnt. The bytes lie in files: artifacts/ in the data folder. An id is not given twice.
CREATE TABLE artifacts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    model TEXT NOT NULL,
    created_at_s REAL NOT NULL,
    sha256 TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    parent INTEGER,
    metrics TEXT NOT NULL,
    note TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('active', 'retired', 'rejected')),
    -- Whether it ever served: a rollback goes back to what did, not to what was only kept.
    served INTEGER NOT NULL
);
CREATE UNIQUE INDEX artifacts_one_active ON artifacts (kind, tenant, model) WHERE state = 'active';
CREATE INDEX artifacts_by_slot ON artifacts (kind, tenant, model, id);
CREATE INDEX artifacts_by_tenant ON artifacts (tenant);

-- Where a person said that no new version may take over.
CREATE TABLE frozen_artifacts (
    kind TEXT NOT NULL,
    tenant TEXT NOT NULL,
    model TEXT NOT NULL,
    frozen_at_s REAL NOT NULL,
    PRIMARY KEY (kind, tenant, model)
) WITHOUT ROWID;

-- That versions of what was learnt were deleted with a tenant: how many, and when. Names nobody.
CREATE TABLE deleted_versions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_s REAL NOT NULL,
    versions INTEGER NOT NULL
);
CREATE INDEX deleted_versions_by_age ON deleted_versions (at_s);

-- What the quality floor's account of a tenant's served model has come to. Derived: it follows from `choices` and `outcomes` up
-- to the two places named here, and is kept so that it survives their being trimmed and need not be computed anew.
CREATE TABLE quality_floors (
    tenant TEXT NOT NULL,
    model TEXT NOT NULL,
    at_s REAL NOT NULL,
    cap REAL NOT NULL CHECK (cap BETWEEN 0 AND 1),
    standing TEXT NOT NULL CHECK (standing IN ('holds', 'limiting', 'threatened')),
    last_choice INTEGER NOT NULL,
    last_outcome INTEGER NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (tenant, model)
) WITHOUT ROWID;

-- Routing settings that an operator changed while the gateway runs. The latest row of a model that was not taken back is in
-- force; null leaves one as it is configured.
CREATE TABLE dials (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    model TEXT NOT NULL,
    at_s REAL NOT NULL,
    user TEXT NOT NULL,
    preference REAL CHECK (preference BETWEEN 0 AND 1),
    theta REAL CHECK (theta BETWEEN -1 AND 1),
    m INTEGER CHECK (m >= 1),
    max_examples INTEGER CHECK (max_examples >= 0),
    taken_back_at_s REAL,
    taken_back_by TEXT
);
CREATE INDEX dials_in_force ON dials (model, id) WHERE taken_back_at_s IS NULL;

-- The same of one tenant, beside those of the whole model.
CREATE TABLE tenant_dials (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    model TEXT NOT NULL,
    at_s REAL NOT NULL,
    user TEXT NOT NULL,
    preference REAL CHECK (preference BETWEEN 0 AND 1),
    theta REAL CHECK (theta BETWEEN -1 AND 1),
    m INTEGER CHECK (m >= 1),
    max_examples INTEGER CHECK (max_examples >= 0),
    taken_back_at_s REAL,
    taken_back_by TEXT
);
CREATE INDEX tenant_dials_in_force ON tenant_dials (model, tenant, id) WHERE taken_back_at_s IS NULL;
CREATE INDEX tenant_dials_of ON tenant_dials (tenant);

-- Requests of a tenant whose answers are few distinct labels, and that a student may answer (router.tasks).
CREATE TABLE tasks (
    tenant TEXT NOT NULL,
    model TEXT NOT NULL,
    name TEXT NOT NULL,
    source TEXT NOT NULL,
    state TEXT NOT NULL,
    -- Fingerprint of the instructions (router.digest.scope); empty where something else tells which requests belong to it.
    scope TEXT NOT NULL,
    -- JSON array; empty: the labels that the teacher uses.
    labels TEXT NOT NULL,
    at_s REAL NOT NULL,
    -- Who said so last; empty for nobody.
    by TEXT NOT NULL,
    -- JSON object: what a proposal rests on. No content.
    grounds TEXT NOT NULL,
    PRIMARY KEY (tenant, model, name)
) WITHOUT ROWID;

-- Labels of requests of tasks. A log, never updated: a person's label of a request is a later row of the same request.
CREATE TABLE task_answers (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    -- Model and name of the task, with a slash between.
    slot TEXT NOT NULL,
    request_id TEXT NOT NULL,
    at_s REAL NOT NULL,
    contributor TEXT NOT NULL,
    end_user TEXT NOT NULL,
    input TEXT NOT NULL,
    vector BLOB,
    embedding_version TEXT NOT NULL,
    answer TEXT NOT NULL,
    label TEXT,
    unread TEXT NOT NULL,
    soft TEXT,
    weight REAL NOT NULL,
    student_label TEXT,
    confidence REAL,
    version INTEGER,
    checked INTEGER NOT NULL,
    answered_by TEXT NOT NULL
);
CREATE INDEX task_answers_by_slot ON task_answers (tenant, slot, id);
CREATE INDEX task_answers_by_request ON task_answers (tenant, request_id);
CREATE INDEX task_answers_by_age ON task_answers (at_s);
CREATE INDEX task_answers_by_contributor ON task_answers (tenant, contributor) WHERE contributor <> '';
CREATE INDEX task_answers_by_time ON task_answers (tenant, slot, at_s);

-- ==== engines ====

-- How engines stand, as each worker sees them, written while anything changes; gone with its worker, or believed for some
-- seconds only. An engine may have several replicas: each has a state of its own.
CREATE TABLE engine_states (
    worker TEXT NOT NULL,
    engine TEXT NOT NULL,
    replica TEXT NOT NULL,
    at_s REAL NOT NULL,
    in_flight INTEGER NOT NULL,
    queued INTEGER NOT NULL,
    capacity INTEGER,
    utilisation REAL NOT NULL,
    breaker TEXT NOT NULL,
    drained INTEGER NOT NULL,
    asked INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    first_chunk_s REAL,
    answer_s REAL,
    kv_use REAL,
    limit_left REAL,
    state TEXT NOT NULL,
    since_s REAL,
    error TEXT NOT NULL,
    error_at_s REAL,
    -- JSON object: how often it failed, by kind.
    failures TEXT NOT NULL DEFAULT '{}',
    -- The latest health check.
    probed_at_s REAL,
    probe_ms REAL,
    -- Empty: it was good.
    probe_error TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (worker, engine, replica)
) WITHOUT ROWID;

-- Engines and replicas that an operator has drained.
CREATE TABLE drained_engines (
    engine TEXT NOT NULL,
    -- Empty: all of them.
    replica TEXT NOT NULL,
    since_s REAL NOT NULL,
    by_user TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (engine, replica)
) WITHOUT ROWID;

-- How often asking an engine failed, by kind, in ten minutes: what workers counted outlives them. Holds no content.
CREATE TABLE engine_errors (
    engine TEXT NOT NULL,
    start_s INTEGER NOT NULL,
    kind TEXT NOT NULL,
    errors INTEGER NOT NULL,
    PRIMARY KEY (engine, start_s, kind)
) WITHOUT ROWID;

-- What came of an operator's test.
CREATE TABLE engine_tests (
    engine TEXT NOT NULL,
    replica TEXT NOT NULL,
    at_s REAL NOT NULL,
    by_user TEXT NOT NULL,
    good INTEGER NOT NULL,
    said TEXT NOT NULL,
    health_ms REAL,
    answer_ms REAL,
    cost_usd REAL NOT NULL,
    PRIMARY KEY (engine, replica)
) WITHOUT ROWID;

-- How busy each worker is, whatever its machine: used where processes share a database and no folder.
CREATE TABLE worker_loads (
    worker TEXT NOT NULL PRIMARY KEY,
    -- By the database's clock, as is the next time.
    at_s REAL NOT NULL,
    in_flight INTEGER NOT NULL,
    -- What was answered by then is committed, or never will be.
    recorded_to_s REAL NOT NULL,
    core_share REAL NOT NULL DEFAULT 0,
    -- Requests a second; 0: not known yet.
    capacity_per_s REAL NOT NULL DEFAULT 0,
    -- How many kinds of work are left out now, and a JSON list of how many pieces of each were.
    shed_level INTEGER NOT NULL DEFAULT 0,
    shed TEXT NOT NULL DEFAULT '[]'
) WITHOUT ROWID;

-- Plans of which prompts' prefixes engines keep warm. Derived from the log of requests, made anew every few minutes.
CREATE TABLE kv_plans (
    engine TEXT PRIMARY KEY,
    planned_at_s REAL NOT NULL,
    -- JSON: the lines it rests on, how much fits, what it saves.
    figures TEXT NOT NULL,
    warmed INTEGER NOT NULL DEFAULT 0,
    warmed_tokens INTEGER NOT NULL DEFAULT 0,
    warmed_cached_tokens INTEGER NOT NULL DEFAULT 0,
    warmed_usd REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- Which examples' prefixes each engine is to keep warm, and in which order they are to stand in prompts. Holds no text.
CREATE TABLE kv_plan_examples (
    engine TEXT NOT NULL,
    example_id INTEGER NOT NULL REFERENCES examples (id) ON DELETE CASCADE,
    tenant TEXT NOT NULL,
    -- 0 stands first.
    place INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    uses REAL NOT NULL,
    saves_ms REAL NOT NULL,
    PRIMARY KEY (engine, example_id)
) WITHOUT ROWID;
CREATE INDEX kv_plan_examples_by_example ON kv_plan_examples (example_id);

-- ==== jobs ====

-- Runs of replay, and what each was to do. A second one cannot begin while one goes on.
CREATE TABLE replay_runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- Empty: every tenant's.
    tenant TEXT NOT NULL,
    asked_by TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN
        ('wanted', 'running', 'paused', 'interrupted', 'done', 'stopped', 'failed', 'undone')),
    created_at_s REAL NOT NULL,
    started_at_s REAL,
    ended_at_s REAL,
    heartbeat_at_s REAL,
    budget_usd REAL,
    budget_tokens INTEGER,
    budget_s REAL,
    stop_asked INTEGER NOT NULL DEFAULT 0,
    note TEXT NOT NULL DEFAULT '',
    -- Who asked for it on the admin pages.
    by_user TEXT NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX replay_runs_one_at_a_time ON replay_runs ((1)) WHERE state IN ('running', 'paused');

-- What a run does, example by example.
CREATE TABLE replay_steps (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id INTEGER NOT NULL REFERENCES replay_runs (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('distil', 'expand')),
    example_id INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('planned', 'asked', 'paid', 'done', 'skipped')),
    gain REAL NOT NULL,
    companion_gain REAL NOT NULL,
    expected_effect REAL NOT NULL,
    expected_usd REAL NOT NULL,
    expected_tokens INTEGER NOT NULL,
    expected_s REAL NOT NULL,
    result TEXT NOT NULL DEFAULT '',
    -- JSON: figures and codes, never text of an example.
    detail TEXT NOT NULL DEFAULT '{}',
    changed_at_s REAL NOT NULL,
    UNIQUE (run_id, position)
);
CREATE INDEX replay_steps_by_example ON replay_steps (example_id, kind, changed_at_s);
CREATE INDEX replay_steps_by_tenant ON replay_steps (tenant);

-- One row per request to an engine, written before it is asked. `text` is what has to be remembered of its answer until the
-- step is done; then it is emptied, and so it is when the example goes.
CREATE TABLE replay_asks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id INTEGER NOT NULL REFERENCES replay_runs (id) ON DELETE CASCADE,
    step_id INTEGER NOT NULL REFERENCES replay_steps (id) ON DELETE CASCADE,
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    engine TEXT NOT NULL,
    purpose TEXT NOT NULL,
    -- unknown: the process ended while it was under way; at most `most_usd` was spent.
    state TEXT NOT NULL CHECK (state IN ('asked', 'paid', 'failed', 'unknown')),
    most_usd REAL NOT NULL,
    most_tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL DEFAULT 0,
    prompt_tokens INTEGER NOT NULL DEFAULT 0,
    completion_tokens INTEGER NOT NULL DEFAULT 0,
    latency_s REAL NOT NULL DEFAULT 0,
    text TEXT NOT NULL DEFAULT '',
    asked_at_s REAL NOT NULL,
    ended_at_s REAL
);
CREATE UNIQUE INDEX replay_asks_paid_once ON replay_asks (step_id, key) WHERE state = 'paid';
CREATE INDEX replay_asks_by_run ON replay_asks (run_id);
CREATE INDEX replay_asks_by_time ON replay_asks (asked_at_s);

-- What was paid off-peak outside any run of replay: near misses judged, prefixes warmed, private examples written. It stands
-- in the same report of costs, under its own purposes; holds no text.
CREATE TABLE replay_side_costs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    engine TEXT NOT NULL,
    purpose TEXT NOT NULL,
    cost_usd REAL NOT NULL,
    tokens INTEGER NOT NULL,
    asked_at_s REAL NOT NULL
);
CREATE INDEX replay_side_costs_by_time ON replay_side_costs (asked_at_s);
CREATE INDEX replay_side_costs_by_tenant ON replay_side_costs (tenant);

-- Engines that operators asked on the admin pages, beside a client's answer. No text: what they answered was shown once.
CREATE TABLE operator_asks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_s REAL NOT NULL,
    user TEXT NOT NULL,
    tenant TEXT NOT NULL,
    request_id TEXT NOT NULL,
    engine TEXT NOT NULL,
    with_examples INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    latency_s REAL NOT NULL
);
CREATE INDEX operator_asks_by_time ON operator_asks (at_s, cost_usd);
CREATE INDEX operator_asks_by_tenant ON operator_asks (tenant);

-- What operators are told of: what was noticed, so that each crossing is told once.
CREATE TABLE webhook_states (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    at_s REAL NOT NULL
) WITHOUT ROWID;

-- Messages that are to be delivered.
CREATE TABLE webhook_messages (
    id TEXT PRIMARY KEY,
    -- A digest of its URL.
    endpoint TEXT NOT NULL,
    event TEXT NOT NULL,
    body TEXT NOT NULL,
    made_at_s REAL NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('due', 'delivered', 'given_up')),
    tries INTEGER NOT NULL,
    due_at_s REAL NOT NULL,
    -- What became of the latest try: a status, or a word; never what the receiver said.
    result TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX webhook_messages_due ON webhook_messages (due_at_s) WHERE state = 'due';
CREATE INDEX webhook_messages_by_time ON webhook_messages (made_at_s);

-- Which process delivers, and until when nobody else does.
CREATE TABLE webhook_owner (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    owner TEXT NOT NULL,
    until_s REAL NOT NULL
);

-- ==== runs and workflows ====

-- Tenants' own workflows: of each name the latest versions. The one with the highest number runs.
CREATE TABLE workflows (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    number INTEGER NOT NULL,
    contributor TEXT NOT NULL,
    created_at_s REAL NOT NULL,
    size_bytes INTEGER NOT NULL,
    definition BLOB NOT NULL
);
CREATE UNIQUE INDEX workflows_by_version ON workflows (tenant, name, version);
CREATE UNIQUE INDEX workflows_by_number ON workflows (tenant, name, number);
CREATE INDEX workflows_by_name ON workflows (name);
CREATE INDEX workflows_by_contributor ON workflows (tenant, contributor) WHERE contributor <> '';
CREATE TRIGGER workflows_grow AFTER INSERT ON workflows BEGIN
    INSERT INTO workflow_bytes VALUES (NEW.tenant, NEW.size_bytes)
        ON CONFLICT (tenant) DO UPDATE SET total_bytes = total_bytes + excluded.total_bytes;
END;
CREATE TRIGGER workflows_shrink AFTER DELETE ON workflows BEGIN
    UPDATE workflow_bytes SET total_bytes = total_bytes - OLD.size_bytes WHERE tenant = OLD.tenant;
END;

-- Runs: steps joined by variables that are written once. Texts stand apart from what changes often, and go first.
CREATE TABLE workflow_runs (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    key_id TEXT NOT NULL,
    contributor TEXT NOT NULL,
    app TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'cancelled')),
    no_store INTEGER NOT NULL,
    background INTEGER NOT NULL,
    -- JSON object: variable id to criteria.
    gets TEXT NOT NULL,
    budget_usd REAL,
    budget_tokens INTEGER,
    budget_s REAL,
    keep_values_s REAL NOT NULL,
    idempotency_key TEXT NOT NULL,
    idempotency_hash BLOB NOT NULL,
    cancel_asked INTEGER NOT NULL DEFAULT 0,
    adoptions INTEGER NOT NULL DEFAULT 0,
    created_at_s REAL NOT NULL,
    ended_at_s REAL,
    expires_at_s REAL,
    -- Its texts are deleted.
    expired INTEGER NOT NULL DEFAULT 0,
    -- JSON object; its message and body go with the texts.
    failure TEXT,
    -- JSON array of step ids.
    critical_path TEXT NOT NULL DEFAULT '[]',
    round_trips_saved INTEGER NOT NULL DEFAULT 0,
    workflow TEXT NOT NULL DEFAULT '',
    version TEXT NOT NULL DEFAULT '',
    -- Whose it is where each end user has a memory of their own: nobody else reads it by its id.
    end_user TEXT NOT NULL DEFAULT ''
);
CREATE INDEX workflow_runs_by_time ON workflow_runs (created_at_s, id);
CREATE INDEX workflow_runs_by_tenant ON workflow_runs (tenant, created_at_s, id);
CREATE INDEX workflow_runs_by_app ON workflow_runs (app, created_at_s, id) WHERE app <> '';
CREATE INDEX workflow_runs_by_state ON workflow_runs (state, created_at_s, id);
CREATE INDEX workflow_runs_live ON workflow_runs (tenant) WHERE state = 'running';
CREATE INDEX workflow_runs_by_expiry ON workflow_runs (expires_at_s) WHERE expired = 0 AND expires_at_s IS NOT NULL;
CREATE INDEX workflow_runs_by_end ON workflow_runs (ended_at_s) WHERE ended_at_s IS NOT NULL;
CREATE UNIQUE INDEX workflow_runs_by_key ON workflow_runs (tenant, idempotency_key) WHERE idempotency_key <> '';
CREATE INDEX workflow_runs_by_workflow ON workflow_runs (workflow, created_at_s, id) WHERE workflow <> '';

-- Who is behind a run or one of its steps: calls of several users may join one run.
CREATE TABLE workflow_contributors (
    tenant TEXT NOT NULL,
    contributor TEXT NOT NULL,
    run_id TEXT NOT NULL REFERENCES workflow_runs (id) ON DELETE CASCADE,
    PRIMARY KEY (tenant, contributor, run_id)
) WITHOUT ROWID;
CREATE INDEX workflow_contributors_by_run ON workflow_contributors (run_id);

-- Steps of runs. One that has not ended is claimed by the worker that carries it out, until a time by the database's clock.
CREATE TABLE workflow_steps (
    run_id TEXT NOT NULL REFERENCES workflow_runs (id) ON DELETE CASCADE,
    step TEXT NOT NULL,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    model TEXT NOT NULL,
    -- embed, search, tool and so on; who does it, where that is no engine.
    primitive TEXT NOT NULL,
    component TEXT NOT NULL,
    effects INTEGER NOT NULL,
    -- JSON objects: name to variable id. A JSON array of variable ids.
    reads TEXT NOT NULL,
    writes TEXT NOT NULL,
    waits TEXT NOT NULL,
    state TEXT NOT NULL CHECK (
        state IN ('waiting', 'queued', 'running', 'done', 'failed', 'cancelled', 'skipped', 'unknown')
    ),
    attempts INTEGER NOT NULL,
    rank TEXT NOT NULL,
    task_group TEXT NOT NULL,
    depth INTEGER NOT NULL,
    engine TEXT NOT NULL,
    replica TEXT NOT NULL,
    request_id TEXT NOT NULL,
    ready_at_s REAL,
    queued_at_s REAL,
    started_at_s REAL,
    first_at_s REAL,
    ended_at_s REAL,
    prompt_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    items INTEGER NOT NULL,
    batch TEXT NOT NULL,
    failure TEXT,
    -- JSON object: what somebody decided about a step whose outcome is unknown; gone once the step goes on.
    resolution TEXT,
    claimed_by TEXT NOT NULL DEFAULT '',
    -- NULL: it has ended.
    claimed_until_s REAL,
    PRIMARY KEY (run_id, step)
) WITHOUT ROWID;
CREATE INDEX workflow_steps_by_batch ON workflow_steps (batch) WHERE batch <> '';
CREATE INDEX workflow_steps_unknown ON workflow_steps (run_id, step) WHERE state = 'unknown';
CREATE INDEX workflow_steps_due ON workflow_steps (claimed_until_s) WHERE claimed_until_s IS NOT NULL;

-- What a step asks; of the empty step: what whoever adopts the run needs. A step's row is written anew with each change,
-- these once.
CREATE TABLE workflow_texts (
    run_id TEXT NOT NULL REFERENCES workflow_runs (id) ON DELETE CASCADE,
    step TEXT NOT NULL,
    tenant TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    text BLOB NOT NULL,
    UNIQUE (run_id, step)
);
CREATE TRIGGER workflow_texts_grow AFTER INSERT ON workflow_texts BEGIN
    INSERT INTO workflow_bytes VALUES (NEW.tenant, NEW.size_bytes)
        ON CONFLICT (tenant) DO UPDATE SET total_bytes = total_bytes + excluded.total_bytes;
END;
CREATE TRIGGER workflow_texts_shrink AFTER DELETE ON workflow_texts BEGIN
    UPDATE workflow_bytes SET total_bytes = total_bytes - OLD.size_bytes WHERE tenant = OLD.tenant;
END;

-- What steps read and write.
CREATE TABLE variables (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    contributor TEXT NOT NULL,
    app TEXT NOT NULL,
    name TEXT NOT NULL,
    -- NULL: declared or set by itself.
    run_id TEXT REFERENCES workflow_runs (id) ON DELETE CASCADE,
    -- Empty: no step produces it.
    step TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'streaming', 'ready', 'failed', 'cancelled', 'skipped')),
    attempt INTEGER NOT NULL DEFAULT 0,
    is_list INTEGER NOT NULL DEFAULT 0,
    size_bytes INTEGER NOT NULL,
    failure TEXT,
    created_at_s REAL NOT NULL,
    ended_at_s REAL,
    expires_at_s REAL,
    expired INTEGER NOT NULL DEFAULT 0,
    -- UTF-8; of a list: a JSON array.
    value BLOB,
    -- As of workflow_runs.
    end_user TEXT NOT NULL DEFAULT '',
    -- Whether another worker reads its text as it comes: then `value` grows while it streams.
    streamed INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX variables_by_name ON variables (tenant, app, name) WHERE app <> '' AND expired = 0;
CREATE INDEX variables_by_run ON variables (run_id);
CREATE INDEX variables_by_contributor ON variables (tenant, contributor) WHERE contributor <> '';
CREATE INDEX variables_by_expiry ON variables (expires_at_s) WHERE expired = 0 AND expires_at_s IS NOT NULL;
CREATE INDEX variables_streamed ON variables (run_id) WHERE streamed = 1;
CREATE TRIGGER variables_grow AFTER INSERT ON variables WHEN NEW.size_bytes > 0 BEGIN
    INSERT INTO workflow_bytes VALUES (NEW.tenant, NEW.size_bytes)
        ON CONFLICT (tenant) DO UPDATE SET total_bytes = total_bytes + excluded.total_bytes;
END;
CREATE TRIGGER variables_change AFTER UPDATE OF size_bytes ON variables WHEN NEW.size_bytes <> OLD.size_bytes BEGIN
    INSERT INTO workflow_bytes VALUES (NEW.tenant, NEW.size_bytes - OLD.size_bytes)
        ON CONFLICT (tenant) DO UPDATE SET total_bytes = total_bytes + excluded.total_bytes;
END;
CREATE TRIGGER variables_shrink AFTER DELETE ON variables WHEN OLD.size_bytes > 0 BEGIN
    UPDATE workflow_bytes SET total_bytes = total_bytes - OLD.size_bytes WHERE tenant = OLD.tenant;
END;

-- Triggers keep each tenant's sum, so that its cap costs no scan.
CREATE TABLE workflow_bytes (
    tenant TEXT PRIMARY KEY,
    total_bytes INTEGER NOT NULL
) WITHOUT ROWID;

-- Texts with their vectors, which outlive the runs that kept them. Triggers keep the sums.
CREATE TABLE collections (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Another one since anything was removed or replaced.
    generation TEXT NOT NULL,
    texts INTEGER NOT NULL DEFAULT 0,
    size_bytes INTEGER NOT NULL DEFAULT 0,
    created_at_s REAL NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

-- Indexes in memory follow these rows.
CREATE TABLE collection_texts (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    collection TEXT NOT NULL,
    contributor TEXT NOT NULL,
    -- Of the text.
    digest BLOB NOT NULL,
    created_at_s REAL NOT NULL,
    -- Of text and vector.
    size_bytes INTEGER NOT NULL,
    -- The embedder that made the vector.
    identity TEXT NOT NULL,
    vector BLOB NOT NULL,
    text BLOB NOT NULL,
    FOREIGN KEY (tenant, collection) REFERENCES collections (tenant, name) ON DELETE CASCADE
);
CREATE UNIQUE INDEX collection_texts_by_digest ON collection_texts (tenant, collection, contributor, digest);
CREATE INDEX collection_texts_by_seq ON collection_texts (tenant, collection, seq);
CREATE INDEX collection_texts_by_contributor ON collection_texts (tenant, contributor) WHERE contributor <> '';
CREATE TRIGGER collection_texts_grow AFTER INSERT ON collection_texts BEGIN
    INSERT INTO workflow_bytes VALUES (NEW.tenant, NEW.size_bytes)
        ON CONFLICT (tenant) DO UPDATE SET total_bytes = total_bytes + excluded.total_bytes;
    UPDATE collections SET texts = texts + 1, size_bytes = size_bytes + NEW.size_bytes
        WHERE tenant = NEW.tenant AND name = NEW.collection;
END;
CREATE TRIGGER collection_texts_change AFTER UPDATE OF size_bytes ON collection_texts
WHEN NEW.size_bytes <> OLD.size_bytes BEGIN
    UPDATE workflow_bytes SET total_bytes = total_bytes + NEW.size_bytes - OLD.size_bytes WHERE tenant = NEW.tenant;
    UPDATE collections SET size_bytes = size_bytes + NEW.size_bytes - OLD.size_bytes
        WHERE tenant = NEW.tenant AND name = NEW.collection;
END;
CREATE TRIGGER collection_texts_shrink AFTER DELETE ON collection_texts BEGIN
    UPDATE workflow_bytes SET total_bytes = total_bytes - OLD.size_bytes WHERE tenant = OLD.tenant;
    UPDATE collections SET texts = texts - 1, size_bytes = size_bytes - OLD.size_bytes
        WHERE tenant = OLD.tenant AND name = OLD.collection;
END;
