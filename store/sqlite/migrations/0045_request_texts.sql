-- What was asked and answered, for whoever may read it: kept apart from the log of requests, for a shorter time, and gone with
-- whoever asked.

-- The gateway's own key a request came by; empty without one. Blanked when the key is forgotten.
ALTER TABLE requests ADD COLUMN key_id TEXT NOT NULL DEFAULT '';

CREATE TABLE request_texts (
    row_id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    request_id TEXT NOT NULL,
    contributor TEXT NOT NULL,
    at_s REAL NOT NULL,
    -- Equal for exact repeats: a repeat answered from memory has a row without texts, and is shown with those of the first.
    same BLOB,
    size_bytes INTEGER NOT NULL,
    question TEXT NOT NULL,
    answer TEXT NOT NULL,
    -- The conversation and how it was sent: JSON, deflated.
    conversation BLOB,
    UNIQUE (tenant, request_id)
);
CREATE INDEX request_texts_by_age ON request_texts (at_s);
CREATE INDEX request_texts_by_same ON request_texts (tenant, same, row_id) WHERE conversation IS NOT NULL;
CREATE INDEX request_texts_by_contributor ON request_texts (tenant, contributor) WHERE contributor <> '';

-- Triggers keep the sum, so that the size cap costs no scan.
CREATE TABLE request_texts_size (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    total_bytes INTEGER NOT NULL
);
INSERT INTO request_texts_size (only_row, total_bytes) VALUES (1, 0);

-- Words of questions and answers, to search by. They hold no text of their own but the words, and those of a deleted row are
-- in them until they are purged (store/words.py).
CREATE VIRTUAL TABLE request_words USING fts5 (
    question, answer, content = 'request_texts', content_rowid = 'row_id', tokenize = "unicode61 remove_diacritics 2"
);
CREATE TRIGGER request_texts_grow AFTER INSERT ON request_texts BEGIN
    UPDATE request_texts_size SET total_bytes = total_bytes + NEW.size_bytes;
END;
CREATE TRIGGER request_texts_shrink AFTER DELETE ON request_texts BEGIN
    UPDATE request_texts_size SET total_bytes = total_bytes - OLD.size_bytes;
END;
CREATE TRIGGER request_words_in AFTER INSERT ON request_texts WHEN NEW.conversation IS NOT NULL BEGIN
    INSERT INTO request_words (rowid, question, answer) VALUES (NEW.row_id, NEW.question, NEW.answer);
END;
CREATE TRIGGER request_words_out AFTER DELETE ON request_texts WHEN OLD.conversation IS NOT NULL BEGIN
    INSERT INTO request_words (request_words, rowid, question, answer)
        VALUES ('delete', OLD.row_id, OLD.question, OLD.answer);
END;

CREATE VIRTUAL TABLE example_words USING fts5 (
    question, answer, content = 'examples', content_rowid = 'id', tokenize = "unicode61 remove_diacritics 2"
);
INSERT INTO example_words (example_words) VALUES ('rebuild');
CREATE TRIGGER example_words_in AFTER INSERT ON examples BEGIN
    INSERT INTO example_words (rowid, question, answer) VALUES (NEW.id, NEW.question, NEW.answer);
END;
CREATE TRIGGER example_words_out AFTER DELETE ON examples BEGIN
    INSERT INTO example_words (example_words, rowid, question, answer)
        VALUES ('delete', OLD.id, OLD.question, OLD.answer);
END;
CREATE TRIGGER example_words_change AFTER UPDATE OF question, answer ON examples
WHEN NEW.question IS NOT OLD.question OR NEW.answer IS NOT OLD.answer BEGIN
    INSERT INTO example_words (example_words, rowid, question, answer)
        VALUES ('delete', OLD.id, OLD.question, OLD.answer);
    INSERT INTO example_words (rowid, question, answer) VALUES (NEW.id, NEW.question, NEW.answer);
END;

-- What is most used and promises most, for lists of a bank of any size.
CREATE INDEX accounts_by_gain ON example_accounts (tenant, gain, gain_at_s);
CREATE INDEX accounts_by_uses ON example_accounts (tenant, uses);
