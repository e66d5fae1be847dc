-- What stays of somebody who was deleted: sums without a name, so that a deletion changes no total.

-- Tenants that were deleted. Goes when a key or a record of that name is made anew.
CREATE TABLE deleted_tenants (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    deleted_at_s REAL NOT NULL
) WITHOUT ROWID;

-- What was paid about rows that are deleted by now, by minute. Of deleted tenants together under 'deleted'.
CREATE TABLE kept_costs (
    tenant TEXT NOT NULL,
    start_s INTEGER NOT NULL,
    -- judge (with what answers to compare with cost), replay, by_hand or warm.
    line TEXT NOT NULL,
    engine TEXT NOT NULL,
    purpose TEXT NOT NULL,
    requests INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    PRIMARY KEY (tenant, start_s, line, engine, purpose)
) WITHOUT ROWID;
CREATE INDEX kept_costs_by_time ON kept_costs (line, start_s);
