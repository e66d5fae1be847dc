-- Who is asked for a drained engine where no other engine of the model answers; empty: nobody.

ALTER TABLE drained_engines ADD COLUMN stand_in TEXT COLLATE "C" NOT NULL DEFAULT '';
