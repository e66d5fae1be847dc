-- Questions of which a judge said that another question's remembered answer answers them as well: they share its entry from then on.
CREATE TABLE semantic_aliases (
    example_id INTEGER NOT NULL REFERENCES examples (id) ON DELETE CASCADE,
    same_otherwise BLOB NOT NULL,
    tenant TEXT NOT NULL,
    entry_id INTEGER NOT NULL,
    at_s REAL NOT NULL,
    PRIMARY KEY (example_id, same_otherwise)
) WITHOUT ROWID;
CREATE INDEX semantic_aliases_by_entry ON semantic_aliases (entry_id);
CREATE TRIGGER semantic_aliases_go_with_entry AFTER DELETE ON semantic_entries BEGIN
    DELETE FROM semantic_aliases WHERE entry_id = OLD.id;
END;
CREATE TRIGGER semantic_aliases_go_with_texts AFTER UPDATE OF question, answer ON examples
WHEN NEW.question IS NOT OLD.question OR NEW.answer IS NOT OLD.answer BEGIN
    DELETE FROM semantic_aliases WHERE example_id = OLD.id;
END;
