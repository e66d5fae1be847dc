-- What each worker says of its capacity and of what it sheds.

ALTER TABLE worker_loads ADD COLUMN core_share DOUBLE PRECISION NOT NULL DEFAULT 0;
-- Requests a second; 0: not known yet.
ALTER TABLE worker_loads ADD COLUMN capacity_per_s DOUBLE PRECISION NOT NULL DEFAULT 0;
-- How many kinds of work are left out now, and a JSON list of how many pieces of each were.
ALTER TABLE worker_loads ADD COLUMN shed_level BIGINT NOT NULL DEFAULT 0;
ALTER TABLE worker_loads ADD COLUMN shed TEXT COLLATE "C" NOT NULL DEFAULT '[]';
