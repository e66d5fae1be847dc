-- Answers that may be given to a merely similar question. Each hangs on the example whose question it answers, and goes with it.
CREATE TABLE semantic_entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    example_id INTEGER NOT NULL,
    same_otherwise BLOB NOT NULL,
    stored_at_s REAL NOT NULL,
    engine TEXT NOT NULL,
    content_type TEXT NOT NULL,
    usage_estimated INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (example_id, same_otherwise)
);
CREATE INDEX semantic_entries_by_age ON semantic_entries (tenant, stored_at_s);
CREATE INDEX semantic_observations_of_entry ON semantic_observations (entry_id);

-- Whoever removes an example need not know of any of this: not the API, not eviction, not the one who forgets a tenant.
CREATE TRIGGER semantic_entries_go_with_example AFTER DELETE ON examples BEGIN
    DELETE FROM semantic_entries WHERE example_id = OLD.id;
END;
CREATE TRIGGER semantic_entries_go_with_texts AFTER UPDATE OF question, answer ON examples
WHEN NEW.question IS NOT OLD.question OR NEW.answer IS NOT OLD.answer BEGIN
    DELETE FROM semantic_entries WHERE example_id = OLD.id;
END;
CREATE TRIGGER semantic_observations_go_with_entry AFTER DELETE ON semantic_entries BEGIN
    DELETE FROM semantic_observations WHERE entry_id = OLD.id;
END;
