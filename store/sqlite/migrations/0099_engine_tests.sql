-- Of engines: how often they failed, by kind, how their latest health check went, and what came of an operator's test.

ALTER TABLE engine_states ADD COLUMN failures TEXT NOT NULL DEFAULT '{}';
ALTER TABLE engine_states ADD COLUMN probed_at_s REAL;
ALTER TABLE engine_states ADD COLUMN probe_ms REAL;
-- Empty: it was good.
ALTER TABLE engine_states ADD COLUMN probe_error TEXT NOT NULL DEFAULT '';

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

-- That versions of what was learnt were deleted with a tenant: how many, and when. Names nobody.
CREATE TABLE deleted_versions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_s REAL NOT NULL,
    versions INTEGER NOT NULL
);
CREATE INDEX deleted_versions_by_age ON deleted_versions (at_s);

-- Who asked for a run on the admin pages.
ALTER TABLE replay_runs ADD COLUMN by_user TEXT NOT NULL DEFAULT '';
