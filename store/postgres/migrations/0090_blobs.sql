-- Files that every replica needs, in pieces of at most 1 MiB: versions of what was learnt, snapshots of indexes. Who names a
-- blob keeps its checksum.
CREATE TABLE blobs (
    name TEXT COLLATE "C" NOT NULL,
    part BIGINT NOT NULL,
    bytes BYTEA NOT NULL CHECK (length(bytes) <= 1048576),
    at_s DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (name, part)
);
-- Vectors and trained models do not get smaller: trying costs more than it saves.
ALTER TABLE blobs ALTER COLUMN bytes SET STORAGE EXTERNAL;
