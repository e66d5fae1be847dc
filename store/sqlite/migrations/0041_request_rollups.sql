-- Sums over requests by minute and by hour, so that a page over a week reads some hundred rows of any log.

-- What the model's reference engine would have charged for it, by its price; null where nobody reckoned.
ALTER TABLE requests ADD COLUMN reference_cost_usd REAL;

CREATE TABLE rollup_progress (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    last_row_id INTEGER NOT NULL,
    -- How often requests were deleted on purpose: what was read before must not be added after.
    deletions INTEGER NOT NULL
);
INSERT INTO rollup_progress (only_row, last_row_id, deletions) VALUES (1, 0, 0);

CREATE TABLE request_rollups (
    span_s INTEGER NOT NULL,
    start_s INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    model TEXT NOT NULL,
    engine TEXT NOT NULL,
    outcome TEXT NOT NULL,
    with_examples INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    reference_cost_usd REAL NOT NULL,
    -- Requests of which no reference cost is known; they are left out of what was saved.
    unreckoned INTEGER NOT NULL,
    unreckoned_usd REAL NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    total_ms REAL NOT NULL,
    overhead_ms REAL NOT NULL,
    streams INTEGER NOT NULL,
    first_chunk_ms REAL NOT NULL,
    streamed_ms REAL NOT NULL,
    streamed_tokens INTEGER NOT NULL,
    PRIMARY KEY (span_s, start_s, tenant, model, engine, outcome, with_examples)
) WITHOUT ROWID;

CREATE TABLE stage_rollups (
    span_s INTEGER NOT NULL,
    start_s INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    engine TEXT NOT NULL,
    stage TEXT NOT NULL,
    requests INTEGER NOT NULL,
    sum_ms REAL NOT NULL,
    PRIMARY KEY (span_s, start_s, tenant, engine, stage)
) WITHOUT ROWID;

-- Histograms: `bucket` is floor(8 * log2(milliseconds)), so that a percentile is known to 9 %.
CREATE TABLE latency_rollups (
    span_s INTEGER NOT NULL,
    start_s INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    engine TEXT NOT NULL,
    measure TEXT NOT NULL CHECK (measure IN ('total', 'first_chunk', 'token')),
    bucket INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (span_s, start_s, tenant, engine, measure, bucket)
) WITHOUT ROWID;

-- By key, for the page of keys: hours only.
CREATE TABLE key_rollups (
    start_s INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    key_id TEXT NOT NULL,
    requests INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    tokens INTEGER NOT NULL,
    PRIMARY KEY (start_s, tenant, key_id)
) WITHOUT ROWID;
