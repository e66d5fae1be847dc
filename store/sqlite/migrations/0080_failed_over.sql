-- An answer by another engine than was decided on: which one that was and how it failed, and who else was asked.
ALTER TABLE requests ADD COLUMN failed_over TEXT NOT NULL DEFAULT '';
ALTER TABLE requests ADD COLUMN trail TEXT NOT NULL DEFAULT '';
