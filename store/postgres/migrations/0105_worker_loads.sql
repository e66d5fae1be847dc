-- How busy each worker is, whatever its machine: used where processes share a database and no folder.

CREATE TABLE worker_loads (
    worker TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    -- By the database's clock, as is the next time.
    at_s DOUBLE PRECISION NOT NULL,
    in_flight BIGINT NOT NULL,
    -- What was answered by then is committed, or never will be.
    recorded_to_s DOUBLE PRECISION NOT NULL
);
