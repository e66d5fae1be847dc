-- Whom an exact answer answered (learning.bank.contributor), so that one user's can be deleted alone; NULL: not known.
ALTER TABLE exact_answers ADD COLUMN contributor TEXT;
DROP INDEX exact_answers_by_tenant;
CREATE INDEX exact_answers_by_tenant ON exact_answers (tenant, contributor);
