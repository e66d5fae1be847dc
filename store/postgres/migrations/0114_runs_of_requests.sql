-- The run and the step that a request was of. A call of a workflow names its run and no step: its tokens are those of the run's
-- steps, which have rows of their own, and count in no sum.

ALTER TABLE requests ADD COLUMN run TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE requests ADD COLUMN step TEXT COLLATE "C" NOT NULL DEFAULT '';
