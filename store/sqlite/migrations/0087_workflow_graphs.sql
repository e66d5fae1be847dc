-- Steps of more kinds: pieces of lists, components, side effects, branches not taken. What a CHECK says cannot be altered, so two
-- tables are made anew; what refers to them does so by name.

ALTER TABLE workflow_runs ADD COLUMN workflow TEXT NOT NULL DEFAULT '';
ALTER TABLE workflow_runs ADD COLUMN version TEXT NOT NULL DEFAULT '';
CREATE INDEX workflow_runs_by_workflow ON workflow_runs (workflow, created_at_s, id) WHERE workflow <> '';

CREATE TABLE workflow_steps_before AS SELECT * FROM workflow_steps;
DROP TABLE workflow_steps;
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
    warmed_tokens INTEGER NOT NULL,
    warmed_cost_usd REAL NOT NULL,
    failure TEXT,
    -- JSON object: what somebody decided about a step whose outcome is unknown; gone once the step goes on.
    resolution TEXT,
    PRIMARY KEY (run_id, step)
) WITHOUT ROWID;
INSERT INTO workflow_steps
    SELECT run_id, step, position, name, model, 'chat', '', 0, reads, writes, '[]', state, attempts, rank, task_group, depth,
        engine, replica, request_id, ready_at_s, queued_at_s, started_at_s, first_at_s, ended_at_s, prompt_tokens,
        cached_tokens, completion_tokens, cost_usd, 0, '', 0, 0, failure, NULL
    FROM workflow_steps_before;
DROP TABLE workflow_steps_before;
CREATE INDEX workflow_steps_by_batch ON workflow_steps (batch) WHERE batch <> '';
CREATE INDEX workflow_steps_unknown ON workflow_steps (run_id, step) WHERE state = 'unknown';

CREATE TABLE variables_before AS SELECT rowid AS place, * FROM variables;
DROP TABLE variables;
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
    value BLOB
);
INSERT INTO variables
    SELECT id, tenant, contributor, app, name, run_id, step, state, attempt, is_list, size_bytes, failure, created_at_s,
        ended_at_s, expires_at_s, expired, value
    FROM variables_before ORDER BY place;
DROP TABLE variables_before;
-- What has expired gives its name back.
CREATE UNIQUE INDEX variables_by_name ON variables (tenant, app, name) WHERE app <> '' AND expired = 0;
CREATE INDEX variables_by_run ON variables (run_id);
CREATE INDEX variables_by_contributor ON variables (tenant, contributor) WHERE contributor <> '';
CREATE INDEX variables_by_expiry ON variables (expires_at_s) WHERE expired = 0 AND expires_at_s IS NOT NULL;
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

-- Texts with their vectors, which outlive the runs that kept them. Indexes in memory follow these rows.
CREATE TABLE collections (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Another one since anything was removed or replaced.
    generation TEXT NOT NULL,
    -- Kept by triggers.
    texts INTEGER NOT NULL DEFAULT 0,
    size_bytes INTEGER NOT NULL DEFAULT 0,
    created_at_s REAL NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;
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

CREATE TRIGGER workflows_grow AFTER INSERT ON workflows BEGIN
    INSERT INTO workflow_bytes VALUES (NEW.tenant, NEW.size_bytes)
        ON CONFLICT (tenant) DO UPDATE SET total_bytes = total_bytes + excluded.total_bytes;
END;
CREATE TRIGGER workflows_shrink AFTER DELETE ON workflows BEGIN
    UPDATE workflow_bytes SET total_bytes = total_bytes - OLD.size_bytes WHERE tenant = OLD.tenant;
END;
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
