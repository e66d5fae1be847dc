-- What people look at of stored answers: how often each was given again, and which are corrections, which no engine's
-- answer replaces. Who gave a feedback, where an operator did. And the repeats of a request, which have no words of their own.

ALTER TABLE exact_answers ADD COLUMN hits INTEGER NOT NULL DEFAULT 0;
ALTER TABLE exact_answers ADD COLUMN corrected INTEGER NOT NULL DEFAULT 0;
CREATE INDEX exact_answers_by_hits ON exact_answers (hits, id, tenant) WHERE hits > 0;
CREATE INDEX exact_answers_by_tenant_age ON exact_answers (tenant, stored_at_s);
ALTER TABLE feedback ADD COLUMN author TEXT NOT NULL DEFAULT '';
CREATE INDEX feedback_by_correction ON feedback (tenant, correction) WHERE correction <> '';
CREATE INDEX request_texts_repeats ON request_texts (tenant, same, row_id) WHERE conversation IS NULL;
