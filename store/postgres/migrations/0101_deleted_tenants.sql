-- What stays of somebody who was deleted: sums without a name, so that a deletion changes no total.

-- Tenants that were deleted. Goes when a key or a record of that name is made anew.
CREATE TABLE deleted_tenants (
    id TEXT COLLATE "C" PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL,
    deleted_at_s DOUBLE PRECISION NOT NULL
);

-- What was paid about rows that are deleted by now, by minute. Of deleted tenants together under 'deleted'.
CREATE TABLE kept_costs (
    tenant TEXT COLLATE "C" NOT NULL,
    start_s BIGINT NOT NULL,
    -- judge (with what answers to compare with cost), replay, by_hand or warm.
    line TEXT COLLATE "C" NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    purpose TEXT COLLATE "C" NOT NULL,
    requests BIGINT NOT NULL,
    prompt_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (tenant, start_s, line, engine, purpose)
);
CREATE INDEX kept_costs_by_time ON kept_costs (line, start_s);
