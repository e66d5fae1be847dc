-- What requests used and cost, whatever the API, and sums of it by hour and by end user and day, written with each request.

ALTER TABLE requests ADD COLUMN unpriced INTEGER NOT NULL DEFAULT 0;
ALTER TABLE requests ADD COLUMN api TEXT NOT NULL DEFAULT 'chat';
-- The end user's digest.
ALTER TABLE requests ADD COLUMN end_user TEXT NOT NULL DEFAULT '';
ALTER TABLE requests ADD COLUMN cache_write_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE requests ADD COLUMN images INTEGER NOT NULL DEFAULT 0;
ALTER TABLE requests ADD COLUMN service_tier TEXT NOT NULL DEFAULT '';
ALTER TABLE requests ADD COLUMN examples_usd REAL NOT NULL DEFAULT 0;
ALTER TABLE requests ADD COLUMN example_tokens INTEGER NOT NULL DEFAULT 0;

CREATE TABLE usage_hours (
    start_s INTEGER NOT NULL,
    -- answer: clients' requests. Else what the gateway asks of its own accord: judge, shadow and so on.
    line TEXT NOT NULL,
    tenant TEXT NOT NULL,
    key_id TEXT NOT NULL,
    model TEXT NOT NULL,
    engine TEXT NOT NULL,
    api TEXT NOT NULL,
    requests INTEGER NOT NULL,
    hits INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    images INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    -- Requests whose cost nobody knows; they are missing in cost_usd.
    unpriced INTEGER NOT NULL,
    -- Requests whose tokens were estimated.
    estimated INTEGER NOT NULL,
    example_tokens INTEGER NOT NULL,
    examples_usd REAL NOT NULL,
    -- What the reference engine would have charged, and what was paid, for those of which that is known.
    reference_usd REAL NOT NULL,
    reckoned_usd REAL NOT NULL,
    PRIMARY KEY (start_s, line, tenant, key_id, model, engine, api)
) WITHOUT ROWID;
CREATE INDEX usage_hours_by_tenant ON usage_hours (tenant, start_s);

CREATE TABLE usage_users (
    start_s INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    end_user TEXT NOT NULL,
    key_id TEXT NOT NULL,
    model TEXT NOT NULL,
    engine TEXT NOT NULL,
    api TEXT NOT NULL,
    requests INTEGER NOT NULL,
    hits INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    images INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    unpriced INTEGER NOT NULL,
    estimated INTEGER NOT NULL,
    example_tokens INTEGER NOT NULL,
    examples_usd REAL NOT NULL,
    reference_usd REAL NOT NULL,
    reckoned_usd REAL NOT NULL,
    PRIMARY KEY (start_s, tenant, end_user, key_id, model, engine, api)
) WITHOUT ROWID;
CREATE INDEX usage_users_by_tenant ON usage_users (tenant, end_user);

-- What is known of former requests. What judging cost is in the outcomes, judge and shadow together.
INSERT INTO usage_hours
SELECT CAST(started_at_s AS INTEGER) / 3600 * 3600, 'answer', tenant, key_id, model, engine, 'chat', count(*),
    sum(outcome = 'hit'), sum(outcome NOT IN ('hit', 'answered')), sum(prompt_tokens), sum(cached_tokens),
    sum(completion_tokens), 0, sum(cost_usd), 0, sum(usage_estimated), 0, 0.0, sum(coalesce(reference_cost_usd, 0.0)),
    sum(CASE WHEN reference_cost_usd IS NULL THEN 0.0 ELSE cost_usd END)
FROM requests GROUP BY 1, 3, 4, 5, 6;

INSERT INTO usage_users
SELECT start_s / 86400 * 86400, tenant, '', key_id, model, engine, api, sum(requests), sum(hits), sum(failed),
    sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens), sum(images), sum(cost_usd), sum(unpriced),
    sum(estimated), sum(example_tokens), sum(examples_usd), sum(reference_usd), sum(reckoned_usd)
FROM usage_hours GROUP BY 1, 2, 4, 5, 6, 7;
