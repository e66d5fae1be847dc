-- Who embeds what, where several processes embed: a claim that ran out is nobody's.

CREATE TABLE embedding_claims (
    example_id BIGINT NOT NULL REFERENCES examples (id) ON DELETE CASCADE,
    -- Of its question, or of its answer.
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('question', 'answer')),
    until_s DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (example_id, kind)
);
