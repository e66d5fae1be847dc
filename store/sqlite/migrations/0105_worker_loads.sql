-- How busy each worker is, whatever its machine: used where processes share a database and no folder.

CREATE TABLE worker_loads (
    worker TEXT NOT NULL PRIMARY KEY,
    -- By the database's clock, as is the next time.
    at_s REAL NOT NULL,
    in_flight INTEGER NOT NULL,
    -- What was answered by then is committed, or never will be.
    recorded_to_s REAL NOT NULL
) WITHOUT ROWID;
