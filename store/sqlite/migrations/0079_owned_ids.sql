-- Whose the ids are that engines gave to what they store. By an HMAC: nobody learns an id from this table.
CREATE TABLE owned_ids (
    id_digest TEXT NOT NULL,
    tenant TEXT NOT NULL,
    -- Empty: the whole tenant's.
    end_user TEXT NOT NULL,
    kind TEXT NOT NULL,
    key_id TEXT NOT NULL,
    engine TEXT NOT NULL,
    replica TEXT NOT NULL,
    at_s REAL NOT NULL,
    PRIMARY KEY (id_digest, tenant, end_user)
);
CREATE INDEX owned_ids_by_tenant ON owned_ids (tenant, end_user);
CREATE INDEX owned_ids_by_time ON owned_ids (at_s);
