-- Judgements, feedback and reviews of answers that clients got, summed by minute, hour and day: what the overview, trends and the
-- quality alarm are made from. Derived from `outcomes`; holds no content.

CREATE TABLE quality_progress (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    last_id INTEGER NOT NULL
);
INSERT INTO quality_progress (only_row, last_id) VALUES (1, 0);

CREATE TABLE quality_rollups (
    -- Of everybody: *.
    tenant TEXT NOT NULL,
    span_s INTEGER NOT NULL,
    start_s INTEGER NOT NULL,
    key_id TEXT NOT NULL,
    model TEXT NOT NULL,
    engine TEXT NOT NULL,
    source TEXT NOT NULL,
    -- Of an answer by another engine than was decided on.
    failed_over INTEGER NOT NULL,
    outcomes INTEGER NOT NULL,
    -- Sums of w, wq, w^2, w^2 q and w^2 q^2, where w is one over the probability of having been picked, and q the quality.
    weight REAL NOT NULL,
    quality REAL NOT NULL,
    weight_2 REAL NOT NULL,
    quality_2 REAL NOT NULL,
    square_2 REAL NOT NULL,
    PRIMARY KEY (tenant, span_s, start_s, key_id, model, engine, source, failed_over)
) WITHOUT ROWID;
CREATE INDEX quality_rollups_by_age ON quality_rollups (span_s, start_s);
