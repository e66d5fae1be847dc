-- How engines stand, as each worker sees them, and which an operator has drained.

-- One row per worker and engine, written while anything changes; gone with its worker, or believed for some seconds only.
CREATE TABLE engine_states (
    worker TEXT NOT NULL,
    engine TEXT NOT NULL,
    at_s REAL NOT NULL,
    in_flight INTEGER NOT NULL,
    queued INTEGER NOT NULL,
    capacity INTEGER,
    utilisation REAL NOT NULL,
    breaker TEXT NOT NULL,
    drained INTEGER NOT NULL,
    asked INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    first_chunk_s REAL,
    answer_s REAL,
    kv_use REAL,
    limit_left REAL,
    PRIMARY KEY (worker, engine)
) WITHOUT ROWID;

CREATE TABLE drained_engines (
    engine TEXT PRIMARY KEY,
    since_s REAL NOT NULL,
    by_user TEXT NOT NULL,
    reason TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO generations (name, value) VALUES ('drained_engines', 0);
