-- Runs, steps, variables, workflows, texts of collections: what a step asks and who is behind it stand in its row, a run's
-- context and the room that it takes in its own. What a tenant takes is summed by indexes.

ALTER TABLE workflow_steps ADD COLUMN contributor TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE workflow_steps ADD COLUMN body BYTEA;
UPDATE workflow_steps SET body = t.text FROM workflow_texts t
    WHERE t.run_id = workflow_steps.run_id AND t.step = workflow_steps.step;
UPDATE workflow_steps SET contributor = c.contributor FROM (
    SELECT o.run_id, o.contributor, row_number() OVER (PARTITION BY o.run_id ORDER BY o.contributor) AS place
    FROM workflow_contributors o JOIN workflow_runs r ON r.id = o.run_id WHERE o.contributor <> r.contributor
) c WHERE c.run_id = workflow_steps.run_id AND c.place = workflow_steps.position + 1;
CREATE INDEX workflow_steps_by_contributor ON workflow_steps (contributor) WHERE contributor <> '';

-- Of its steps' bodies and its values, stored or held in memory while it goes on.
ALTER TABLE workflow_runs ADD COLUMN size_bytes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE workflow_runs ADD COLUMN context BYTEA;
UPDATE workflow_runs SET context = t.text FROM workflow_texts t WHERE t.run_id = workflow_runs.id AND t.step = '';
UPDATE workflow_runs SET size_bytes =
    (SELECT coalesce(sum(t.size_bytes), 0) FROM workflow_texts t WHERE t.run_id = workflow_runs.id)
    + (SELECT coalesce(sum(v.size_bytes), 0) FROM variables v WHERE v.run_id = workflow_runs.id);
CREATE INDEX workflow_runs_by_size ON workflow_runs (tenant, size_bytes) WHERE size_bytes > 0;
CREATE INDEX variables_by_size ON variables (tenant, size_bytes) WHERE run_id IS NULL;

DROP FUNCTION variables_grow() CASCADE;
DROP FUNCTION variables_change() CASCADE;
DROP FUNCTION variables_shrink() CASCADE;
DROP FUNCTION workflows_grow() CASCADE;
DROP FUNCTION workflows_shrink() CASCADE;
DROP FUNCTION collection_texts_grow() CASCADE;
DROP FUNCTION collection_texts_change() CASCADE;
DROP FUNCTION collection_texts_shrink() CASCADE;
DROP TABLE workflow_texts;
DROP FUNCTION workflow_texts_grow() CASCADE;
DROP FUNCTION workflow_texts_shrink() CASCADE;
DROP TABLE workflow_contributors;
ALTER TABLE collection_texts DROP CONSTRAINT collection_texts_tenant_collection_fkey;
DROP TABLE collections;
DROP TABLE workflow_bytes;
-- The lowest `seq` of a collection is another one since anything of it was removed or replaced.
DROP INDEX collection_texts_by_seq;
CREATE INDEX collection_texts_by_seq ON collection_texts (tenant, collection, seq, size_bytes, created_at_s);
