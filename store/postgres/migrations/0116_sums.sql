-- Tables of sums have a span, its start, keys and amounts (store.sums): hours and days of usage in one table, times of stages and
-- histograms in one, what was spent and what was paid outside the log in one. Sums by key are those of usage.

CREATE TABLE usage_sums (
    span_s BIGINT NOT NULL,
    start_s BIGINT NOT NULL,
    -- answer: clients' requests. Else what the gateway asks of its own accord: judge, shadow and so on.
    line TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    -- Empty in hours; in days the digest of whom clients' requests named.
    end_user TEXT COLLATE "C" NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    api TEXT COLLATE "C" NOT NULL,
    requests BIGINT NOT NULL,
    hits BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    prompt_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    images BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    -- Requests whose cost nobody knows; they are missing in cost_usd.
    unpriced BIGINT NOT NULL,
    -- Requests whose tokens were estimated.
    estimated BIGINT NOT NULL,
    example_tokens BIGINT NOT NULL,
    examples_usd DOUBLE PRECISION NOT NULL,
    -- What the reference engine would have charged, and what was paid, for those of which that is known.
    reference_usd DOUBLE PRECISION NOT NULL,
    reckoned_usd DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (span_s, start_s, line, tenant, end_user, key_id, model, engine, api)
);
INSERT INTO usage_sums (span_s, start_s, line, tenant, end_user, key_id, model, engine, api,
    requests, hits, failed, prompt_tokens, cached_tokens, completion_tokens, images, cost_usd, unpriced, estimated,
    example_tokens, examples_usd, reference_usd, reckoned_usd)
    SELECT 3600, start_s, line, tenant, '', key_id, model, engine, api,
    requests, hits, failed, prompt_tokens, cached_tokens, completion_tokens, images, cost_usd, unpriced, estimated,
    example_tokens, examples_usd, reference_usd, reckoned_usd FROM usage_hours;
INSERT INTO usage_sums (span_s, start_s, line, tenant, end_user, key_id, model, engine, api,
    requests, hits, failed, prompt_tokens, cached_tokens, completion_tokens, images, cost_usd, unpriced, estimated,
    example_tokens, examples_usd, reference_usd, reckoned_usd)
    SELECT 86400, start_s, 'answer', tenant, end_user, key_id, model, engine, api,
    requests, hits, failed, prompt_tokens, cached_tokens, completion_tokens, images, cost_usd, unpriced, estimated,
    example_tokens, examples_usd, reference_usd, reckoned_usd FROM usage_users;
CREATE INDEX usage_sums_by_tenant ON usage_sums (tenant, span_s, start_s);
CREATE INDEX usage_sums_by_end_user ON usage_sums (tenant, end_user) WHERE end_user <> '';
DROP TABLE usage_hours;
DROP TABLE usage_users;

CREATE TABLE time_sums (
    span_s BIGINT NOT NULL,
    start_s BIGINT NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    -- total, first_chunk and token: histograms, in buckets; stage: the milliseconds of the stage that is named.
    measure TEXT COLLATE "C" NOT NULL CHECK (measure IN ('total', 'first_chunk', 'token', 'stage')),
    stage TEXT COLLATE "C" NOT NULL,
    bucket BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    -- Of stages.
    sum_ms DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (span_s, start_s, engine, measure, stage, bucket)
);
INSERT INTO time_sums (span_s, start_s, engine, measure, stage, bucket, requests, sum_ms)
    SELECT span_s, start_s, engine, measure, '', bucket, requests, 0.0 FROM latency_rollups;
INSERT INTO time_sums (span_s, start_s, engine, measure, stage, bucket, requests, sum_ms)
    SELECT span_s, start_s, engine, 'stage', stage, 0, requests, sum_ms FROM stage_rollups;
DROP TABLE latency_rollups;
DROP TABLE stage_rollups;
DROP TABLE key_rollups;
CREATE INDEX request_rollups_by_tenant ON request_rollups (tenant, span_s, start_s);

CREATE TABLE cost_sums (
    span_s BIGINT NOT NULL,
    start_s BIGINT NOT NULL,
    -- By the minute what was paid about rows that are gone or never were: judge (with what answers to compare with cost), replay,
    -- manual_queries or warm. By ten minutes and by the day what judging and shadows have spent: the unit of the amount.
    line TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    purpose TEXT COLLATE "C" NOT NULL,
    requests BIGINT NOT NULL,
    prompt_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    -- US dollars, but for units of another name.
    amount DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (line, span_s, tenant, start_s, engine, purpose)
);
INSERT INTO cost_sums (span_s, start_s, line, tenant, engine, purpose, requests, prompt_tokens, completion_tokens, amount)
    SELECT 60, start_s, line, tenant, engine, purpose, requests, prompt_tokens, completion_tokens, cost_usd FROM kept_costs;
INSERT INTO cost_sums (span_s, start_s, line, tenant, engine, purpose, requests, prompt_tokens, completion_tokens, amount)
    SELECT span_s, start_s, unit, tenant, '', '', 0, 0, 0, amount FROM spending;
INSERT INTO cost_sums (span_s, start_s, line, tenant, engine, purpose, requests, prompt_tokens, completion_tokens, amount)
    SELECT 60, CAST(floor(asked_at_s) AS BIGINT) / 60 * 60, 'replay', tenant, engine, purpose, count(*), sum(tokens), 0, sum(cost_usd)
    FROM replay_side_costs WHERE true GROUP BY 2, 4, 5, 6
    ON CONFLICT (line, span_s, tenant, start_s, engine, purpose) DO UPDATE SET requests = cost_sums.requests + excluded.requests,
    prompt_tokens = cost_sums.prompt_tokens + excluded.prompt_tokens, amount = cost_sums.amount + excluded.amount;
CREATE INDEX cost_sums_by_time ON cost_sums (line, span_s, start_s);
DROP TABLE kept_costs;
DROP TABLE spending;
DROP TABLE replay_side_costs;

CREATE TABLE sums_progress (
    -- requests or outcomes.
    log TEXT COLLATE "C" NOT NULL,
    -- The last row that is in the sums.
    last_id BIGINT NOT NULL,
    -- How often rows were deleted or changed on purpose: what was read before must not be added after.
    changes BIGINT NOT NULL,
    PRIMARY KEY (log)
);
INSERT INTO sums_progress (log, last_id, changes) SELECT 'requests', last_row_id, deletions FROM rollup_progress;
INSERT INTO sums_progress (log, last_id, changes) SELECT 'outcomes', last_id, 0 FROM quality_progress;
DROP TABLE rollup_progress;
DROP TABLE quality_progress;
