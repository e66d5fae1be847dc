-- Which request got an exact answer first, and under which key each request looked: a correction finds the answer by either.
ALTER TABLE exact_answers ADD COLUMN request_id TEXT NOT NULL DEFAULT '';
CREATE INDEX exact_answers_by_request ON exact_answers (request_id) WHERE request_id <> '';
ALTER TABLE requests ADD COLUMN exact_key BLOB;
-- Those from before could not be found.
DELETE FROM exact_answers;
-- What was noted of an example before its answer was corrected, and is written only now, was of the old answer.
ALTER TABLE example_accounts ADD COLUMN corrected_at_s REAL NOT NULL DEFAULT 0;
