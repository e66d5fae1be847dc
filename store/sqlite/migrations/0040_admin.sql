-- Who may use the admin pages, who is signed in, and what they did.

CREATE TABLE admin_users (
    name TEXT PRIMARY KEY,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'viewer-content', 'operator')),
    password_hash TEXT NOT NULL,
    created_at_s REAL NOT NULL,
    changed_at_s REAL NOT NULL
) WITHOUT ROWID;

-- Only a keyed hash of the cookie is kept: whoever reads the database can sign in as nobody.
CREATE TABLE admin_sessions (
    id_hash TEXT PRIMARY KEY,
    user_name TEXT NOT NULL REFERENCES admin_users (name) ON DELETE CASCADE,
    created_at_s REAL NOT NULL,
    seen_at_s REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX admin_sessions_by_user ON admin_sessions (user_name);

-- Rows are added and dropped when old, never changed. Holds no content and no secret.
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
