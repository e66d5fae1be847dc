-- Whether a replay's process lives is told by its lease alone.

ALTER TABLE replay_runs DROP COLUMN heartbeat_at_s;
