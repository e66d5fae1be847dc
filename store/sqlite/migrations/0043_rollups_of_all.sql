-- Stages and latencies are summed over all tenants: by tenant they had nearly a row per request, and a week took seconds to read.

DROP TABLE stage_rollups;
DROP TABLE latency_rollups;

CREATE TABLE stage_rollups (
    span_s INTEGER NOT NULL,
    start_s INTEGER NOT NULL,
    engine TEXT NOT NULL,
    stage TEXT NOT NULL,
    requests INTEGER NOT NULL,
    sum_ms REAL NOT NULL,
    PRIMARY KEY (span_s, start_s, engine, stage)
) WITHOUT ROWID;

-- Histograms: `bucket` is floor(8 * log2(milliseconds)), so that a percentile is known to 9 %.
CREATE TABLE latency_rollups (
    span_s INTEGER NOT NULL,
    start_s INTEGER NOT NULL,
    engine TEXT NOT NULL,
    measure TEXT NOT NULL CHECK (measure IN ('total', 'first_chunk', 'token')),
    bucket INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (span_s, start_s, engine, measure, bucket)
) WITHOUT ROWID;

-- Everything is added up anew from the log.
DELETE FROM request_rollups;
DELETE FROM key_rollups;
UPDATE rollup_progress SET last_row_id = 0, deletions = deletions + 1;
