-- Who does what only one process does at a time: by the database's clock, on whatever machine it runs.

CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    -- Which process, on which machine.
    holder TEXT NOT NULL,
    -- Grows with every holder: what one writes under an earlier epoch is refused.
    epoch INTEGER NOT NULL,
    -- Seconds since 1970; in the past once it was let go.
    until_s REAL NOT NULL
) WITHOUT ROWID;
