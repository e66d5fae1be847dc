-- What an example is worth, whose it is and how long it may stay: the example manager's accounts.

-- One narrow row per example. It is written anew on every use, which must not rewrite the texts and the vector.
CREATE TABLE example_accounts (
    id INTEGER PRIMARY KEY REFERENCES examples (id) ON DELETE CASCADE,
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('observed', 'demonstration')),
    contributor TEXT NOT NULL,
    pinned INTEGER NOT NULL,
    flagged INTEGER NOT NULL,
    merged INTEGER NOT NULL,
    served_from_s REAL NOT NULL,
    seen_at_s REAL NOT NULL,
    size_bytes INTEGER NOT NULL,
    uses INTEGER NOT NULL,
    last_used_at_s REAL,
    used REAL NOT NULL,
    used_at_s REAL NOT NULL,
    gain REAL NOT NULL,
    gain_at_s REAL NOT NULL,
    quality_sum REAL NOT NULL,
    quality_count INTEGER NOT NULL,
    worth REAL NOT NULL,
    worth_per_byte REAL NOT NULL
);
CREATE INDEX accounts_by_tenant ON example_accounts (tenant);
CREATE INDEX accounts_of_demonstrations ON example_accounts (tenant) WHERE kind = 'demonstration';
CREATE INDEX accounts_by_contributor ON example_accounts (tenant, contributor) WHERE contributor <> '';
-- Eviction reads these from their low end, and never meets what it must not touch.
CREATE INDEX accounts_by_worth ON example_accounts (tenant, worth)
    WHERE kind = 'observed' AND pinned = 0;
CREATE INDEX accounts_by_worth_per_byte ON example_accounts (tenant, worth_per_byte)
    WHERE kind = 'observed' AND pinned = 0;

-- Triggers keep the sums, so that a cap costs no scan.
CREATE TABLE example_totals (
    tenant TEXT PRIMARY KEY,
    examples INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER accounts_grow AFTER INSERT ON example_accounts BEGIN
    INSERT INTO example_totals (tenant, examples, size_bytes) VALUES (NEW.tenant, 1, NEW.size_bytes)
        ON CONFLICT (tenant) DO UPDATE SET examples = examples + 1, size_bytes = size_bytes + NEW.size_bytes;
END;
CREATE TRIGGER accounts_change AFTER UPDATE OF size_bytes ON example_accounts BEGIN
    UPDATE example_totals SET size_bytes = size_bytes - OLD.size_bytes + NEW.size_bytes WHERE tenant = NEW.tenant;
END;
CREATE TRIGGER accounts_shrink AFTER DELETE ON example_accounts BEGIN
    UPDATE example_totals SET examples = examples - 1, size_bytes = size_bytes - OLD.size_bytes
        WHERE tenant = OLD.tenant;
    DELETE FROM example_totals WHERE tenant = OLD.tenant AND examples = 0;
END;

-- `worth` is a logarithm referred to 1970 (store/accounting.py): 2.92668e-5 is -ln(0.9) / 3600.
INSERT INTO example_accounts
SELECT id, tenant, 'observed', '', 0, 0, 0, 0.0, created_at_s, 0, uses, last_used_at_s,
       uses, coalesce(last_used_at_s, created_at_s), 0.0, created_at_s, 0.0, 0, 0.0, 0.0
FROM examples;
UPDATE example_accounts SET size_bytes = (
    SELECT length(CAST(question AS BLOB)) + length(CAST(answer AS BLOB)) + length(CAST(embedded_text AS BLOB))
           + coalesce(length(vector), 0) + 1024
    FROM examples WHERE examples.id = example_accounts.id
);
UPDATE example_accounts SET worth = ln(uses + 1.0) - ln(2.0) + 2.9266809904951746e-5 * used_at_s;
UPDATE example_accounts SET worth_per_byte = worth - ln(size_bytes);
ALTER TABLE examples DROP COLUMN uses;
ALTER TABLE examples DROP COLUMN last_used_at_s;

-- Requests whose pair was merged into an example that another request made: so that a retry is not counted twice.
CREATE TABLE merged_requests (
    tenant TEXT NOT NULL,
    request_id TEXT NOT NULL,
    example_id INTEGER NOT NULL REFERENCES examples (id) ON DELETE CASCADE,
    merged_at_s REAL NOT NULL,
    PRIMARY KEY (tenant, request_id)
) WITHOUT ROWID;
CREATE INDEX merged_requests_by_example ON merged_requests (example_id);
CREATE INDEX merged_requests_by_age ON merged_requests (merged_at_s);

-- Looking for what has to be embedded anew must not read every text.
DROP INDEX examples_by_vector;
CREATE INDEX examples_waiting ON examples (id) WHERE vector IS NULL;
CREATE INDEX examples_by_version ON examples (embedding_version, id);

-- Removals are dropped from the log when they are old; who has not followed that far reads the tenant anew.
ALTER TABLE removed_examples ADD COLUMN removed_at_s REAL NOT NULL DEFAULT 0;
-- Removed because somebody wanted it gone: its vector has to leave every file, too.
ALTER TABLE removed_examples ADD COLUMN erase INTEGER NOT NULL DEFAULT 0;
CREATE TABLE dropped_removals (
    tenant TEXT PRIMARY KEY,
    up_to_seq INTEGER NOT NULL
) WITHOUT ROWID;
