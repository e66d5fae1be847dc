-- Routing settings of one tenant beside those of the whole model (dials): a table of its own, for the release before this one
-- applies every row of dials to everybody.
CREATE TABLE tenant_dials (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    model TEXT NOT NULL,
    at_s REAL NOT NULL,
    user TEXT NOT NULL,
    preference REAL CHECK (preference BETWEEN 0 AND 1),
    theta REAL CHECK (theta BETWEEN -1 AND 1),
    m INTEGER CHECK (m >= 1),
    max_examples INTEGER CHECK (max_examples >= 0),
    taken_back_at_s REAL,
    taken_back_by TEXT
);
CREATE INDEX tenant_dials_in_force ON tenant_dials (model, tenant, id) WHERE taken_back_at_s IS NULL;
CREATE INDEX tenant_dials_of ON tenant_dials (tenant);

-- What reviewers said of sampled answers. The texts are in request_texts, what follows in outcomes.
CREATE TABLE reviews (
    tenant TEXT NOT NULL,
    request_id TEXT NOT NULL,
    at_s REAL NOT NULL,
    user TEXT NOT NULL,
    verdict TEXT NOT NULL CHECK (verdict IN ('good', 'bad', 'corrected', 'skip')),
    -- With which the answer was sampled.
    probability REAL NOT NULL CHECK (probability > 0 AND probability <= 1),
    PRIMARY KEY (tenant, request_id)
) WITHOUT ROWID;
CREATE INDEX reviews_by_age ON reviews (at_s);

-- The shares of answers that are sampled for review, each for requests from a time on.
CREATE TABLE review_shares (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    from_s REAL NOT NULL,
    user TEXT NOT NULL,
    offloaded REAL NOT NULL CHECK (offloaded BETWEEN 0 AND 1),
    reference REAL NOT NULL CHECK (reference BETWEEN 0 AND 1)
);
