-- What replay did to the bank, so that it can be taken back: answers it replaced, and examples it wrote.

CREATE TABLE example_versions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    example_id INTEGER NOT NULL REFERENCES examples (id) ON DELETE CASCADE,
    run_id INTEGER NOT NULL,
    at_s REAL NOT NULL,
    -- The answer as it was before.
    answer TEXT NOT NULL,
    source_engine TEXT NOT NULL,
    completion_tokens INTEGER NOT NULL,
    quality_sum REAL NOT NULL,
    quality_count INTEGER NOT NULL,
    -- Digest of the answer that took its place: what a person changed since is not taken back.
    replaced_by BLOB NOT NULL
);
CREATE INDEX example_versions_by_example ON example_versions (example_id, id);
CREATE INDEX example_versions_by_run ON example_versions (run_id, id);
CREATE INDEX example_versions_by_tenant ON example_versions (tenant);

-- Whose texts stand in a row may change with a twin: then the old answer is somebody else's, and goes.
CREATE TRIGGER example_versions_go_with_texts AFTER UPDATE OF question, request_id ON examples
WHEN NEW.question IS NOT OLD.question OR NEW.request_id IS NOT OLD.request_id BEGIN
    DELETE FROM example_versions WHERE example_id = OLD.id;
END;
-- They count against the tenant's cap like everything else of an example.
CREATE TRIGGER example_versions_are_counted AFTER INSERT ON example_versions BEGIN
    UPDATE example_accounts SET size_bytes = size_bytes + length(CAST(NEW.answer AS BLOB)) WHERE id = NEW.example_id;
END;
CREATE TRIGGER example_versions_are_counted_off AFTER DELETE ON example_versions BEGIN
    UPDATE example_accounts SET size_bytes = size_bytes - length(CAST(OLD.answer AS BLOB)) WHERE id = OLD.example_id;
END;

-- Which example was written as a variation of which.
CREATE TABLE example_lineage (
    example_id INTEGER PRIMARY KEY REFERENCES examples (id) ON DELETE CASCADE,
    tenant TEXT NOT NULL,
    parent_id INTEGER NOT NULL,
    run_id INTEGER NOT NULL,
    generator TEXT NOT NULL,
    answer_digest BLOB NOT NULL,
    at_s REAL NOT NULL
);
CREATE INDEX example_lineage_by_parent ON example_lineage (parent_id);
CREATE INDEX example_lineage_by_run ON example_lineage (run_id);
