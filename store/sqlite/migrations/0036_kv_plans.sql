-- Which examples' prefixes each engine is to keep warm, and in which order they are to stand in prompts. Derived from the log of
-- requests, made anew every few minutes; holds no text.
CREATE TABLE kv_plan_examples (
    engine TEXT NOT NULL,
    example_id INTEGER NOT NULL REFERENCES examples (id) ON DELETE CASCADE,
    tenant TEXT NOT NULL,
    -- 0 stands first.
    place INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    uses REAL NOT NULL,
    saves_ms REAL NOT NULL,
    PRIMARY KEY (engine, example_id)
) WITHOUT ROWID;
CREATE INDEX kv_plan_examples_by_example ON kv_plan_examples (example_id);
CREATE TABLE kv_plans (
    engine TEXT PRIMARY KEY,
    planned_at_s REAL NOT NULL,
    -- JSON: the lines it rests on, how much fits, what it saves.
    figures TEXT NOT NULL,
    warmed INTEGER NOT NULL DEFAULT 0,
    warmed_tokens INTEGER NOT NULL DEFAULT 0,
    warmed_cached_tokens INTEGER NOT NULL DEFAULT 0,
    warmed_usd REAL NOT NULL DEFAULT 0
) WITHOUT ROWID;
INSERT INTO generations (name, value) VALUES ('kv_plans', 0);
