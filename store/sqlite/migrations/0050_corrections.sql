-- Which request got an exact answer first, and under which key each request looked: a correction finds the answer by either.
ALTER TABLE exact_answers ADD COLUMN request_id TEXT NOT NULL DEFAULT '';
CREATE INDEX exact_answers_by_request ON exact_answers (request_id) WHERE request_id <> '';
ALTER TABLE requests ADD COLUMN exact_key BLOB;
-- Those from before could not be found.
DELETE FROM exact_answers;
-- Which examples an exact answer was made with: it goes when one of them turns out to be wrong.
CREATE TABLE exact_answer_examples (
    example_id INTEGER NOT NULL,
    key BLOB NOT NULL,
    PRIMARY KEY (example_id, key)
) WITHOUT ROWID;
CREATE INDEX exact_answer_examples_by_key ON exact_answer_examples (key);
CREATE TRIGGER exact_answer_examples_go_with_answer AFTER DELETE ON exact_answers BEGIN
    DELETE FROM exact_answer_examples WHERE key = OLD.key;
END;
-- What was noted of an example before its answer was corrected, and is written only now, was of the old answer.
ALTER TABLE example_accounts ADD COLUMN corrected_at_s REAL NOT NULL DEFAULT 0;
