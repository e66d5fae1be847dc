-- How often asking an engine failed, by kind, in ten minutes: what workers counted outlives them. Holds no content.

CREATE TABLE engine_errors (
    engine TEXT COLLATE "C" NOT NULL,
    start_s BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    errors BIGINT NOT NULL,
    PRIMARY KEY (engine, start_s, kind)
);
