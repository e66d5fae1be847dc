-- What a request is found by beside its id, and why it failed, in a word.
ALTER TABLE requests ADD COLUMN completion_id TEXT COLLATE "C" NOT NULL DEFAULT '';
-- A digest of the conversation that it belongs to.
ALTER TABLE requests ADD COLUMN session TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE requests ADD COLUMN error_kind TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE requests ADD COLUMN finish_reason TEXT COLLATE "C" NOT NULL DEFAULT '';
-- Why no text of it is kept; empty where there is one, and for rows from before this column.
ALTER TABLE requests ADD COLUMN no_text TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX requests_by_completion ON requests (completion_id) WHERE completion_id <> '';
CREATE INDEX requests_by_session ON requests (session, started_at_s) WHERE session <> '';
CREATE INDEX requests_by_user ON requests (end_user, started_at_s) WHERE end_user <> '';
-- What SQLite has under this name.
CREATE OR REPLACE FUNCTION substr(text, bigint, bigint) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT substr($1, $2::integer, $3::integer) $$;
