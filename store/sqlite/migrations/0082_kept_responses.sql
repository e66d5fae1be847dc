-- Answers of /v1/responses that no upstream holds: so that their ids can be read, deleted and continued.
CREATE TABLE kept_responses (
    id_digest TEXT NOT NULL,
    tenant TEXT NOT NULL,
    contributor TEXT NOT NULL,
    kept_at_s REAL NOT NULL,
    size_bytes INTEGER NOT NULL,
    response BLOB NOT NULL,
    -- What it answered: a JSON list of input items, those of the conversation before it among them.
    input BLOB NOT NULL,
    PRIMARY KEY (id_digest, tenant)
);
CREATE INDEX kept_responses_by_contributor ON kept_responses (tenant, contributor);
CREATE INDEX kept_responses_by_time ON kept_responses (kept_at_s, size_bytes);
