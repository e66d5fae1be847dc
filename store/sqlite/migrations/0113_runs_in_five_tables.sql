-- Runs, steps, variables, workflows, texts of collections: what a step asks and who is behind it stand in its row, a run's
-- context and the room that it takes in its own. What a tenant takes is summed by indexes.

ALTER TABLE workflow_steps ADD COLUMN contributor TEXT NOT NULL DEFAULT '';
-- Last, so that what changes of a row is in its first page.
ALTER TABLE workflow_steps ADD COLUMN body BLOB;
UPDATE workflow_steps SET body = t.text FROM workflow_texts t
    WHERE t.run_id = workflow_steps.run_id AND t.step = workflow_steps.step;
UPDATE workflow_steps SET contributor = c.contributor FROM (
    SELECT o.run_id, o.contributor, row_number() OVER (PARTITION BY o.run_id ORDER BY o.contributor) AS place
    FROM workflow_contributors o JOIN workflow_runs r ON r.id = o.run_id WHERE o.contributor <> r.contributor
) c WHERE c.run_id = workflow_steps.run_id AND c.place = workflow_steps.position + 1;
CREATE INDEX workflow_steps_by_contributor ON workflow_steps (contributor) WHERE contributor <> '';

-- Of its steps' bodies and its values, stored or held in memory while it goes on.
ALTER TABLE workflow_runs ADD COLUMN size_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workflow_runs ADD COLUMN context BLOB;
UPDATE workflow_runs SET context = t.text FROM workflow_texts t WHERE t.run_id = workflow_runs.id AND t.step = '';
UPDATE workflow_runs SET size_bytes =
    (SELECT coalesce(sum(t.size_bytes), 0) FROM workflow_texts t WHERE t.run_id = workflow_runs.id)
    + (SELECT coalesce(sum(v.size_bytes), 0) FROM variables v WHERE v.run_id = workflow_runs.id);
CREATE INDEX workflow_runs_by_size ON workflow_runs (tenant, size_bytes) WHERE size_bytes > 0;
CREATE INDEX variables_by_size ON variables (tenant, size_bytes) WHERE run_id IS NULL;

DROP TRIGGER variables_grow;
DROP TRIGGER variables_change;
DROP TRIGGER variables_shrink;
DROP TRIGGER workflows_grow;
DROP TRIGGER workflows_shrink;
DROP TABLE workflow_texts;
DROP TABLE workflow_contributors;

CREATE TABLE collection_texts_before AS SELECT * FROM collection_texts;
DROP TABLE collection_texts;
DROP TABLE collections;
DROP TABLE workflow_bytes;
CREATE TABLE collection_texts (
    -- The lowest of a collection is another one since anything of it was removed or replaced.
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    collection TEXT NOT NULL,
    contributor TEXT NOT NULL,
    -- Of the text.
    digest BLOB NOT NULL,
    created_at_s REAL NOT NULL,
    -- Of text and vector.
    size_bytes INTEGER NOT NULL,
    -- The embedder that made the vector.
    identity TEXT NOT NULL,
    vector BLOB NOT NULL,
    text BLOB NOT NULL
);
INSERT INTO collection_texts SELECT * FROM collection_texts_before ORDER BY seq;
DROP TABLE collection_texts_before;
CREATE UNIQUE INDEX collection_texts_by_digest ON collection_texts (tenant, collection, contributor, digest);
CREATE INDEX collection_texts_by_seq ON collection_texts (tenant, collection, seq, size_bytes, created_at_s);
CREATE INDEX collection_texts_by_contributor ON collection_texts (tenant, contributor) WHERE contributor <> '';
