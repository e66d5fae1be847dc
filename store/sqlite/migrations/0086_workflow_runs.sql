-- Runs of applications: steps joined by variables that are written once. Texts stand apart from what changes often, and go first.

CREATE TABLE workflow_runs (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    key_id TEXT NOT NULL,
    contributor TEXT NOT NULL,
    app TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'cancelled')),
    -- The process that carries it out, and until when nobody else may.
    owner TEXT NOT NULL,
    lease_until_s REAL NOT NULL,
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
    round_trips_saved INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX workflow_runs_by_time ON workflow_runs (created_at_s, id);
CREATE INDEX workflow_runs_by_tenant ON workflow_runs (tenant, created_at_s, id);
CREATE INDEX workflow_runs_by_app ON workflow_runs (app, created_at_s, id) WHERE app <> '';
CREATE INDEX workflow_runs_by_state ON workflow_runs (state, created_at_s, id);
CREATE INDEX workflow_runs_live ON workflow_runs (tenant) WHERE state = 'running';
CREATE INDEX workflow_runs_by_lease ON workflow_runs (lease_until_s) WHERE state = 'running';
CREATE INDEX workflow_runs_by_expiry ON workflow_runs (expires_at_s) WHERE expired = 0 AND expires_at_s IS NOT NULL;
CREATE INDEX workflow_runs_by_end ON workflow_runs (ended_at_s) WHERE ended_at_s IS NOT NULL;
CREATE UNIQUE INDEX workflow_runs_by_key ON workflow_runs (tenant, idempotency_key) WHERE idempotency_key <> '';

-- Who is behind a run or one of its steps: calls of several users may join one run.
CREATE TABLE workflow_contributors (
    tenant TEXT NOT NULL,
    contributor TEXT NOT NULL,
    run_id TEXT NOT NULL REFERENCES workflow_runs (id) ON DELETE CASCADE,
    PRIMARY KEY (tenant, contributor, run_id)
) WITHOUT ROWID;
CREATE INDEX workflow_contributors_by_run ON workflow_contributors (run_id);

CREATE TABLE workflow_steps (
    run_id TEXT NOT NULL REFERENCES workflow_runs (id) ON DELETE CASCADE,
    step TEXT NOT NULL,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    model TEXT NOT NULL,
    -- JSON objects: name to variable id.
    reads TEXT NOT NULL,
    writes TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'queued', 'running', 'done', 'failed', 'cancelled')),
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
    failure TEXT,
    PRIMARY KEY (run_id, step)
) WITHOUT ROWID;

-- What a step asks; of the empty step: what whoever adopts the run needs. A step's row is written anew with each change, these
-- once.
CREATE TABLE workflow_texts (
    run_id TEXT NOT NULL REFERENCES workflow_runs (id) ON DELETE CASCADE,
    step TEXT NOT NULL,
    tenant TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    text BLOB NOT NULL,
    UNIQUE (run_id, step)
);

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
    state TEXT NOT NULL CHECK (state IN ('pending', 'streaming', 'ready', 'failed', 'cancelled')),
    attempt INTEGER NOT NULL DEFAULT 0,
    is_list INTEGER NOT NULL DEFAULT 0,
    size_bytes INTEGER NOT NULL,
    failure TEXT,
    created_at_s REAL NOT NULL,
    ended_at_s REAL,
    expires_at_s REAL,
    expired INTEGER NOT NULL DEFAULT 0,
    -- UTF-8; of a list: a JSON array.
    value BLOB
);
-- What has expired gives its name back.
CREATE UNIQUE INDEX variables_by_name ON variables (tenant, app, name) WHERE app <> '' AND expired = 0;
CREATE INDEX variables_by_run ON variables (run_id);
CREATE INDEX variables_by_contributor ON variables (tenant, contributor) WHERE contributor <> '';
CREATE INDEX variables_by_expiry ON variables (expires_at_s) WHERE expired = 0 AND expires_at_s IS NOT NULL;

-- The text of a variable while it streams, for other processes; `start` counts characters.
CREATE TABLE variable_pieces (
    variable_id TEXT NOT NULL REFERENCES variables (id) ON DELETE CASCADE,
    start INTEGER NOT NULL,
    text BLOB NOT NULL,
    PRIMARY KEY (variable_id, start)
) WITHOUT ROWID;

-- Live runs that read a variable from outside: it does not expire before they have ended.
CREATE TABLE variable_readers (
    variable_id TEXT NOT NULL REFERENCES variables (id) ON DELETE CASCADE,
    run_id TEXT NOT NULL REFERENCES workflow_runs (id) ON DELETE CASCADE,
    PRIMARY KEY (variable_id, run_id)
) WITHOUT ROWID;
CREATE INDEX variable_readers_by_run ON variable_readers (run_id);

-- By which processes notice what others did. Its last line is never deleted, so that places only grow.
CREATE TABLE workflow_changes (
    place INTEGER PRIMARY KEY,
    at_s REAL NOT NULL,
    kind TEXT NOT NULL,
    run_id TEXT NOT NULL,
    variable_id TEXT NOT NULL,
    criteria TEXT NOT NULL,
    stream INTEGER NOT NULL
);
CREATE INDEX workflow_changes_by_time ON workflow_changes (at_s);

-- Triggers keep each tenant's sum, so that its cap costs no scan.
CREATE TABLE workflow_bytes (
    tenant TEXT PRIMARY KEY,
    total_bytes INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER workflow_texts_grow AFTER INSERT ON workflow_texts BEGIN
    INSERT INTO workflow_bytes VALUES (NEW.tenant, NEW.size_bytes)
        ON CONFLICT (tenant) DO UPDATE SET total_bytes = total_bytes + excluded.total_bytes;
END;
CREATE TRIGGER workflow_texts_shrink AFTER DELETE ON workflow_texts BEGIN
    UPDATE workflow_bytes SET total_bytes = total_bytes - OLD.size_bytes WHERE tenant = OLD.tenant;
END;
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
