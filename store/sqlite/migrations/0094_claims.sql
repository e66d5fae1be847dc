-- Who embeds what, where several processes embed: a claim that ran out is nobody's.

CREATE TABLE embedding_claims (
    example_id INTEGER NOT NULL REFERENCES examples (id) ON DELETE CASCADE,
    -- Of its question, or of its answer.
    kind TEXT NOT NULL CHECK (kind IN ('question', 'answer')),
    until_s REAL NOT NULL,
    PRIMARY KEY (example_id, kind)
) WITHOUT ROWID;
