-- A step that has not ended is claimed by the worker that carries it out, until a time by the database's clock; runs have
-- no owners. What others did is read from the rows themselves. Steps under way are due at once.

ALTER TABLE workflow_steps ADD COLUMN claimed_by TEXT NOT NULL DEFAULT '';
-- NULL: it has ended.
ALTER TABLE workflow_steps ADD COLUMN claimed_until_s REAL;
UPDATE workflow_steps SET claimed_until_s = 0 WHERE state IN ('waiting', 'queued', 'running', 'unknown')
    AND run_id IN (SELECT id FROM workflow_runs WHERE state = 'running');
CREATE INDEX workflow_steps_due ON workflow_steps (claimed_until_s) WHERE claimed_until_s IS NOT NULL;

INSERT INTO kept_costs (tenant, start_s, line, engine, purpose, requests, prompt_tokens, completion_tokens, cost_usd)
    SELECT r.tenant, CAST(r.created_at_s AS INTEGER) / 60 * 60, 'warm', s.engine, '', count(*), sum(s.warmed_tokens), 0,
        sum(s.warmed_cost_usd)
    FROM workflow_steps s JOIN workflow_runs r ON r.id = s.run_id WHERE s.warmed_cost_usd > 0 GROUP BY 1, 2, 4
    ON CONFLICT (tenant, start_s, line, engine, purpose) DO UPDATE SET requests = requests + excluded.requests,
        prompt_tokens = prompt_tokens + excluded.prompt_tokens, cost_usd = cost_usd + excluded.cost_usd;
ALTER TABLE workflow_steps DROP COLUMN warmed_tokens;
ALTER TABLE workflow_steps DROP COLUMN warmed_cost_usd;

DROP INDEX workflow_runs_by_lease;
ALTER TABLE workflow_runs DROP COLUMN owner;
ALTER TABLE workflow_runs DROP COLUMN lease_until_s;

-- Whether another worker reads its text as it comes: then `value` grows while it streams.
ALTER TABLE variables ADD COLUMN streamed INTEGER NOT NULL DEFAULT 0;
CREATE INDEX variables_streamed ON variables (run_id) WHERE streamed = 1;

DROP TABLE variable_pieces;
DROP TABLE variable_readers;
DROP TABLE workflow_changes;
