-- Judgements, feedback and reviews of answers that clients got, summed by minute, hour and day: what the overview, trends and the
-- quality alarm are made from. Derived from `outcomes`; holds no content.

CREATE TABLE quality_progress (
    only_row BIGINT PRIMARY KEY CHECK (only_row = 1),
    last_id BIGINT NOT NULL
);
INSERT INTO quality_progress (only_row, last_id) VALUES (1, 0);

CREATE TABLE quality_rollups (
    -- Of everybody: *.
    tenant TEXT COLLATE "C" NOT NULL,
    span_s BIGINT NOT NULL,
    start_s BIGINT NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    -- Of an answer by another engine than was decided on.
    failed_over BIGINT NOT NULL,
    outcomes BIGINT NOT NULL,
    -- Sums of w, wq, w^2, w^2 q and w^2 q^2, where w is one over the probability of having been picked, and q the quality.
    weight DOUBLE PRECISION NOT NULL,
    quality DOUBLE PRECISION NOT NULL,
    weight_2 DOUBLE PRECISION NOT NULL,
    quality_2 DOUBLE PRECISION NOT NULL,
    square_2 DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (tenant, span_s, start_s, key_id, model, engine, source, failed_over)
);
CREATE INDEX quality_rollups_by_age ON quality_rollups (span_s, start_s);
