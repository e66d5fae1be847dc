-- Files that every replica needs, in pieces of at most 1 MiB: versions of what was learnt, snapshots of indexes. Here they
-- stay empty: with SQLite these are files of the data folder. Who names a blob keeps its checksum.
CREATE TABLE blobs (
    name TEXT NOT NULL,
    part INTEGER NOT NULL,
    bytes BLOB NOT NULL CHECK (length(bytes) <= 1048576),
    at_s REAL NOT NULL,
    PRIMARY KEY (name, part)
) WITHOUT ROWID;
