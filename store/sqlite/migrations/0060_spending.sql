-- What was spent in the background on finding out how good answers are (shadow answers, verdicts), by tenant: for ten minutes
-- and for days. Reserved before it is spent: what a process took with it when it died counts as spent. Holds no content.
CREATE TABLE spending (
    unit TEXT NOT NULL,
    span_s INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    start_s INTEGER NOT NULL,
    amount REAL NOT NULL,
    PRIMARY KEY (unit, span_s, tenant, start_s)
) WITHOUT ROWID;
