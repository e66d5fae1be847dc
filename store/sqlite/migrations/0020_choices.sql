-- What the router weighed for each request. Holds no text; the request's vector, as 16-bit floats, is the one thing that tells of it.
CREATE TABLE choices (
    row_id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    request_id TEXT NOT NULL,
    contributor TEXT NOT NULL,
    at_s REAL NOT NULL,
    model TEXT NOT NULL,
    completion_id TEXT NOT NULL,
    engine TEXT NOT NULL,
    embedding_version TEXT NOT NULL,
    vector BLOB,
    candidate_features BLOB,
    features_per_candidate INTEGER NOT NULL,
    -- The rest of the record: JSON, deflated, because the names of features are most of it.
    record BLOB NOT NULL,
    UNIQUE (tenant, request_id)
);
CREATE INDEX choices_by_model ON choices (tenant, model, row_id);
CREATE INDEX choices_by_age ON choices (at_s);
CREATE INDEX choices_by_completion ON choices (tenant, completion_id) WHERE completion_id <> '';
CREATE INDEX choices_by_contributor ON choices (tenant, contributor) WHERE contributor <> '';

-- How good answers turned out to be. `model` is the choice's, so that counting needs no join; empty until the choice is there.
CREATE TABLE outcomes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    request_id TEXT NOT NULL,
    key TEXT NOT NULL,
    model TEXT NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('user', 'judge', 'implicit', 'label')),
    at_s REAL NOT NULL,
    engine TEXT NOT NULL,
    example_ids TEXT NOT NULL,
    served INTEGER NOT NULL,
    quality REAL NOT NULL CHECK (quality BETWEEN 0 AND 1),
    probability REAL NOT NULL CHECK (probability > 0 AND probability <= 1),
    cost_usd REAL NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    latency_s REAL,
    detail TEXT NOT NULL,
    UNIQUE (tenant, request_id, key)
);
CREATE INDEX outcomes_by_model ON outcomes (tenant, model, source);
CREATE INDEX outcomes_by_age ON outcomes (at_s);

-- Feedback may overtake the recorder: who chose is then known a moment after how good it was.
CREATE TRIGGER outcomes_learn_their_model AFTER INSERT ON choices BEGIN
    UPDATE outcomes SET model = NEW.model WHERE tenant = NEW.tenant AND request_id = NEW.request_id;
END;
-- An outcome without its choice teaches nothing, and whoever removes a choice need not know of outcomes.
CREATE TRIGGER outcomes_go_with_choice AFTER DELETE ON choices BEGIN
    DELETE FROM outcomes WHERE tenant = OLD.tenant AND request_id = OLD.request_id;
END;
