-- A tenant's routing settings are rows of those of everybody, claims of the embedders are leases, and two tables that nobody
-- reads go.

ALTER TABLE dials ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
INSERT INTO dials (tenant, model, at_s, user, preference, theta, m, max_examples, taken_back_at_s, taken_back_by)
    SELECT tenant, model, at_s, user, preference, theta, m, max_examples, taken_back_at_s, taken_back_by
    FROM tenant_dials ORDER BY id;
DROP TABLE tenant_dials;
DROP INDEX dials_in_force;
CREATE INDEX dials_in_force ON dials (model, tenant, id) WHERE taken_back_at_s IS NULL;
CREATE INDEX dials_of_tenant ON dials (tenant) WHERE tenant <> '';

DROP TABLE embedding_claims;
DROP TABLE webhook_owner;
DROP TRIGGER semantic_aliases_go_with_texts;
DROP TRIGGER semantic_aliases_go_with_entry;
DROP TABLE semantic_aliases;
