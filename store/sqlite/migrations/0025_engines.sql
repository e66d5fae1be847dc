-- What real engines tell of a request: how much of its prompt they had cached, and who carried on an answer that broke off.
ALTER TABLE requests ADD COLUMN cached_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE requests ADD COLUMN continued TEXT NOT NULL DEFAULT '';
