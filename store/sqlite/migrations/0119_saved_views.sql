-- Filters of the list of requests that an operator gave a name. An end user stands in them by their digest.

CREATE TABLE saved_views (
    name TEXT PRIMARY KEY,
    filters TEXT NOT NULL,
    saved_at_s REAL NOT NULL,
    saved_by TEXT NOT NULL
) WITHOUT ROWID;
