-- Versions of what was learnt. The bytes lie in files: artifacts/ in the data folder.
CREATE TABLE artifacts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL CHECK (kind IN ('scorer', 'bandit', 'counts')),
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

INSERT INTO generations (name, value) VALUES ('artifacts', 0);
