-- What operators are told of: what was noticed, so that each crossing is told once, and the messages that are to be delivered.

CREATE TABLE webhook_states (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    at_s REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE webhook_messages (
    id TEXT PRIMARY KEY,
    -- A digest of its URL.
    endpoint TEXT NOT NULL,
    event TEXT NOT NULL,
    body TEXT NOT NULL,
    made_at_s REAL NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('due', 'delivered', 'given_up')),
    tries INTEGER NOT NULL,
    due_at_s REAL NOT NULL,
    -- What became of the latest try: a status, or a word; never what the receiver said.
    result TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX webhook_messages_due ON webhook_messages (due_at_s) WHERE state = 'due';
CREATE INDEX webhook_messages_by_time ON webhook_messages (made_at_s);

-- Which process delivers, and until when nobody else does.
CREATE TABLE webhook_owner (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    owner TEXT NOT NULL,
    until_s REAL NOT NULL
);
