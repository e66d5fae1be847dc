-- Where an example's answer points, for who compares it with a request. Derived: made in the background, and made again at need.

-- One row per example; without a vector while it waits for one, which costs some tens of bytes where nobody ever makes them.
CREATE TABLE answer_vectors (
    example_id INTEGER PRIMARY KEY REFERENCES examples (id) ON DELETE CASCADE,
    version TEXT NOT NULL DEFAULT '',
    vector BLOB
);
CREATE INDEX answer_vectors_by_version ON answer_vectors (version, example_id);
INSERT INTO answer_vectors (example_id) SELECT id FROM examples;

-- Whoever adds an example or changes its answer need not know of any of this.
CREATE TRIGGER answer_vectors_wait AFTER INSERT ON examples BEGIN
    INSERT INTO answer_vectors (example_id) VALUES (NEW.id);
END;
CREATE TRIGGER answer_vectors_go_with_answer AFTER UPDATE OF answer ON examples WHEN NEW.answer IS NOT OLD.answer BEGIN
    UPDATE answer_vectors SET version = '', vector = NULL WHERE example_id = OLD.id;
END;
-- They count against the tenant's cap like everything else of an example.
CREATE TRIGGER answer_vectors_are_counted AFTER UPDATE OF vector ON answer_vectors
WHEN coalesce(length(NEW.vector), 0) <> coalesce(length(OLD.vector), 0) BEGIN
    UPDATE example_accounts
    SET size_bytes = size_bytes + coalesce(length(NEW.vector), 0) - coalesce(length(OLD.vector), 0)
    WHERE id = NEW.example_id;
END;
