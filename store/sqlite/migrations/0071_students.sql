-- Students are versions of something learnt, too. Which kinds there are is checked where they are published.
ALTER TABLE artifacts RENAME TO artifacts_before;
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
INSERT INTO artifacts SELECT id, kind, tenant, model, created_at_s, sha256, size_bytes, parent, metrics, note, state, served
    FROM artifacts_before;
-- The id of a version that is gone is not given again.
DELETE FROM sqlite_sequence WHERE name = 'artifacts';
INSERT INTO sqlite_sequence (name, seq) SELECT 'artifacts', seq FROM sqlite_sequence WHERE name = 'artifacts_before';
DROP TABLE artifacts_before;
CREATE UNIQUE INDEX artifacts_one_active ON artifacts (kind, tenant, model) WHERE state = 'active';
CREATE INDEX artifacts_by_slot ON artifacts (kind, tenant, model, id);
CREATE INDEX artifacts_by_tenant ON artifacts (tenant);
