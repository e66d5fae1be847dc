-- What people said of answers, as they said it. What follows from it for learning stands in `outcomes`.
CREATE TABLE feedback (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    -- Unique per tenant: an Idempotency-Key's digest, or that of the content.
    key TEXT NOT NULL,
    content_digest TEXT NOT NULL,
    request_id TEXT NOT NULL,
    contributor TEXT NOT NULL,
    at_s REAL NOT NULL,
    score REAL,
    thumb TEXT NOT NULL,
    preferred_over TEXT NOT NULL,
    correction TEXT NOT NULL,
    comment TEXT NOT NULL,
    UNIQUE (tenant, key)
);
CREATE INDEX feedback_by_request ON feedback (tenant, request_id);
CREATE INDEX feedback_by_age ON feedback (at_s);
CREATE INDEX feedback_by_contributor ON feedback (tenant, contributor) WHERE contributor <> '';

CREATE TRIGGER feedback_goes_with_choice AFTER DELETE ON choices BEGIN
    DELETE FROM feedback WHERE tenant = OLD.tenant AND request_id = OLD.request_id;
END;
