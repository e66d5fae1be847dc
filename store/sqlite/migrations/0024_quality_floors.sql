-- What the quality floor's account of a tenant's served model has come to. Derived: it follows from `choices` and `outcomes`
-- up to the two places named here, and is kept so that it survives their being trimmed and need not be computed anew.
CREATE TABLE quality_floors (
    tenant TEXT NOT NULL,
    model TEXT NOT NULL,
    at_s REAL NOT NULL,
    cap REAL NOT NULL CHECK (cap BETWEEN 0 AND 1),
    standing TEXT NOT NULL CHECK (standing IN ('holds', 'limiting', 'threatened')),
    last_choice INTEGER NOT NULL,
    last_outcome INTEGER NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (tenant, model)
) WITHOUT ROWID;
