-- What keys and tenants may use, and who may use the admin API. Limits are JSON objects as store.people.limits reads them.

ALTER TABLE api_keys ADD COLUMN limits TEXT NOT NULL DEFAULT '{}';
ALTER TABLE api_keys ADD COLUMN each_user TEXT NOT NULL DEFAULT '{}';
ALTER TABLE api_keys ADD COLUMN expires_at_s REAL;
ALTER TABLE api_keys ADD COLUMN memory_partition TEXT;
-- 0, 1 or NULL.
ALTER TABLE api_keys ADD COLUMN users_required INTEGER;
ALTER TABLE api_keys ADD COLUMN source TEXT NOT NULL DEFAULT 'cli';

-- Secrets that a key had before it was rotated, while they are still taken.
CREATE TABLE older_secrets (
    secret_hmac TEXT PRIMARY KEY,
    key_id TEXT NOT NULL,
    until_s REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX older_secrets_by_key ON older_secrets (key_id);

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
