-- Under which instructions examples were asked, so that they can be asked again: one row per scope of a tenant.
CREATE TABLE example_instructions (
    tenant TEXT NOT NULL,
    scope TEXT NOT NULL,
    -- JSON: [texts of system messages, response format].
    instructions TEXT NOT NULL,
    PRIMARY KEY (tenant, scope)
) WITHOUT ROWID;
CREATE INDEX examples_by_scope ON examples (tenant, scope);
-- It was said by whoever has an example under it, and goes with the last of them.
CREATE TRIGGER example_instructions_go_with_examples AFTER DELETE ON examples BEGIN
    DELETE FROM example_instructions WHERE tenant = OLD.tenant AND scope = OLD.scope
        AND NOT EXISTS (SELECT 1 FROM examples WHERE tenant = OLD.tenant AND scope = OLD.scope);
END;
