-- What was paid off-peak outside any run of replay: near misses judged, prefixes warmed, private examples written. It stands in
-- the same report of costs as replay's runs, under its own purposes; holds no text.
CREATE TABLE replay_side_costs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    engine TEXT NOT NULL,
    purpose TEXT NOT NULL,
    cost_usd REAL NOT NULL,
    tokens INTEGER NOT NULL,
    asked_at_s REAL NOT NULL
);
CREATE INDEX replay_side_costs_by_time ON replay_side_costs (asked_at_s);
CREATE INDEX replay_side_costs_by_tenant ON replay_side_costs (tenant);
