-- How far each imported file was read, so that an import that was killed goes on where it was. Holds nothing of any line.
CREATE TABLE imports (
    file_sha256 TEXT NOT NULL,
    tenant TEXT NOT NULL,
    lines_done INTEGER NOT NULL,
    changed_at_s REAL NOT NULL,
    PRIMARY KEY (file_sha256, tenant)
) WITHOUT ROWID;
