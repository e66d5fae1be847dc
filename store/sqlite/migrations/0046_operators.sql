-- What operators do on the admin pages that is to be counted or followed.

-- Engines asked by hand, beside a client's answer. No text: what they answered was shown once.
CREATE TABLE operator_asks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_s REAL NOT NULL,
    user TEXT NOT NULL,
    tenant TEXT NOT NULL,
    request_id TEXT NOT NULL,
    engine TEXT NOT NULL,
    with_examples INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    latency_s REAL NOT NULL
);
CREATE INDEX operator_asks_by_time ON operator_asks (at_s, cost_usd);
CREATE INDEX operator_asks_by_tenant ON operator_asks (tenant);

-- Dials that an operator turned while the gateway runs. The latest row of a model that was not taken back is in force;
-- null leaves a dial as it is configured.
CREATE TABLE dials (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
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
CREATE INDEX dials_in_force ON dials (model, id) WHERE taken_back_at_s IS NULL;
INSERT INTO generations (name, value) VALUES ('dials', 0);
