-- Where examples stand on the map of their tenant's bank: two numbers each, made now and then, gone with the example.
CREATE TABLE example_places (
    example_id INTEGER PRIMARY KEY REFERENCES examples (id) ON DELETE CASCADE,
    tenant TEXT NOT NULL,
    x REAL NOT NULL,
    y REAL NOT NULL,
    made_at_s REAL NOT NULL
);
CREATE INDEX example_places_by_tenant ON example_places (tenant, example_id);
