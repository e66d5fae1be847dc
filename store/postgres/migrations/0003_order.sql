-- Sums that triggers keep: a row per connection instead of one, which every writer would wait for until the other's commit.
-- Their sum is what SQLite's one row says.
ALTER TABLE exact_size DROP CONSTRAINT exact_size_only_row_check;
ALTER TABLE request_texts_size DROP CONSTRAINT request_texts_size_only_row_check;

CREATE OR REPLACE FUNCTION exact_answers_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO exact_size VALUES (pg_backend_pid() % 256, NEW.size_bytes - OLD.size_bytes)
        ON CONFLICT (only_row) DO UPDATE SET total_bytes = exact_size.total_bytes + excluded.total_bytes;
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION exact_answers_grow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO exact_size VALUES (pg_backend_pid() % 256, NEW.size_bytes)
        ON CONFLICT (only_row) DO UPDATE SET total_bytes = exact_size.total_bytes + excluded.total_bytes;
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION exact_answers_shrink() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO exact_size VALUES (pg_backend_pid() % 256, -OLD.size_bytes)
        ON CONFLICT (only_row) DO UPDATE SET total_bytes = exact_size.total_bytes + excluded.total_bytes;
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION request_texts_grow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO request_texts_size VALUES (pg_backend_pid() % 256, NEW.size_bytes)
        ON CONFLICT (only_row) DO UPDATE SET total_bytes = request_texts_size.total_bytes + excluded.total_bytes;
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION request_texts_shrink() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO request_texts_size VALUES (pg_backend_pid() % 256, -OLD.size_bytes)
        ON CONFLICT (only_row) DO UPDATE SET total_bytes = request_texts_size.total_bytes + excluded.total_bytes;
    RETURN NULL;
END $$;
-- Rows that are updated all the time keep their place: a version of a row that leaves its page is found by an index anew.
ALTER TABLE exact_size SET (fillfactor = 20);
ALTER TABLE request_texts_size SET (fillfactor = 20);
ALTER TABLE example_sequence SET (fillfactor = 20);
ALTER TABLE generations SET (fillfactor = 20);
