-- Whose a run and a variable are where each end user has a memory of their own: nobody else reads them by their ids.

ALTER TABLE workflow_runs ADD COLUMN end_user TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE variables ADD COLUMN end_user TEXT COLLATE "C" NOT NULL DEFAULT '';
UPDATE workflow_runs SET end_user = split_part(app, '/', 1) WHERE app LIKE '%/%';
UPDATE variables SET end_user = split_part(app, '/', 1) WHERE app LIKE '%/%';
