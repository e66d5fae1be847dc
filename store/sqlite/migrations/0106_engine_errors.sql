-- How often asking an engine failed, by kind, in ten minutes: what workers counted outlives them. Holds no content.

CREATE TABLE engine_errors (
    engine TEXT NOT NULL,
    start_s INTEGER NOT NULL,
    kind TEXT NOT NULL,
    errors INTEGER NOT NULL,
    PRIMARY KEY (engine, start_s, kind)
) WITHOUT ROWID;
