-- What comparing a remembered answer with a fresh one has shown. Rows of one tenant are never read for another.

-- The latest comparisons of each entry, oldest first by id; no text.
CREATE TABLE semantic_observations (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    embedding_version TEXT NOT NULL,
    entry_id INTEGER NOT NULL,
    at_s REAL NOT NULL,
    similarity REAL NOT NULL,
    is_right INTEGER NOT NULL CHECK (is_right IN (0, 1))
);
CREATE INDEX semantic_observations_by_entry ON semantic_observations (tenant, embedding_version, entry_id, id);

-- What they, and the answers given out, add up to. `phase` counts how often the monitor took every proof back.
CREATE TABLE semantic_counts (
    tenant TEXT NOT NULL,
    embedding_version TEXT NOT NULL,
    policy TEXT NOT NULL,
    phase INTEGER NOT NULL,
    kind TEXT NOT NULL,
    slot INTEGER NOT NULL,
    total INTEGER NOT NULL,
    PRIMARY KEY (tenant, embedding_version, policy, phase, kind, slot)
) WITHOUT ROWID;
