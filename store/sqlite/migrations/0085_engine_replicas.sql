-- An engine may have several replicas: each has a state of its own, and may be drained by itself.

-- What workers said holds for some seconds only: they say it again.
DROP TABLE engine_states;
CREATE TABLE engine_states (
    worker TEXT NOT NULL,
    engine TEXT NOT NULL,
    replica TEXT NOT NULL,
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
    state TEXT NOT NULL,
    since_s REAL,
    error TEXT NOT NULL,
    error_at_s REAL,
    PRIMARY KEY (worker, engine, replica)
) WITHOUT ROWID;

ALTER TABLE drained_engines RENAME TO drained_whole;
CREATE TABLE drained_engines (
    engine TEXT NOT NULL,
    -- Empty: all of them.
    replica TEXT NOT NULL,
    since_s REAL NOT NULL,
    by_user TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (engine, replica)
) WITHOUT ROWID;
INSERT INTO drained_engines SELECT engine, '', since_s, by_user, reason FROM drained_whole;
DROP TABLE drained_whole;
