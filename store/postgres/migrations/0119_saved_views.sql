-- Filters of the list of requests that an operator gave a name. An end user stands in them by their digest.

CREATE TABLE saved_views (
    name TEXT COLLATE "C" PRIMARY KEY,
    filters TEXT COLLATE "C" NOT NULL,
    saved_at_s DOUBLE PRECISION NOT NULL,
    saved_by TEXT COLLATE "C" NOT NULL
);
