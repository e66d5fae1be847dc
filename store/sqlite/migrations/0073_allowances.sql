-- What keys, tenants and end users have spent of their limits in a window, and what workers hold of the rest to hand out without
-- asking here. Integers only: nanodollars, tokens, requests. Holds no content.
CREATE TABLE allowances (
    scope TEXT NOT NULL,
    kind TEXT NOT NULL,
    start_s INTEGER NOT NULL,
    ends_s REAL NOT NULL,
    spent INTEGER NOT NULL CHECK (spent >= 0),
    -- Of what was spent: what nobody counted, such as the answer of a client that left.
    estimated INTEGER NOT NULL CHECK (estimated >= 0),
    -- What workers hold and have not booked as spent: the sum over allowance_leases.
    leased INTEGER NOT NULL CHECK (leased >= 0),
    -- Until then whoever holds more than it needs is to give it back.
    wanted_until_s REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (scope, kind, start_s)
);
CREATE INDEX allowances_by_end ON allowances (ends_s);
CREATE INDEX allowances_wanted ON allowances (wanted_until_s) WHERE wanted_until_s > 0;

-- Workers that hold something.
CREATE TABLE allowance_workers (
    id TEXT PRIMARY KEY,
    -- Of the machine since it was started: elsewhere, or after a power cut, a worker's journal cannot be trusted.
    boot_id TEXT NOT NULL,
    until_s REAL NOT NULL
);

-- What a worker was granted in all, and what of it is booked as spent. Its slot in the worker's journal says how much is reserved.
CREATE TABLE allowance_leases (
    worker TEXT NOT NULL REFERENCES allowance_workers (id) ON DELETE CASCADE,
    scope TEXT NOT NULL,
    kind TEXT NOT NULL,
    start_s INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    granted INTEGER NOT NULL,
    settled INTEGER NOT NULL,
    PRIMARY KEY (worker, scope, kind, start_s)
);
