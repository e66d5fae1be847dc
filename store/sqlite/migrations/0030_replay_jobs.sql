-- Replay: which runs there were, what each was to do, and everything that was asked and paid for on the way.

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
    note TEXT NOT NULL DEFAULT ''
);
-- Beside the lock file: whatever becomes of that, a second run cannot begin while one goes on.
CREATE UNIQUE INDEX replay_runs_one_at_a_time ON replay_runs ((1)) WHERE state IN ('running', 'paused');

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
-- step is done; then it is emptied.
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
-- Nothing is paid for twice.
CREATE UNIQUE INDEX replay_asks_paid_once ON replay_asks (step_id, key) WHERE state = 'paid';
CREATE INDEX replay_asks_by_run ON replay_asks (run_id);
CREATE INDEX replay_asks_by_time ON replay_asks (asked_at_s);

-- What was read of an example goes with it.
CREATE TRIGGER replay_texts_go_with_example AFTER DELETE ON examples BEGIN
    UPDATE replay_asks SET text = '' WHERE text <> '' AND step_id IN
        (SELECT id FROM replay_steps WHERE example_id = OLD.id);
END;
