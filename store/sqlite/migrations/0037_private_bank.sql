-- Tenants whose own pairs are never served: they are put aside, and only what was told of them with noise leads back to the bank.
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

-- What was told, and what that cost. Rows stay for ever: what was told cannot be taken back, not even by deleting the tenant.
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
