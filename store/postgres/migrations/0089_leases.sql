-- Who does what only one process does at a time: by the database's clock, on whatever machine it runs.

CREATE TABLE leases (
    name TEXT COLLATE "C" PRIMARY KEY,
    -- Which process, on which machine.
    holder TEXT COLLATE "C" NOT NULL,
    -- Grows with every holder: what one writes under an earlier epoch is refused.
    epoch BIGINT NOT NULL,
    -- Seconds since 1970; in the past once it was let go.
    until_s DOUBLE PRECISION NOT NULL
);

-- The database's clock; SQLite's connections have a function of this name.
CREATE FUNCTION now_s() RETURNS double precision LANGUAGE sql VOLATILE PARALLEL SAFE
    AS $$ SELECT extract(epoch FROM clock_timestamp())::double precision $$;
