-- Examples are also found by words for requests: only those of the tenant's scope, the rarest words first.
DROP TRIGGER example_words_in;
DROP TRIGGER example_words_out;
DROP TRIGGER example_words_change;
DROP TABLE example_words;
CREATE VIRTUAL TABLE example_words USING fts5 (
    tenant, scope, question, answer, content = 'examples', content_rowid = 'id',
    tokenize = "unicode61 remove_diacritics 2"
);
INSERT INTO example_words (example_words) VALUES ('rebuild');
CREATE VIRTUAL TABLE example_vocabulary USING fts5vocab ('example_words', 'row');
CREATE TRIGGER example_words_in AFTER INSERT ON examples BEGIN
    INSERT INTO example_words (rowid, tenant, scope, question, answer)
        VALUES (NEW.id, NEW.tenant, NEW.scope, NEW.question, NEW.answer);
END;
CREATE TRIGGER example_words_out AFTER DELETE ON examples BEGIN
    INSERT INTO example_words (example_words, rowid, tenant, scope, question, answer)
        VALUES ('delete', OLD.id, OLD.tenant, OLD.scope, OLD.question, OLD.answer);
END;
CREATE TRIGGER example_words_change AFTER UPDATE OF tenant, scope, question, answer ON examples
WHEN NEW.question IS NOT OLD.question OR NEW.answer IS NOT OLD.answer OR NEW.tenant IS NOT OLD.tenant
    OR NEW.scope IS NOT OLD.scope BEGIN
    INSERT INTO example_words (example_words, rowid, tenant, scope, question, answer)
        VALUES ('delete', OLD.id, OLD.tenant, OLD.scope, OLD.question, OLD.answer);
    INSERT INTO example_words (rowid, tenant, scope, question, answer)
        VALUES (NEW.id, NEW.tenant, NEW.scope, NEW.question, NEW.answer);
END;
