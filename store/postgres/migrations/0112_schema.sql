-- The schema of PostgreSQL, at the number in this file's name. store/sqlite/migrations has the same tables for SQLite.
-- A database that has this number is as this file says: a change is a new file beside it, with the next number, in both folders.
-- ==== functions ====

-- The database's clock; SQLite's connections have a function of this name.
CREATE FUNCTION now_s() RETURNS double precision LANGUAGE sql VOLATILE PARALLEL SAFE
    AS $$ SELECT extract(epoch FROM clock_timestamp())::double precision $$;

-- What SQLite has under these names.
CREATE FUNCTION json_each(list text) RETURNS TABLE (value text) LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT * FROM jsonb_array_elements_text(replace(list, '\u0000', '\ufffd')::jsonb) $$;
CREATE FUNCTION json_extract(object text, path text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT jsonb_path_query_first(replace(object, '\u0000', '\ufffd')::jsonb, path::jsonpath) #>> '{}' $$;
CREATE FUNCTION json_remove(object text, VARIADIC paths text[]) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT (replace(object, '\u0000', '\ufffd')::jsonb
        - (SELECT array_agg(substr(path, 3)) FROM unnest(paths) path))::text $$;
CREATE FUNCTION as_integer(double precision) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT trunc($1)::bigint $$;
CREATE FUNCTION as_integer(text) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT $1::bigint $$;
CREATE FUNCTION instr(text, text) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT strpos($1, $2)::bigint $$;
CREATE FUNCTION substr(text, bigint) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT substr($1, $2::integer) $$;
CREATE FUNCTION substr(text, bigint, bigint) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT substr($1, $2::integer, $3::integer) $$;
CREATE FUNCTION max(double precision, double precision) RETURNS double precision LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT greatest($1, $2) $$;
CREATE FUNCTION max(bigint, bigint) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT greatest($1, $2) $$;
CREATE FUNCTION min(double precision, double precision) RETURNS double precision LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT least($1, $2) $$;
CREATE FUNCTION min(bigint, bigint) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ SELECT least($1, $2) $$;

-- Search by words. What a row's words are is computed here, by one function for what is kept and for what is looked for, so
-- that whoever writes a row, a copy or a restored dump included, writes its words. Words are what stands between characters
-- that are neither letters nor digits, in lower case, without accents: as SQLite's `unicode61 remove_diacritics 2` has it.

-- Lower case of other than ASCII needs a collation that knows it: the first there is of those that depend on the server alone,
-- then the system's. Where there is none, all other characters count as letters and keep their case.
DO $$
DECLARE
    name text;
    known boolean := false;
BEGIN
    FOREACH name IN ARRAY ARRAY['pg_c_utf8', 'und-x-icu', 'C.utf8', 'en_US.utf8', 'default'] LOOP
        BEGIN
            EXECUTE format('SELECT lower(''Ж'' COLLATE %I) = ''ж'' AND ''ж'' COLLATE %I ~ ''[[:alnum:]]''', name, name) INTO known;
        EXCEPTION WHEN OTHERS THEN
            known := false;
        END;
        EXIT WHEN known;
    END LOOP;
    EXECUTE format(
        'CREATE FUNCTION plain_words(said text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN CASE'
        ' WHEN octet_length(said) = length(said) THEN btrim(regexp_replace(lower(said COLLATE %1$I), ''[^a-z0-9]+'', '' '', ''g''))'
        ' ELSE btrim(regexp_replace(lower(regexp_replace(normalize(said, NFD), ''[\u0300-\u036f]+'', '''', ''g'') COLLATE %1$I),'
        ' %2$L, '' '', ''g'')) END',
        CASE WHEN known THEN name ELSE 'C' END,
        CASE WHEN known THEN '[^[:alnum:]]+' ELSE '[\u0001-/:-`{-\u00bf]+' END
    );
END $$;

-- A tsvector holds 1 MB; 400,000 bytes of words never become more. What comes after them is not searched, nor is a word of
-- over 2,000 bytes. Of a word up to 256 places are kept.
CREATE FUNCTION words_vector(plain text) RETURNS tsvector LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (
        SELECT coalesce(string_agg(word || ':' || least(place, 16383), ' '), '')::tsvector
        FROM unnest(string_to_array(left(plain, CASE WHEN octet_length(plain) <= 400000 THEN 400000 ELSE 100000 END), ' '))
            WITH ORDINALITY AS found (word, place)
        WHERE octet_length(word) BETWEEN 1 AND 2000
    );
CREATE FUNCTION words_of(said text) RETURNS tsvector LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN words_vector(plain_words(said));
CREATE FUNCTION count_words(said text) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN cardinality(string_to_array(plain_words(said), ' '));
-- What looks for some words one after the other, the last one as a beginning if so said. Empty, which nothing matches, for none.
CREATE FUNCTION words_asked(said text, beginning boolean) RETURNS tsquery LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (
        SELECT CASE WHEN plain = '' THEN ''
            ELSE '''' || replace(plain, ' ', ''' <-> ''') || '''' || CASE WHEN beginning THEN ':*' ELSE '' END END
        FROM (SELECT plain_words(said) AS plain) folded
    )::tsquery;

-- ==== the database ====

-- One row: which database this is, so that a derived file made from another one is never believed.
CREATE TABLE installation (
    only_row BIGINT PRIMARY KEY CHECK (only_row = 1),
    database_id TEXT COLLATE "C" NOT NULL
);
INSERT INTO installation VALUES (1, replace(gen_random_uuid()::text, '-', ''));

-- Counters that workers compare with what they saw last.
CREATE TABLE generations (
    name TEXT COLLATE "C" PRIMARY KEY,
    value BIGINT NOT NULL
) WITH (fillfactor = 20);
INSERT INTO generations (name, value) VALUES
    ('artifacts', 0), ('dials', 0), ('drained_engines', 0), ('exact_answers', 0), ('keys', 0), ('kv_plans', 0), ('tasks', 0);

-- Who does what only one process does at a time: by the database's clock, on whatever machine it runs.
CREATE TABLE leases (
    name TEXT COLLATE "C" PRIMARY KEY,
    -- Which process, on which machine.
    holder TEXT COLLATE "C" NOT NULL,
    -- Grows with every holder: what one writes under an earlier epoch is refused.
    epoch BIGINT NOT NULL,
    -- Seconds since 1970; in the past once it was let go.
    until_s DOUBLE PRECISION NOT NULL
);

-- Files that every replica needs, in pieces of at most 1 MiB: versions of what was learnt, snapshots of indexes. Who names a
-- blob keeps its checksum.
CREATE TABLE blobs (
    name TEXT COLLATE "C" NOT NULL,
    part BIGINT NOT NULL,
    bytes BYTEA NOT NULL CHECK (length(bytes) <= 1048576),
    at_s DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (name, part)
);
-- Vectors and trained models do not get smaller: trying costs more than it saves.
ALTER TABLE blobs ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- ==== people: tenants, keys, operators ====

-- What a tenant may use: its limits and retention are JSON objects as store/people reads them.
CREATE TABLE tenants (
    id TEXT COLLATE "C" PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL,
    created_at_s DOUBLE PRECISION NOT NULL,
    limits TEXT COLLATE "C" NOT NULL,
    each_user TEXT COLLATE "C" NOT NULL,
    expires_at_s DOUBLE PRECISION,
    memory_partition TEXT COLLATE "C",
    users_required BIGINT,
    region TEXT COLLATE "C" NOT NULL,
    -- JSON object: days by what is kept.
    retention TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    closed_at_s DOUBLE PRECISION
);

-- Tenants that were deleted. A row goes when a key or a record of that name is made anew.
CREATE TABLE deleted_tenants (
    id TEXT COLLATE "C" PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL,
    deleted_at_s DOUBLE PRECISION NOT NULL
);

-- Keys of clients. Limits are JSON objects as store/people reads them.
CREATE TABLE api_keys (
    id TEXT COLLATE "C" PRIMARY KEY,
    secret_hmac TEXT COLLATE "C" NOT NULL UNIQUE,
    prefix TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    tenant_name TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    created_at_s DOUBLE PRECISION NOT NULL,
    revoked_at_s DOUBLE PRECISION,
    limits TEXT COLLATE "C" NOT NULL DEFAULT '{}',
    each_user TEXT COLLATE "C" NOT NULL DEFAULT '{}',
    expires_at_s DOUBLE PRECISION,
    memory_partition TEXT COLLATE "C",
    -- 0, 1 or NULL.
    users_required BIGINT,
    source TEXT COLLATE "C" NOT NULL DEFAULT 'cli'
);

-- Secrets that a key had before it was rotated, while they are still taken.
CREATE TABLE older_secrets (
    secret_hmac TEXT COLLATE "C" PRIMARY KEY,
    key_id TEXT COLLATE "C" NOT NULL,
    until_s DOUBLE PRECISION NOT NULL
);
CREATE INDEX older_secrets_by_key ON older_secrets (key_id);

-- Who may use the admin pages.
CREATE TABLE admin_users (
    name TEXT COLLATE "C" PRIMARY KEY,
    role TEXT COLLATE "C" NOT NULL CHECK (role IN ('viewer', 'viewer-content', 'operator')),
    password_hash TEXT COLLATE "C" NOT NULL,
    created_at_s DOUBLE PRECISION NOT NULL,
    changed_at_s DOUBLE PRECISION NOT NULL
);

-- Who is signed in. Only a keyed hash of the cookie is kept: whoever reads the database can sign in as nobody.
CREATE TABLE admin_sessions (
    id_hash TEXT COLLATE "C" PRIMARY KEY,
    user_name TEXT COLLATE "C" NOT NULL REFERENCES admin_users (name) ON DELETE CASCADE,
    created_at_s DOUBLE PRECISION NOT NULL,
    seen_at_s DOUBLE PRECISION NOT NULL
);
CREATE INDEX admin_sessions_by_user ON admin_sessions (user_name);

-- Who may use the admin API.
CREATE TABLE admin_tokens (
    id TEXT COLLATE "C" PRIMARY KEY,
    secret_hmac TEXT COLLATE "C" NOT NULL UNIQUE,
    name TEXT COLLATE "C" NOT NULL,
    role TEXT COLLATE "C" NOT NULL,
    prefix TEXT COLLATE "C" NOT NULL,
    created_at_s DOUBLE PRECISION NOT NULL,
    expires_at_s DOUBLE PRECISION,
    revoked_at_s DOUBLE PRECISION
);

-- What operators did. Rows are added and dropped when old, never changed. Holds no content and no secret.
CREATE TABLE audit_log (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    at_s DOUBLE PRECISION NOT NULL,
    user_name TEXT COLLATE "C" NOT NULL,
    action TEXT COLLATE "C" NOT NULL,
    target TEXT COLLATE "C" NOT NULL,
    outcome TEXT COLLATE "C" NOT NULL CHECK (outcome IN ('done', 'failed', 'refused')),
    address TEXT COLLATE "C" NOT NULL,
    detail TEXT COLLATE "C" NOT NULL
);
CREATE INDEX audit_log_by_age ON audit_log (at_s);
CREATE INDEX audit_log_by_user ON audit_log (user_name, id);

-- ==== limits ====

-- What keys, tenants and end users have spent of their limits in a window, and what workers hold of the rest to hand out
-- without asking here. Integers only: nanodollars, tokens, requests. Holds no content.
CREATE TABLE allowances (
    scope TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    start_s BIGINT NOT NULL,
    ends_s DOUBLE PRECISION NOT NULL,
    spent BIGINT NOT NULL CHECK (spent >= 0),
    -- Of what was spent: what nobody counted, such as the answer of a client that left.
    estimated BIGINT NOT NULL CHECK (estimated >= 0),
    -- What workers hold and have not booked as spent: the sum over allowance_leases.
    leased BIGINT NOT NULL CHECK (leased >= 0),
    -- Until then whoever holds more than it needs is to give it back.
    wanted_until_s DOUBLE PRECISION NOT NULL DEFAULT 0,
    PRIMARY KEY (scope, kind, start_s)
);
CREATE INDEX allowances_by_end ON allowances (ends_s);
CREATE INDEX allowances_wanted ON allowances (wanted_until_s) WHERE wanted_until_s > 0;

-- Workers that hold something.
CREATE TABLE allowance_workers (
    id TEXT COLLATE "C" PRIMARY KEY,
    -- Of the machine since it was started: elsewhere, or after a power cut, a worker's journal cannot be trusted.
    boot_id TEXT COLLATE "C" NOT NULL,
    until_s DOUBLE PRECISION NOT NULL
);

-- What a worker was granted in all, and what of it is booked as spent. Its slot in the worker's journal says how much is
-- reserved.
CREATE TABLE allowance_leases (
    worker TEXT COLLATE "C" NOT NULL REFERENCES allowance_workers (id) ON DELETE CASCADE,
    scope TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    start_s BIGINT NOT NULL,
    slot BIGINT NOT NULL,
    granted BIGINT NOT NULL,
    settled BIGINT NOT NULL,
    PRIMARY KEY (worker, scope, kind, start_s)
);

-- ==== examples ====

-- The last place given out in the log of examples. A place is never used twice.
CREATE TABLE example_sequence (
    only_row BIGINT PRIMARY KEY CHECK (only_row = 1),
    last_seq BIGINT NOT NULL
) WITH (fillfactor = 20);
INSERT INTO example_sequence (only_row, last_seq) VALUES (1, 0);

-- Past requests with their answers. The vector stands before the texts: a scan for vectors then never walks a long text's
-- overflow pages.
CREATE TABLE examples (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    seq BIGINT NOT NULL UNIQUE,
    tenant TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    source_engine TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    created_at_s DOUBLE PRECISION NOT NULL,
    prompt_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    embedding_version TEXT COLLATE "C" NOT NULL,
    vector BYTEA,
    question TEXT COLLATE "C" NOT NULL,
    answer TEXT COLLATE "C" NOT NULL,
    embedded_text TEXT COLLATE "C" NOT NULL,
    question_words tsvector GENERATED ALWAYS AS (words_of(question)) STORED,
    words tsvector GENERATED ALWAYS AS (words_of(question || ' ' || answer)) STORED,
    word_count bigint
        GENERATED ALWAYS AS (count_words(tenant || ' ' || scope || ' ' || question || ' ' || answer)) STORED
);
CREATE UNIQUE INDEX examples_by_request ON examples (tenant, request_id) WHERE request_id <> '';
CREATE INDEX examples_by_tenant ON examples (tenant, seq);
CREATE INDEX examples_waiting ON examples (id) WHERE vector IS NULL;
CREATE INDEX examples_by_version ON examples (embedding_version, id);
CREATE INDEX examples_by_scope ON examples (tenant, scope);
CREATE INDEX examples_by_question_words ON examples USING gin (question_words);
CREATE INDEX examples_by_words ON examples USING gin (words);
CREATE FUNCTION semantic_entries_go_with_example() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM semantic_entries WHERE example_id = OLD.id;
    RETURN NULL;
END $$;
CREATE TRIGGER semantic_entries_go_with_example AFTER DELETE ON examples FOR EACH ROW
    EXECUTE FUNCTION semantic_entries_go_with_example();
CREATE FUNCTION semantic_entries_go_with_texts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM semantic_entries WHERE example_id = OLD.id;
    RETURN NULL;
END $$;
CREATE TRIGGER semantic_entries_go_with_texts AFTER UPDATE OF question, answer ON examples FOR EACH ROW
    WHEN (NEW.question IS DISTINCT FROM OLD.question OR NEW.answer IS DISTINCT FROM OLD.answer)
    EXECUTE FUNCTION semantic_entries_go_with_texts();
CREATE FUNCTION answer_vectors_wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO answer_vectors (example_id) VALUES (NEW.id);
    RETURN NULL;
END $$;
CREATE TRIGGER answer_vectors_wait AFTER INSERT ON examples FOR EACH ROW
    EXECUTE FUNCTION answer_vectors_wait();
CREATE FUNCTION answer_vectors_go_with_answer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE answer_vectors SET version = '', vector = NULL WHERE example_id = OLD.id;
    RETURN NULL;
END $$;
CREATE TRIGGER answer_vectors_go_with_answer AFTER UPDATE OF answer ON examples FOR EACH ROW
    WHEN (NEW.answer IS DISTINCT FROM OLD.answer)
    EXECUTE FUNCTION answer_vectors_go_with_answer();
CREATE FUNCTION replay_texts_go_with_example() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE replay_asks SET text = '' WHERE text <> '' AND step_id IN
        (SELECT id FROM replay_steps WHERE example_id = OLD.id);
    RETURN NULL;
END $$;
CREATE TRIGGER replay_texts_go_with_example AFTER DELETE ON examples FOR EACH ROW
    EXECUTE FUNCTION replay_texts_go_with_example();
CREATE FUNCTION example_versions_go_with_texts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM example_versions WHERE example_id = OLD.id;
    RETURN NULL;
END $$;
CREATE TRIGGER example_versions_go_with_texts AFTER UPDATE OF question, request_id ON examples FOR EACH ROW
    WHEN (NEW.question IS DISTINCT FROM OLD.question OR NEW.request_id IS DISTINCT FROM OLD.request_id)
    EXECUTE FUNCTION example_versions_go_with_texts();
CREATE FUNCTION example_instructions_go_with_examples() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM example_instructions WHERE tenant = OLD.tenant AND scope = OLD.scope
        AND NOT EXISTS (SELECT 1 FROM examples WHERE tenant = OLD.tenant AND scope = OLD.scope);
    RETURN NULL;
END $$;
CREATE TRIGGER example_instructions_go_with_examples AFTER DELETE ON examples FOR EACH ROW
    EXECUTE FUNCTION example_instructions_go_with_examples();
CREATE FUNCTION semantic_aliases_go_with_texts() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM semantic_aliases WHERE example_id = OLD.id;
    RETURN NULL;
END $$;
CREATE TRIGGER semantic_aliases_go_with_texts AFTER UPDATE OF question, answer ON examples FOR EACH ROW
    WHEN (NEW.question IS DISTINCT FROM OLD.question OR NEW.answer IS DISTINCT FROM OLD.answer)
    EXECUTE FUNCTION semantic_aliases_go_with_texts();

-- What is left of an example that was removed: its place in the log, no text and no vector.
CREATE TABLE removed_examples (
    seq BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    example_id BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    removed_at_s DOUBLE PRECISION NOT NULL DEFAULT 0,
    -- Removed because somebody wanted it gone: its vector has to leave every file, too.
    erase BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX removed_examples_by_tenant ON removed_examples (tenant, seq);

-- Removals are dropped from the log when they are old; who has not followed that far reads the tenant anew.
CREATE TABLE dropped_removals (
    tenant TEXT COLLATE "C" PRIMARY KEY,
    up_to_seq BIGINT NOT NULL
);

-- What an example is worth, whose it is and how long it may stay. One narrow row per example: it is written anew on every
-- use, which must not rewrite the texts and the vector. `worth` is a logarithm referred to 1970 (store/examples/accounting.py).
CREATE TABLE example_accounts (
    id BIGINT PRIMARY KEY REFERENCES examples (id) ON DELETE CASCADE,
    tenant TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('observed', 'demonstration')),
    contributor TEXT COLLATE "C" NOT NULL,
    pinned BIGINT NOT NULL,
    flagged BIGINT NOT NULL,
    merged BIGINT NOT NULL,
    served_from_s DOUBLE PRECISION NOT NULL,
    seen_at_s DOUBLE PRECISION NOT NULL,
    size_bytes BIGINT NOT NULL,
    uses BIGINT NOT NULL,
    last_used_at_s DOUBLE PRECISION,
    used DOUBLE PRECISION NOT NULL,
    used_at_s DOUBLE PRECISION NOT NULL,
    gain DOUBLE PRECISION NOT NULL,
    gain_at_s DOUBLE PRECISION NOT NULL,
    quality_sum DOUBLE PRECISION NOT NULL,
    quality_count BIGINT NOT NULL,
    worth DOUBLE PRECISION NOT NULL,
    worth_per_byte DOUBLE PRECISION NOT NULL,
    -- What was noted of it before its answer was corrected, and is written only now, was of the old answer.
    corrected_at_s DOUBLE PRECISION NOT NULL DEFAULT 0
);
CREATE INDEX accounts_by_tenant ON example_accounts (tenant);
CREATE INDEX accounts_of_demonstrations ON example_accounts (tenant) WHERE kind = 'demonstration';
CREATE INDEX accounts_by_contributor ON example_accounts (tenant, contributor) WHERE contributor <> '';
CREATE INDEX accounts_by_worth ON example_accounts (tenant, worth)
    WHERE kind = 'observed' AND pinned = 0;
CREATE INDEX accounts_by_worth_per_byte ON example_accounts (tenant, worth_per_byte)
    WHERE kind = 'observed' AND pinned = 0;
CREATE INDEX accounts_by_gain ON example_accounts (tenant, gain, gain_at_s);
CREATE INDEX accounts_by_uses ON example_accounts (tenant, uses);
CREATE INDEX accounts_held_back ON example_accounts (tenant, id) WHERE served_from_s >= 4102444800.0;
CREATE FUNCTION accounts_grow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO example_totals (tenant, examples, size_bytes) VALUES (NEW.tenant, 1, NEW.size_bytes)
        ON CONFLICT (tenant) DO UPDATE SET examples = example_totals.examples + 1, size_bytes = example_totals.size_bytes + NEW.size_bytes;
    RETURN NULL;
END $$;
CREATE TRIGGER accounts_grow AFTER INSERT ON example_accounts FOR EACH ROW
    EXECUTE FUNCTION accounts_grow();
CREATE FUNCTION accounts_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE example_totals SET size_bytes = size_bytes - OLD.size_bytes + NEW.size_bytes WHERE tenant = NEW.tenant;
    RETURN NULL;
END $$;
CREATE TRIGGER accounts_change AFTER UPDATE OF size_bytes ON example_accounts FOR EACH ROW
    EXECUTE FUNCTION accounts_change();
CREATE FUNCTION accounts_shrink() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE example_totals SET examples = examples - 1, size_bytes = size_bytes - OLD.size_bytes
        WHERE tenant = OLD.tenant;
    DELETE FROM example_totals WHERE tenant = OLD.tenant AND examples = 0;
    RETURN NULL;
END $$;
CREATE TRIGGER accounts_shrink AFTER DELETE ON example_accounts FOR EACH ROW
    EXECUTE FUNCTION accounts_shrink();

-- What a tenant's examples come to. Triggers keep the sums, so that a cap costs no scan.
CREATE TABLE example_totals (
    tenant TEXT COLLATE "C" PRIMARY KEY,
    examples BIGINT NOT NULL,
    size_bytes BIGINT NOT NULL
);

-- Requests whose pair was merged into an example that another request made: a retry is not counted twice.
CREATE TABLE merged_requests (
    tenant TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    example_id BIGINT NOT NULL REFERENCES examples (id) ON DELETE CASCADE,
    merged_at_s DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (tenant, request_id)
);
CREATE INDEX merged_requests_by_example ON merged_requests (example_id);
CREATE INDEX merged_requests_by_age ON merged_requests (merged_at_s);

-- Answers that replay or a person replaced, so that it can be taken back.
CREATE TABLE example_versions (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    example_id BIGINT NOT NULL REFERENCES examples (id) ON DELETE CASCADE,
    run_id BIGINT NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    -- The answer as it was before.
    answer TEXT COLLATE "C" NOT NULL,
    source_engine TEXT COLLATE "C" NOT NULL,
    completion_tokens BIGINT NOT NULL,
    quality_sum DOUBLE PRECISION NOT NULL,
    quality_count BIGINT NOT NULL,
    -- Digest of the answer that took its place: what a person changed since is not taken back.
    replaced_by BYTEA NOT NULL
);
CREATE INDEX example_versions_by_example ON example_versions (example_id, id);
CREATE INDEX example_versions_by_run ON example_versions (run_id, id);
CREATE INDEX example_versions_by_tenant ON example_versions (tenant);
CREATE FUNCTION example_versions_are_counted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE example_accounts SET size_bytes = size_bytes + octet_length(NEW.answer) WHERE id = NEW.example_id;
    RETURN NULL;
END $$;
CREATE TRIGGER example_versions_are_counted AFTER INSERT ON example_versions FOR EACH ROW
    EXECUTE FUNCTION example_versions_are_counted();
CREATE FUNCTION example_versions_are_counted_off() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE example_accounts SET size_bytes = size_bytes - octet_length(OLD.answer) WHERE id = OLD.example_id;
    RETURN NULL;
END $$;
CREATE TRIGGER example_versions_are_counted_off AFTER DELETE ON example_versions FOR EACH ROW
    EXECUTE FUNCTION example_versions_are_counted_off();

-- Which example was written as a variation of which.
CREATE TABLE example_lineage (
    example_id BIGINT PRIMARY KEY REFERENCES examples (id) ON DELETE CASCADE,
    tenant TEXT COLLATE "C" NOT NULL,
    parent_id BIGINT NOT NULL,
    run_id BIGINT NOT NULL,
    generator TEXT COLLATE "C" NOT NULL,
    answer_digest BYTEA NOT NULL,
    at_s DOUBLE PRECISION NOT NULL
);
CREATE INDEX example_lineage_by_parent ON example_lineage (parent_id);
CREATE INDEX example_lineage_by_run ON example_lineage (run_id);

-- Under which instructions examples were asked, so that they can be asked again: one row per scope of a tenant. A row
-- goes with the last example under it.
CREATE TABLE example_instructions (
    tenant TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    -- JSON: [texts of system messages, response format].
    instructions TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, scope)
);

-- Where examples stand on the map of their tenant's bank: two numbers each, made now and then.
CREATE TABLE example_places (
    example_id BIGINT PRIMARY KEY REFERENCES examples (id) ON DELETE CASCADE,
    tenant TEXT COLLATE "C" NOT NULL,
    x DOUBLE PRECISION NOT NULL,
    y DOUBLE PRECISION NOT NULL,
    made_at_s DOUBLE PRECISION NOT NULL
);
CREATE INDEX example_places_by_tenant ON example_places (tenant, example_id);

-- Where an example's answer points, for who compares it with a request. Derived: made in the background, and made again at
-- need. One row per example, without a vector while it waits for one. They count against the tenant's cap.
CREATE TABLE answer_vectors (
    example_id BIGINT PRIMARY KEY REFERENCES examples (id) ON DELETE CASCADE,
    version TEXT COLLATE "C" NOT NULL DEFAULT '',
    vector BYTEA
);
CREATE INDEX answer_vectors_by_version ON answer_vectors (version, example_id);
CREATE FUNCTION answer_vectors_are_counted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE example_accounts
    SET size_bytes = size_bytes + coalesce(length(NEW.vector), 0) - coalesce(length(OLD.vector), 0)
    WHERE id = NEW.example_id;
    RETURN NULL;
END $$;
CREATE TRIGGER answer_vectors_are_counted AFTER UPDATE OF vector ON answer_vectors FOR EACH ROW
    WHEN (coalesce(length(NEW.vector), 0) <> coalesce(length(OLD.vector), 0))
    EXECUTE FUNCTION answer_vectors_are_counted();

-- Who embeds what, where several processes embed: a claim that ran out is nobody's.
CREATE TABLE embedding_claims (
    example_id BIGINT NOT NULL REFERENCES examples (id) ON DELETE CASCADE,
    -- Of its question, or of its answer.
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('question', 'answer')),
    until_s DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (example_id, kind)
);

-- How far each imported file was read, so that an import that was killed goes on where it was. Holds nothing of any line.
CREATE TABLE imports (
    file_sha256 TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    lines_done BIGINT NOT NULL,
    changed_at_s DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (file_sha256, tenant)
);

-- Tenants whose own pairs are never served: they are put aside, and only what was told of them with noise leads back to the
-- bank.
CREATE TABLE private_tenants (
    tenant TEXT COLLATE "C" PRIMARY KEY,
    since_s DOUBLE PRECISION NOT NULL
);

-- What was put aside: questions only. Nothing that serves, indexes, exports or shows reads this table.
CREATE TABLE private_questions (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    contributor TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    -- What `scope` is the fingerprint of; empty where it was not kept.
    instructions TEXT COLLATE "C" NOT NULL,
    question TEXT COLLATE "C" NOT NULL,
    at_s DOUBLE PRECISION NOT NULL
);
CREATE UNIQUE INDEX private_questions_by_request ON private_questions (tenant, request_id) WHERE request_id <> '';
CREATE INDEX private_questions_by_contributor ON private_questions (tenant, contributor);
CREATE INDEX private_questions_by_age ON private_questions (at_s);

-- What was told, and what that cost. Rows stay for ever: what was told cannot be taken back, not even by deleting the
-- tenant.
CREATE TABLE private_releases (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    rho DOUBLE PRECISION NOT NULL,
    slip DOUBLE PRECISION NOT NULL,
    -- JSON: how it was made (bounds, variance, threshold), and what was told ([[scope, cell, [words]], ...]).
    made TEXT COLLATE "C" NOT NULL,
    told TEXT COLLATE "C" NOT NULL
);
CREATE INDEX private_releases_by_tenant ON private_releases (tenant, id);

-- ==== requests, and what was decided and learnt of them ====

-- The log of requests. Holds no text.
CREATE TABLE requests (
    row_id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    tenant TEXT COLLATE "C" NOT NULL,
    started_at_s DOUBLE PRECISION NOT NULL,
    endpoint TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    outcome TEXT COLLATE "C" NOT NULL,
    status BIGINT NOT NULL,
    policy TEXT COLLATE "C" NOT NULL,
    policy_version TEXT COLLATE "C" NOT NULL,
    probability DOUBLE PRECISION NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    example_count BIGINT NOT NULL,
    example_ids TEXT COLLATE "C" NOT NULL,
    prompt_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    usage_estimated BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    total_ms DOUBLE PRECISION NOT NULL,
    first_chunk_ms DOUBLE PRECISION,
    overhead_ms DOUBLE PRECISION NOT NULL,
    stages_ms TEXT COLLATE "C" NOT NULL,
    -- Of the prompt, what the engine had cached.
    cached_tokens BIGINT NOT NULL DEFAULT 0,
    -- Who carried on an answer that broke off.
    continued TEXT COLLATE "C" NOT NULL DEFAULT '',
    -- What the model's reference engine would have charged, by its price; NULL where nobody reckoned.
    reference_cost_usd DOUBLE PRECISION,
    -- The gateway's own key it came by; empty without one. Blanked when the key is forgotten.
    key_id TEXT COLLATE "C" NOT NULL DEFAULT '',
    -- Under which key its answer was looked for: a correction finds the answer by it.
    exact_key BYTEA,
    -- An answer by another engine than was decided on: which one that was and how it failed, and who else was asked.
    failed_over TEXT COLLATE "C" NOT NULL DEFAULT '',
    trail TEXT COLLATE "C" NOT NULL DEFAULT '',
    unpriced BIGINT NOT NULL DEFAULT 0,
    api TEXT COLLATE "C" NOT NULL DEFAULT 'chat',
    -- The end user's digest.
    end_user TEXT COLLATE "C" NOT NULL DEFAULT '',
    cache_write_tokens BIGINT NOT NULL DEFAULT 0,
    images BIGINT NOT NULL DEFAULT 0,
    service_tier TEXT COLLATE "C" NOT NULL DEFAULT '',
    examples_usd DOUBLE PRECISION NOT NULL DEFAULT 0,
    example_tokens BIGINT NOT NULL DEFAULT 0,
    completion_id TEXT COLLATE "C" NOT NULL DEFAULT '',
    -- A digest of the conversation that it belongs to.
    session TEXT COLLATE "C" NOT NULL DEFAULT '',
    error_kind TEXT COLLATE "C" NOT NULL DEFAULT '',
    finish_reason TEXT COLLATE "C" NOT NULL DEFAULT '',
    -- Why no text of it is kept; empty where there is one.
    no_text TEXT COLLATE "C" NOT NULL DEFAULT ''
);
CREATE INDEX requests_by_time ON requests (started_at_s);
CREATE INDEX requests_by_tenant ON requests (tenant, started_at_s);
CREATE INDEX requests_by_completion ON requests (completion_id) WHERE completion_id <> '';
CREATE INDEX requests_by_session ON requests (session, started_at_s) WHERE session <> '';
CREATE INDEX requests_by_user ON requests (end_user, started_at_s) WHERE end_user <> '';

-- What was asked and answered, for whoever may read it: apart from the log of requests, for a shorter time, and gone with
-- whoever asked. An exact repeat has a row only for what is its own: the log says that its texts are those of its key.
CREATE TABLE request_texts (
    row_id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    contributor TEXT COLLATE "C" NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    -- Equal for exact repeats: a repeat answered from memory has a row without texts, and is shown with those of the first.
    same BYTEA,
    size_bytes BIGINT NOT NULL,
    question TEXT COLLATE "C" NOT NULL,
    answer TEXT COLLATE "C" NOT NULL,
    -- The conversation and how it was sent: JSON, deflated.
    conversation BYTEA,
    -- What else is content of a request: JSON, deflated (store/decisions/kept_details.py).
    details BYTEA,
    words tsvector
        GENERATED ALWAYS AS (CASE WHEN conversation IS NOT NULL THEN words_of(question || ' ' || answer) END) STORED,
    UNIQUE (tenant, request_id)
);
CREATE INDEX request_texts_by_age ON request_texts (at_s);
CREATE INDEX request_texts_by_same ON request_texts (tenant, same, row_id) WHERE conversation IS NOT NULL;
CREATE INDEX request_texts_by_contributor ON request_texts (tenant, contributor) WHERE contributor <> '';
CREATE INDEX request_texts_by_words ON request_texts USING gin (words);
CREATE FUNCTION request_texts_grow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO request_texts_size VALUES (pg_backend_pid() % 256, NEW.size_bytes)
        ON CONFLICT (only_row) DO UPDATE SET total_bytes = request_texts_size.total_bytes + excluded.total_bytes;
    RETURN NULL;
END $$;
CREATE TRIGGER request_texts_grow AFTER INSERT ON request_texts FOR EACH ROW
    EXECUTE FUNCTION request_texts_grow();
CREATE FUNCTION request_texts_shrink() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO request_texts_size VALUES (pg_backend_pid() % 256, -OLD.size_bytes)
        ON CONFLICT (only_row) DO UPDATE SET total_bytes = request_texts_size.total_bytes + excluded.total_bytes;
    RETURN NULL;
END $$;
CREATE TRIGGER request_texts_shrink AFTER DELETE ON request_texts FOR EACH ROW
    EXECUTE FUNCTION request_texts_shrink();

-- Triggers keep the sum, so that the size cap costs no scan.
CREATE TABLE request_texts_size (
    only_row BIGINT PRIMARY KEY,
    total_bytes BIGINT NOT NULL
) WITH (fillfactor = 20);
INSERT INTO request_texts_size (only_row, total_bytes) VALUES (1, 0);

-- What the router weighed for each request. Holds no text; the request's vector, as 16-bit floats, is the one thing that
-- tells of it.
CREATE TABLE choices (
    row_id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    contributor TEXT COLLATE "C" NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    completion_id TEXT COLLATE "C" NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    embedding_version TEXT COLLATE "C" NOT NULL,
    vector BYTEA,
    candidate_features BYTEA,
    features_per_candidate BIGINT NOT NULL,
    -- The rest of the record: JSON, deflated, because the names of features are most of it.
    record BYTEA NOT NULL,
    UNIQUE (tenant, request_id)
);
CREATE INDEX choices_by_model ON choices (tenant, model, row_id);
CREATE INDEX choices_by_age ON choices (at_s);
CREATE INDEX choices_by_completion ON choices (tenant, completion_id) WHERE completion_id <> '';
CREATE INDEX choices_by_contributor ON choices (tenant, contributor) WHERE contributor <> '';
CREATE FUNCTION outcomes_go_with_choice() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM outcomes WHERE tenant = OLD.tenant AND request_id = OLD.request_id;
    RETURN NULL;
END $$;
CREATE TRIGGER outcomes_go_with_choice AFTER DELETE ON choices FOR EACH ROW
    EXECUTE FUNCTION outcomes_go_with_choice();
CREATE FUNCTION feedback_goes_with_choice() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM feedback WHERE tenant = OLD.tenant AND request_id = OLD.request_id;
    RETURN NULL;
END $$;
CREATE TRIGGER feedback_goes_with_choice AFTER DELETE ON choices FOR EACH ROW
    EXECUTE FUNCTION feedback_goes_with_choice();
CREATE FUNCTION outcomes_learn_their_model() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE outcomes SET model = NEW.model, id = nextval(pg_get_serial_sequence('outcomes', 'id')) WHERE tenant = NEW.tenant AND request_id = NEW.request_id AND model = '';
    RETURN NULL;
END $$;
CREATE TRIGGER outcomes_learn_their_model AFTER INSERT ON choices FOR EACH ROW
    EXECUTE FUNCTION outcomes_learn_their_model();

-- How good answers turned out to be. `model` is the choice's, so that counting needs no join; empty until the choice is there,
-- for feedback may overtake the recorder.
CREATE TABLE outcomes (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL CHECK (source IN ('user', 'judge', 'implicit', 'label')),
    at_s DOUBLE PRECISION NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    example_ids TEXT COLLATE "C" NOT NULL,
    served BIGINT NOT NULL,
    quality DOUBLE PRECISION NOT NULL CHECK (quality BETWEEN 0 AND 1),
    probability DOUBLE PRECISION NOT NULL CHECK (probability > 0 AND probability <= 1),
    cost_usd DOUBLE PRECISION NOT NULL,
    prompt_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    latency_s DOUBLE PRECISION,
    detail TEXT COLLATE "C" NOT NULL,
    UNIQUE (tenant, request_id, key)
);
CREATE INDEX outcomes_by_model ON outcomes (tenant, model, source);
CREATE INDEX outcomes_by_age ON outcomes (at_s);

-- What people said of answers, as they said it. What follows from it for learning stands in `outcomes`.
CREATE TABLE feedback (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    -- Unique per tenant: an Idempotency-Key's digest, or that of the content.
    key TEXT COLLATE "C" NOT NULL,
    content_digest TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    contributor TEXT COLLATE "C" NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    score DOUBLE PRECISION,
    thumb TEXT COLLATE "C" NOT NULL,
    preferred_over TEXT COLLATE "C" NOT NULL,
    correction TEXT COLLATE "C" NOT NULL,
    comment TEXT COLLATE "C" NOT NULL,
    -- Who gave it, where an operator did.
    author TEXT COLLATE "C" NOT NULL DEFAULT '',
    UNIQUE (tenant, key)
);
CREATE INDEX feedback_by_request ON feedback (tenant, request_id);
CREATE INDEX feedback_by_age ON feedback (at_s);
CREATE INDEX feedback_by_contributor ON feedback (tenant, contributor) WHERE contributor <> '';
CREATE INDEX feedback_by_correction ON feedback (tenant, correction) WHERE correction <> '';

-- What reviewers said of sampled answers. The texts are in request_texts, what follows in outcomes.
CREATE TABLE reviews (
    tenant TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    "user" TEXT COLLATE "C" NOT NULL,
    verdict TEXT COLLATE "C" NOT NULL CHECK (verdict IN ('good', 'bad', 'corrected', 'skip')),
    -- With which the answer was sampled.
    probability DOUBLE PRECISION NOT NULL CHECK (probability > 0 AND probability <= 1),
    PRIMARY KEY (tenant, request_id)
);
CREATE INDEX reviews_by_age ON reviews (at_s);

-- The shares of answers that are sampled for review, each for requests from a time on.
CREATE TABLE review_shares (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    from_s DOUBLE PRECISION NOT NULL,
    "user" TEXT COLLATE "C" NOT NULL,
    offloaded DOUBLE PRECISION NOT NULL CHECK (offloaded BETWEEN 0 AND 1),
    reference DOUBLE PRECISION NOT NULL CHECK (reference BETWEEN 0 AND 1)
);

-- Whose the ids are that engines gave to what they store. By an HMAC: nobody learns an id from this table.
CREATE TABLE owned_ids (
    id_digest TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    -- Empty: the whole tenant's.
    end_user TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    replica TEXT COLLATE "C" NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (id_digest, tenant, end_user)
);
CREATE INDEX owned_ids_by_tenant ON owned_ids (tenant, end_user);
CREATE INDEX owned_ids_by_time ON owned_ids (at_s);

-- ==== sums of requests ====

-- How far the log of requests was summed.
CREATE TABLE rollup_progress (
    only_row BIGINT PRIMARY KEY CHECK (only_row = 1),
    last_row_id BIGINT NOT NULL,
    -- How often requests were deleted on purpose: what was read before must not be added after.
    deletions BIGINT NOT NULL
);
INSERT INTO rollup_progress (only_row, last_row_id, deletions) VALUES (1, 0, 1);

-- Sums over requests by minute and by hour, so that a page over a week reads some hundred rows of any log.
CREATE TABLE request_rollups (
    span_s BIGINT NOT NULL,
    start_s BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    outcome TEXT COLLATE "C" NOT NULL,
    with_examples BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    reference_cost_usd DOUBLE PRECISION NOT NULL,
    -- Requests of which no reference cost is known; they are left out of what was saved.
    unreckoned BIGINT NOT NULL,
    unreckoned_usd DOUBLE PRECISION NOT NULL,
    prompt_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    total_ms DOUBLE PRECISION NOT NULL,
    overhead_ms DOUBLE PRECISION NOT NULL,
    streams BIGINT NOT NULL,
    first_chunk_ms DOUBLE PRECISION NOT NULL,
    streamed_ms DOUBLE PRECISION NOT NULL,
    streamed_tokens BIGINT NOT NULL,
    PRIMARY KEY (span_s, start_s, tenant, model, engine, outcome, with_examples)
);

-- By key, for the page of keys: hours only.
CREATE TABLE key_rollups (
    start_s BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    requests BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    tokens BIGINT NOT NULL,
    PRIMARY KEY (start_s, tenant, key_id)
);

-- Stages and latencies are summed over all tenants: by tenant they had nearly a row per request.
CREATE TABLE stage_rollups (
    span_s BIGINT NOT NULL,
    start_s BIGINT NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    stage TEXT COLLATE "C" NOT NULL,
    requests BIGINT NOT NULL,
    sum_ms DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (span_s, start_s, engine, stage)
);

-- Histograms: `bucket` is floor(8 * log2(milliseconds)), so that a percentile is known to 9 %.
CREATE TABLE latency_rollups (
    span_s BIGINT NOT NULL,
    start_s BIGINT NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    measure TEXT COLLATE "C" NOT NULL CHECK (measure IN ('total', 'first_chunk', 'token')),
    bucket BIGINT NOT NULL,
    requests BIGINT NOT NULL,
    PRIMARY KEY (span_s, start_s, engine, measure, bucket)
);

-- How far the log of outcomes was summed.
CREATE TABLE quality_progress (
    only_row BIGINT PRIMARY KEY CHECK (only_row = 1),
    last_id BIGINT NOT NULL
);
INSERT INTO quality_progress (only_row, last_id) VALUES (1, 0);

-- Judgements, feedback and reviews of answers that clients got, by minute, hour and day: what the overview, trends and the
-- quality alarm are made from. Derived from `outcomes`; holds no content.
CREATE TABLE quality_rollups (
    -- Of everybody: *.
    tenant TEXT COLLATE "C" NOT NULL,
    span_s BIGINT NOT NULL,
    start_s BIGINT NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    -- Of an answer by another engine than was decided on.
    failed_over BIGINT NOT NULL,
    outcomes BIGINT NOT NULL,
    -- Sums of w, wq, w^2, w^2 q and w^2 q^2, where w is one over the probability of having been picked, and q the quality.
    weight DOUBLE PRECISION NOT NULL,
    quality DOUBLE PRECISION NOT NULL,
    weight_2 DOUBLE PRECISION NOT NULL,
    quality_2 DOUBLE PRECISION NOT NULL,
    square_2 DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (tenant, span_s, start_s, key_id, model, engine, source, failed_over)
);
CREATE INDEX quality_rollups_by_age ON quality_rollups (span_s, start_s);

-- What requests used and cost, whatever the API, by hour: written with each request.
CREATE TABLE usage_hours (
    start_s BIGINT NOT NULL,
    -- answer: clients' requests. Else what the gateway asks of its own accord: judge, shadow and so on.
    line TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    api TEXT COLLATE "C" NOT NULL,
    requests BIGINT NOT NULL,
    hits BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    prompt_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    images BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    -- Requests whose cost nobody knows; they are missing in cost_usd.
    unpriced BIGINT NOT NULL,
    -- Requests whose tokens were estimated.
    estimated BIGINT NOT NULL,
    example_tokens BIGINT NOT NULL,
    examples_usd DOUBLE PRECISION NOT NULL,
    -- What the reference engine would have charged, and what was paid, for those of which that is known.
    reference_usd DOUBLE PRECISION NOT NULL,
    reckoned_usd DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (start_s, line, tenant, key_id, model, engine, api)
);
CREATE INDEX usage_hours_by_tenant ON usage_hours (tenant, start_s);

-- The same by end user and day.
CREATE TABLE usage_users (
    start_s BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    end_user TEXT COLLATE "C" NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    api TEXT COLLATE "C" NOT NULL,
    requests BIGINT NOT NULL,
    hits BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    prompt_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    images BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    unpriced BIGINT NOT NULL,
    estimated BIGINT NOT NULL,
    example_tokens BIGINT NOT NULL,
    examples_usd DOUBLE PRECISION NOT NULL,
    reference_usd DOUBLE PRECISION NOT NULL,
    reckoned_usd DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (start_s, tenant, end_user, key_id, model, engine, api)
);
CREATE INDEX usage_users_by_tenant ON usage_users (tenant, end_user);

-- What was spent in the background on finding out how good answers are (shadow answers, verdicts), by tenant: for ten minutes
-- and for days. Reserved before it is spent: what a process took with it when it died counts as spent. Holds no content.
CREATE TABLE spending (
    unit TEXT COLLATE "C" NOT NULL,
    span_s BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    start_s BIGINT NOT NULL,
    amount DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (unit, span_s, tenant, start_s)
);

-- What was paid about rows that are deleted by now, by minute. Of deleted tenants together under 'deleted'.
CREATE TABLE kept_costs (
    tenant TEXT COLLATE "C" NOT NULL,
    start_s BIGINT NOT NULL,
    -- judge (with what answers to compare with cost), replay, by_hand or warm.
    line TEXT COLLATE "C" NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    purpose TEXT COLLATE "C" NOT NULL,
    requests BIGINT NOT NULL,
    prompt_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (tenant, start_s, line, engine, purpose)
);
CREATE INDEX kept_costs_by_time ON kept_costs (line, start_s);

-- ==== answers that are given again ====

-- Answers by the key of their request, for exact repeats.
CREATE TABLE exact_answers (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    key BYTEA NOT NULL UNIQUE,
    tenant TEXT COLLATE "C" NOT NULL,
    stored_at_s DOUBLE PRECISION NOT NULL,
    last_used_at_s DOUBLE PRECISION NOT NULL,
    size_bytes BIGINT NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    content_type TEXT COLLATE "C" NOT NULL,
    usage_estimated BIGINT NOT NULL,
    body BYTEA NOT NULL,
    -- Who got it first, so that a correction finds it.
    request_id TEXT COLLATE "C" NOT NULL DEFAULT '',
    -- Whom it answered (learning.bank.contributor), so that one user's can be deleted alone; NULL: not known.
    contributor TEXT COLLATE "C",
    -- How often it was given again.
    hits BIGINT NOT NULL DEFAULT 0,
    -- A correction, which no engine's answer replaces.
    corrected BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX exact_answers_by_use ON exact_answers (last_used_at_s);
CREATE INDEX exact_answers_by_age ON exact_answers (stored_at_s);
CREATE INDEX exact_answers_by_request ON exact_answers (request_id) WHERE request_id <> '';
CREATE INDEX exact_answers_by_tenant ON exact_answers (tenant, contributor);
CREATE INDEX exact_answers_by_hits ON exact_answers (hits, id, tenant) WHERE hits > 0;
CREATE INDEX exact_answers_by_tenant_age ON exact_answers (tenant, stored_at_s);
CREATE FUNCTION exact_answers_grow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO exact_size VALUES (pg_backend_pid() % 256, NEW.size_bytes)
        ON CONFLICT (only_row) DO UPDATE SET total_bytes = exact_size.total_bytes + excluded.total_bytes;
    RETURN NULL;
END $$;
CREATE TRIGGER exact_answers_grow AFTER INSERT ON exact_answers FOR EACH ROW
    EXECUTE FUNCTION exact_answers_grow();
CREATE FUNCTION exact_answers_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO exact_size VALUES (pg_backend_pid() % 256, NEW.size_bytes - OLD.size_bytes)
        ON CONFLICT (only_row) DO UPDATE SET total_bytes = exact_size.total_bytes + excluded.total_bytes;
    RETURN NULL;
END $$;
CREATE TRIGGER exact_answers_change AFTER UPDATE OF size_bytes ON exact_answers FOR EACH ROW
    EXECUTE FUNCTION exact_answers_change();
CREATE FUNCTION exact_answers_shrink() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO exact_size VALUES (pg_backend_pid() % 256, -OLD.size_bytes)
        ON CONFLICT (only_row) DO UPDATE SET total_bytes = exact_size.total_bytes + excluded.total_bytes;
    RETURN NULL;
END $$;
CREATE TRIGGER exact_answers_shrink AFTER DELETE ON exact_answers FOR EACH ROW
    EXECUTE FUNCTION exact_answers_shrink();
CREATE FUNCTION exact_answer_examples_go_with_answer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM exact_answer_examples WHERE key = OLD.key;
    RETURN NULL;
END $$;
CREATE TRIGGER exact_answer_examples_go_with_answer AFTER DELETE ON exact_answers FOR EACH ROW
    EXECUTE FUNCTION exact_answer_examples_go_with_answer();

-- Triggers keep the sum, so that the size cap costs no scan.
CREATE TABLE exact_size (
    only_row BIGINT PRIMARY KEY,
    total_bytes BIGINT NOT NULL
) WITH (fillfactor = 20);
INSERT INTO exact_size (only_row, total_bytes) VALUES (1, 0);

-- Which examples an exact answer was made with: it goes when one of them turns out to be wrong.
CREATE TABLE exact_answer_examples (
    example_id BIGINT NOT NULL,
    key BYTEA NOT NULL,
    PRIMARY KEY (example_id, key)
);
CREATE INDEX exact_answer_examples_by_key ON exact_answer_examples (key);

-- Answers of /v1/responses that no upstream holds: so that their ids can be read, deleted and continued.
CREATE TABLE kept_responses (
    id_digest TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    contributor TEXT COLLATE "C" NOT NULL,
    kept_at_s DOUBLE PRECISION NOT NULL,
    size_bytes BIGINT NOT NULL,
    response BYTEA NOT NULL,
    -- What it answered: a JSON list of input items, those of the conversation before it among them.
    input BYTEA NOT NULL,
    PRIMARY KEY (id_digest, tenant)
);
CREATE INDEX kept_responses_by_contributor ON kept_responses (tenant, contributor);
CREATE INDEX kept_responses_by_time ON kept_responses (kept_at_s, size_bytes);

-- Answers that may be given to a merely similar question. Each hangs on the example whose question it answers, and triggers
-- make it go with that: whoever removes an example need not know.
CREATE TABLE semantic_entries (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    example_id BIGINT NOT NULL,
    same_otherwise BYTEA NOT NULL,
    stored_at_s DOUBLE PRECISION NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    content_type TEXT COLLATE "C" NOT NULL,
    usage_estimated BIGINT NOT NULL,
    body BYTEA NOT NULL,
    UNIQUE (example_id, same_otherwise)
);
CREATE INDEX semantic_entries_by_age ON semantic_entries (tenant, stored_at_s);
CREATE FUNCTION semantic_observations_go_with_entry() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM semantic_observations WHERE entry_id = OLD.id;
    RETURN NULL;
END $$;
CREATE TRIGGER semantic_observations_go_with_entry AFTER DELETE ON semantic_entries FOR EACH ROW
    EXECUTE FUNCTION semantic_observations_go_with_entry();
CREATE FUNCTION semantic_aliases_go_with_entry() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    DELETE FROM semantic_aliases WHERE entry_id = OLD.id;
    RETURN NULL;
END $$;
CREATE TRIGGER semantic_aliases_go_with_entry AFTER DELETE ON semantic_entries FOR EACH ROW
    EXECUTE FUNCTION semantic_aliases_go_with_entry();

-- Questions of which a judge said that another question's remembered answer answers them as well: they share its entry from
-- then on.
CREATE TABLE semantic_aliases (
    example_id BIGINT NOT NULL REFERENCES examples (id) ON DELETE CASCADE,
    same_otherwise BYTEA NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    entry_id BIGINT NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (example_id, same_otherwise)
);
CREATE INDEX semantic_aliases_by_entry ON semantic_aliases (entry_id);

-- What comparing a remembered answer with a fresh one has shown: the latest comparisons of each entry, oldest first by id; no
-- text. Rows of one tenant are never read for another.
CREATE TABLE semantic_observations (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    embedding_version TEXT COLLATE "C" NOT NULL,
    entry_id BIGINT NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    similarity DOUBLE PRECISION NOT NULL,
    is_right BIGINT NOT NULL CHECK (is_right IN (0, 1))
);
CREATE INDEX semantic_observations_by_entry ON semantic_observations (tenant, embedding_version, entry_id, id);
CREATE INDEX semantic_observations_of_entry ON semantic_observations (entry_id);

-- What they, and the answers given out, add up to. `phase` counts how often the monitor took every proof back.
CREATE TABLE semantic_counts (
    tenant TEXT COLLATE "C" NOT NULL,
    embedding_version TEXT COLLATE "C" NOT NULL,
    policy TEXT COLLATE "C" NOT NULL,
    phase BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    slot BIGINT NOT NULL,
    total BIGINT NOT NULL,
    PRIMARY KEY (tenant, embedding_version, policy, phase, kind, slot)
);

-- ==== what is learnt ====

-- Versions of what was learnt. The bytes lie in files: artifacts/ in the data folder. An id is not given twice.
CREATE TABLE artifacts (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    created_at_s DOUBLE PRECISION NOT NULL,
    sha256 TEXT COLLATE "C" NOT NULL,
    size_bytes BIGINT NOT NULL,
    parent BIGINT,
    metrics TEXT COLLATE "C" NOT NULL,
    note TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('active', 'retired', 'rejected')),
    -- Whether it ever served: a rollback goes back to what did, not to what was only kept.
    served BIGINT NOT NULL
);
CREATE UNIQUE INDEX artifacts_one_active ON artifacts (kind, tenant, model) WHERE state = 'active';
CREATE INDEX artifacts_by_slot ON artifacts (kind, tenant, model, id);
CREATE INDEX artifacts_by_tenant ON artifacts (tenant);

-- Where a person said that no new version may take over.
CREATE TABLE frozen_artifacts (
    kind TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    frozen_at_s DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (kind, tenant, model)
);

-- That versions of what was learnt were deleted with a tenant: how many, and when. Names nobody.
CREATE TABLE deleted_versions (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    at_s DOUBLE PRECISION NOT NULL,
    versions BIGINT NOT NULL
);
CREATE INDEX deleted_versions_by_age ON deleted_versions (at_s);

-- What the quality floor's account of a tenant's served model has come to. Derived: it follows from `choices` and `outcomes` up
-- to the two places named here, and is kept so that it survives their being trimmed and need not be computed anew.
CREATE TABLE quality_floors (
    tenant TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    cap DOUBLE PRECISION NOT NULL CHECK (cap BETWEEN 0 AND 1),
    standing TEXT COLLATE "C" NOT NULL CHECK (standing IN ('holds', 'limiting', 'threatened')),
    last_choice BIGINT NOT NULL,
    last_outcome BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, model)
);

-- Routing settings that an operator changed while the gateway runs. The latest row of a model that was not taken back is in
-- force; null leaves one as it is configured.
CREATE TABLE dials (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    model TEXT COLLATE "C" NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    "user" TEXT COLLATE "C" NOT NULL,
    preference DOUBLE PRECISION CHECK (preference BETWEEN 0 AND 1),
    theta DOUBLE PRECISION CHECK (theta BETWEEN -1 AND 1),
    m BIGINT CHECK (m >= 1),
    max_examples BIGINT CHECK (max_examples >= 0),
    taken_back_at_s DOUBLE PRECISION,
    taken_back_by TEXT COLLATE "C"
);
CREATE INDEX dials_in_force ON dials (model, id) WHERE taken_back_at_s IS NULL;

-- The same of one tenant, beside those of the whole model.
CREATE TABLE tenant_dials (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    "user" TEXT COLLATE "C" NOT NULL,
    preference DOUBLE PRECISION CHECK (preference BETWEEN 0 AND 1),
    theta DOUBLE PRECISION CHECK (theta BETWEEN -1 AND 1),
    m BIGINT CHECK (m >= 1),
    max_examples BIGINT CHECK (max_examples >= 0),
    taken_back_at_s DOUBLE PRECISION,
    taken_back_by TEXT COLLATE "C"
);
CREATE INDEX tenant_dials_in_force ON tenant_dials (model, tenant, id) WHERE taken_back_at_s IS NULL;
CREATE INDEX tenant_dials_of ON tenant_dials (tenant);

-- Requests of a tenant whose answers are few distinct labels, and that a student may answer (router.tasks).
CREATE TABLE tasks (
    tenant TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    -- Fingerprint of the instructions (router.digest.scope); empty where something else tells which requests belong to it.
    scope TEXT COLLATE "C" NOT NULL,
    -- JSON array; empty: the labels that the teacher uses.
    labels TEXT COLLATE "C" NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    -- Who said so last; empty for nobody.
    by TEXT COLLATE "C" NOT NULL,
    -- JSON object: what a proposal rests on. No content.
    grounds TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, model, name)
);

-- Labels of requests of tasks. A log, never updated: a person's label of a request is a later row of the same request.
CREATE TABLE task_answers (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    -- Model and name of the task, with a slash between.
    slot TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    contributor TEXT COLLATE "C" NOT NULL,
    end_user TEXT COLLATE "C" NOT NULL,
    input TEXT COLLATE "C" NOT NULL,
    vector BYTEA,
    embedding_version TEXT COLLATE "C" NOT NULL,
    answer TEXT COLLATE "C" NOT NULL,
    label TEXT COLLATE "C",
    unread TEXT COLLATE "C" NOT NULL,
    soft TEXT COLLATE "C",
    weight DOUBLE PRECISION NOT NULL,
    student_label TEXT COLLATE "C",
    confidence DOUBLE PRECISION,
    version BIGINT,
    checked BIGINT NOT NULL,
    answered_by TEXT COLLATE "C" NOT NULL
);
CREATE INDEX task_answers_by_slot ON task_answers (tenant, slot, id);
CREATE INDEX task_answers_by_request ON task_answers (tenant, request_id);
CREATE INDEX task_answers_by_age ON task_answers (at_s);
CREATE INDEX task_answers_by_contributor ON task_answers (tenant, contributor) WHERE contributor <> '';
CREATE INDEX task_answers_by_time ON task_answers (tenant, slot, at_s);

-- ==== engines ====

-- How engines stand, as each worker sees them, written while anything changes; gone with its worker, or believed for some
-- seconds only. An engine may have several replicas: each has a state of its own.
CREATE TABLE engine_states (
    worker TEXT COLLATE "C" NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    replica TEXT COLLATE "C" NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    in_flight BIGINT NOT NULL,
    queued BIGINT NOT NULL,
    capacity BIGINT,
    utilisation DOUBLE PRECISION NOT NULL,
    breaker TEXT COLLATE "C" NOT NULL,
    drained BIGINT NOT NULL,
    asked BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    first_chunk_s DOUBLE PRECISION,
    answer_s DOUBLE PRECISION,
    kv_use DOUBLE PRECISION,
    limit_left DOUBLE PRECISION,
    state TEXT COLLATE "C" NOT NULL,
    since_s DOUBLE PRECISION,
    error TEXT COLLATE "C" NOT NULL,
    error_at_s DOUBLE PRECISION,
    -- JSON object: how often it failed, by kind.
    failures TEXT COLLATE "C" NOT NULL DEFAULT '{}',
    -- The latest health check.
    probed_at_s DOUBLE PRECISION,
    probe_ms DOUBLE PRECISION,
    -- Empty: it was good.
    probe_error TEXT COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (worker, engine, replica)
);

-- Engines and replicas that an operator has drained.
CREATE TABLE drained_engines (
    engine TEXT COLLATE "C" NOT NULL,
    -- Empty: all of them.
    replica TEXT COLLATE "C" NOT NULL,
    since_s DOUBLE PRECISION NOT NULL,
    by_user TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (engine, replica)
);

-- How often asking an engine failed, by kind, in ten minutes: what workers counted outlives them. Holds no content.
CREATE TABLE engine_errors (
    engine TEXT COLLATE "C" NOT NULL,
    start_s BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    errors BIGINT NOT NULL,
    PRIMARY KEY (engine, start_s, kind)
);

-- What came of an operator's test.
CREATE TABLE engine_tests (
    engine TEXT COLLATE "C" NOT NULL,
    replica TEXT COLLATE "C" NOT NULL,
    at_s DOUBLE PRECISION NOT NULL,
    by_user TEXT COLLATE "C" NOT NULL,
    good BIGINT NOT NULL,
    said TEXT COLLATE "C" NOT NULL,
    health_ms DOUBLE PRECISION,
    answer_ms DOUBLE PRECISION,
    cost_usd DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (engine, replica)
);

-- How busy each worker is, whatever its machine: used where processes share a database and no folder.
CREATE TABLE worker_loads (
    worker TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    -- By the database's clock, as is the next time.
    at_s DOUBLE PRECISION NOT NULL,
    in_flight BIGINT NOT NULL,
    -- What was answered by then is committed, or never will be.
    recorded_to_s DOUBLE PRECISION NOT NULL,
    core_share DOUBLE PRECISION NOT NULL DEFAULT 0,
    -- Requests a second; 0: not known yet.
    capacity_per_s DOUBLE PRECISION NOT NULL DEFAULT 0,
    -- How many kinds of work are left out now, and a JSON list of how many pieces of each were.
    shed_level BIGINT NOT NULL DEFAULT 0,
    shed TEXT COLLATE "C" NOT NULL DEFAULT '[]'
);

-- Plans of which prompts' prefixes engines keep warm. Derived from the log of requests, made anew every few minutes.
CREATE TABLE kv_plans (
    engine TEXT COLLATE "C" PRIMARY KEY,
    planned_at_s DOUBLE PRECISION NOT NULL,
    -- JSON: the lines it rests on, how much fits, what it saves.
    figures TEXT COLLATE "C" NOT NULL,
    warmed BIGINT NOT NULL DEFAULT 0,
    warmed_tokens BIGINT NOT NULL DEFAULT 0,
    warmed_cached_tokens BIGINT NOT NULL DEFAULT 0,
    warmed_usd DOUBLE PRECISION NOT NULL DEFAULT 0
);

-- Which examples' prefixes each engine is to keep warm, and in which order they are to stand in prompts. Holds no text.
CREATE TABLE kv_plan_examples (
    engine TEXT COLLATE "C" NOT NULL,
    example_id BIGINT NOT NULL REFERENCES examples (id) ON DELETE CASCADE,
    tenant TEXT COLLATE "C" NOT NULL,
    -- 0 stands first.
    place BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    uses DOUBLE PRECISION NOT NULL,
    saves_ms DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (engine, example_id)
);
CREATE INDEX kv_plan_examples_by_example ON kv_plan_examples (example_id);

-- ==== jobs ====

-- Runs of replay, and what each was to do. A second one cannot begin while one goes on.
CREATE TABLE replay_runs (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    -- Empty: every tenant's.
    tenant TEXT COLLATE "C" NOT NULL,
    asked_by TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN
        ('wanted', 'running', 'paused', 'interrupted', 'done', 'stopped', 'failed', 'undone')),
    created_at_s DOUBLE PRECISION NOT NULL,
    started_at_s DOUBLE PRECISION,
    ended_at_s DOUBLE PRECISION,
    heartbeat_at_s DOUBLE PRECISION,
    budget_usd DOUBLE PRECISION,
    budget_tokens BIGINT,
    budget_s DOUBLE PRECISION,
    stop_asked BIGINT NOT NULL DEFAULT 0,
    note TEXT COLLATE "C" NOT NULL DEFAULT '',
    -- Who asked for it on the admin pages.
    by_user TEXT COLLATE "C" NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX replay_runs_one_at_a_time ON replay_runs ((1)) WHERE state IN ('running', 'paused');

-- What a run does, example by example.
CREATE TABLE replay_steps (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    run_id BIGINT NOT NULL REFERENCES replay_runs (id) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('distil', 'expand')),
    example_id BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('planned', 'asked', 'paid', 'done', 'skipped')),
    gain DOUBLE PRECISION NOT NULL,
    companion_gain DOUBLE PRECISION NOT NULL,
    expected_effect DOUBLE PRECISION NOT NULL,
    expected_usd DOUBLE PRECISION NOT NULL,
    expected_tokens BIGINT NOT NULL,
    expected_s DOUBLE PRECISION NOT NULL,
    result TEXT COLLATE "C" NOT NULL DEFAULT '',
    -- JSON: figures and codes, never text of an example.
    detail TEXT COLLATE "C" NOT NULL DEFAULT '{}',
    changed_at_s DOUBLE PRECISION NOT NULL,
    UNIQUE (run_id, position)
);
CREATE INDEX replay_steps_by_example ON replay_steps (example_id, kind, changed_at_s);
CREATE INDEX replay_steps_by_tenant ON replay_steps (tenant);

-- One row per request to an engine, written before it is asked. `text` is what has to be remembered of its answer until the
-- step is done; then it is emptied, and so it is when the example goes.
CREATE TABLE replay_asks (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    run_id BIGINT NOT NULL REFERENCES replay_runs (id) ON DELETE CASCADE,
    step_id BIGINT NOT NULL REFERENCES replay_steps (id) ON DELETE CASCADE,
    tenant TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    purpose TEXT COLLATE "C" NOT NULL,
    -- unknown: the process ended while it was under way; at most `most_usd` was spent.
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('asked', 'paid', 'failed', 'unknown')),
    most_usd DOUBLE PRECISION NOT NULL,
    most_tokens BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL DEFAULT 0,
    prompt_tokens BIGINT NOT NULL DEFAULT 0,
    completion_tokens BIGINT NOT NULL DEFAULT 0,
    latency_s DOUBLE PRECISION NOT NULL DEFAULT 0,
    text TEXT COLLATE "C" NOT NULL DEFAULT '',
    asked_at_s DOUBLE PRECISION NOT NULL,
    ended_at_s DOUBLE PRECISION
);
CREATE UNIQUE INDEX replay_asks_paid_once ON replay_asks (step_id, key) WHERE state = 'paid';
CREATE INDEX replay_asks_by_run ON replay_asks (run_id);
CREATE INDEX replay_asks_by_time ON replay_asks (asked_at_s);

-- What was paid off-peak outside any run of replay: near misses judged, prefixes warmed, private examples written. It stands
-- in the same report of costs, under its own purposes; holds no text.
CREATE TABLE replay_side_costs (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    purpose TEXT COLLATE "C" NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    tokens BIGINT NOT NULL,
    asked_at_s DOUBLE PRECISION NOT NULL
);
CREATE INDEX replay_side_costs_by_time ON replay_side_costs (asked_at_s);
CREATE INDEX replay_side_costs_by_tenant ON replay_side_costs (tenant);

-- Engines that operators asked on the admin pages, beside a client's answer. No text: what they answered was shown once.
CREATE TABLE operator_asks (
    id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    at_s DOUBLE PRECISION NOT NULL,
    "user" TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    with_examples BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    prompt_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    latency_s DOUBLE PRECISION NOT NULL
);
CREATE INDEX operator_asks_by_time ON operator_asks (at_s, cost_usd);
CREATE INDEX operator_asks_by_tenant ON operator_asks (tenant);

-- What operators are told of: what was noticed, so that each crossing is told once.
CREATE TABLE webhook_states (
    name TEXT COLLATE "C" PRIMARY KEY,
    value TEXT COLLATE "C" NOT NULL,
    at_s DOUBLE PRECISION NOT NULL
);

-- Messages that are to be delivered.
CREATE TABLE webhook_messages (
    id TEXT COLLATE "C" PRIMARY KEY,
    -- A digest of its URL.
    endpoint TEXT COLLATE "C" NOT NULL,
    event TEXT COLLATE "C" NOT NULL,
    body TEXT COLLATE "C" NOT NULL,
    made_at_s DOUBLE PRECISION NOT NULL,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('due', 'delivered', 'given_up')),
    tries BIGINT NOT NULL,
    due_at_s DOUBLE PRECISION NOT NULL,
    -- What became of the latest try: a status, or a word; never what the receiver said.
    result TEXT COLLATE "C" NOT NULL
);
CREATE INDEX webhook_messages_due ON webhook_messages (due_at_s) WHERE state = 'due';
CREATE INDEX webhook_messages_by_time ON webhook_messages (made_at_s);

-- Which process delivers, and until when nobody else does.
CREATE TABLE webhook_owner (
    only_row BIGINT PRIMARY KEY CHECK (only_row = 1),
    owner TEXT COLLATE "C" NOT NULL,
    until_s DOUBLE PRECISION NOT NULL
);

-- ==== runs and workflows ====

-- Tenants' own workflows: of each name the latest versions. The one with the highest number runs.
CREATE TABLE workflows (
    seq BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    contributor TEXT COLLATE "C" NOT NULL,
    created_at_s DOUBLE PRECISION NOT NULL,
    size_bytes BIGINT NOT NULL,
    definition BYTEA NOT NULL
);
CREATE UNIQUE INDEX workflows_by_version ON workflows (tenant, name, version);
CREATE UNIQUE INDEX workflows_by_number ON workflows (tenant, name, number);
CREATE INDEX workflows_by_name ON workflows (name);
CREATE INDEX workflows_by_contributor ON workflows (tenant, contributor) WHERE contributor <> '';
CREATE FUNCTION workflows_grow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO workflow_bytes VALUES (NEW.tenant, NEW.size_bytes)
        ON CONFLICT (tenant) DO UPDATE SET total_bytes = workflow_bytes.total_bytes + excluded.total_bytes;
    RETURN NULL;
END $$;
CREATE TRIGGER workflows_grow AFTER INSERT ON workflows FOR EACH ROW
    EXECUTE FUNCTION workflows_grow();
CREATE FUNCTION workflows_shrink() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE workflow_bytes SET total_bytes = total_bytes - OLD.size_bytes WHERE tenant = OLD.tenant;
    RETURN NULL;
END $$;
CREATE TRIGGER workflows_shrink AFTER DELETE ON workflows FOR EACH ROW
    EXECUTE FUNCTION workflows_shrink();

-- Runs: steps joined by variables that are written once. Texts stand apart from what changes often, and go first.
CREATE TABLE workflow_runs (
    id TEXT COLLATE "C" PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    contributor TEXT COLLATE "C" NOT NULL,
    app TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('running', 'done', 'failed', 'cancelled')),
    no_store BIGINT NOT NULL,
    background BIGINT NOT NULL,
    -- JSON object: variable id to criteria.
    gets TEXT COLLATE "C" NOT NULL,
    budget_usd DOUBLE PRECISION,
    budget_tokens BIGINT,
    budget_s DOUBLE PRECISION,
    keep_values_s DOUBLE PRECISION NOT NULL,
    idempotency_key TEXT COLLATE "C" NOT NULL,
    idempotency_hash BYTEA NOT NULL,
    cancel_asked BIGINT NOT NULL DEFAULT 0,
    adoptions BIGINT NOT NULL DEFAULT 0,
    created_at_s DOUBLE PRECISION NOT NULL,
    ended_at_s DOUBLE PRECISION,
    expires_at_s DOUBLE PRECISION,
    -- Its texts are deleted.
    expired BIGINT NOT NULL DEFAULT 0,
    -- JSON object; its message and body go with the texts.
    failure TEXT COLLATE "C",
    -- JSON array of step ids.
    critical_path TEXT COLLATE "C" NOT NULL DEFAULT '[]',
    round_trips_saved BIGINT NOT NULL DEFAULT 0,
    workflow TEXT COLLATE "C" NOT NULL DEFAULT '',
    version TEXT COLLATE "C" NOT NULL DEFAULT '',
    -- Whose it is where each end user has a memory of their own: nobody else reads it by its id.
    end_user TEXT COLLATE "C" NOT NULL DEFAULT ''
);
CREATE INDEX workflow_runs_by_time ON workflow_runs (created_at_s, id);
CREATE INDEX workflow_runs_by_tenant ON workflow_runs (tenant, created_at_s, id);
CREATE INDEX workflow_runs_by_app ON workflow_runs (app, created_at_s, id) WHERE app <> '';
CREATE INDEX workflow_runs_by_state ON workflow_runs (state, created_at_s, id);
CREATE INDEX workflow_runs_live ON workflow_runs (tenant) WHERE state = 'running';
CREATE INDEX workflow_runs_by_expiry ON workflow_runs (expires_at_s) WHERE expired = 0 AND expires_at_s IS NOT NULL;
CREATE INDEX workflow_runs_by_end ON workflow_runs (ended_at_s) WHERE ended_at_s IS NOT NULL;
CREATE UNIQUE INDEX workflow_runs_by_key ON workflow_runs (tenant, idempotency_key) WHERE idempotency_key <> '';
CREATE INDEX workflow_runs_by_workflow ON workflow_runs (workflow, created_at_s, id) WHERE workflow <> '';

-- Who is behind a run or one of its steps: calls of several users may join one run.
CREATE TABLE workflow_contributors (
    tenant TEXT COLLATE "C" NOT NULL,
    contributor TEXT COLLATE "C" NOT NULL,
    run_id TEXT COLLATE "C" NOT NULL REFERENCES workflow_runs (id) ON DELETE CASCADE,
    PRIMARY KEY (tenant, contributor, run_id)
);
CREATE INDEX workflow_contributors_by_run ON workflow_contributors (run_id);

-- Steps of runs. One that has not ended is claimed by the worker that carries it out, until a time by the database's clock.
CREATE TABLE workflow_steps (
    run_id TEXT COLLATE "C" NOT NULL REFERENCES workflow_runs (id) ON DELETE CASCADE,
    step TEXT COLLATE "C" NOT NULL,
    position BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    model TEXT COLLATE "C" NOT NULL,
    -- embed, search, tool and so on; who does it, where that is no engine.
    primitive TEXT COLLATE "C" NOT NULL,
    component TEXT COLLATE "C" NOT NULL,
    effects BIGINT NOT NULL,
    -- JSON objects: name to variable id. A JSON array of variable ids.
    reads TEXT COLLATE "C" NOT NULL,
    writes TEXT COLLATE "C" NOT NULL,
    waits TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL CHECK (
        state IN ('waiting', 'queued', 'running', 'done', 'failed', 'cancelled', 'skipped', 'unknown')
    ),
    attempts BIGINT NOT NULL,
    rank TEXT COLLATE "C" NOT NULL,
    task_group TEXT COLLATE "C" NOT NULL,
    depth BIGINT NOT NULL,
    engine TEXT COLLATE "C" NOT NULL,
    replica TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C" NOT NULL,
    ready_at_s DOUBLE PRECISION,
    queued_at_s DOUBLE PRECISION,
    started_at_s DOUBLE PRECISION,
    first_at_s DOUBLE PRECISION,
    ended_at_s DOUBLE PRECISION,
    prompt_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    items BIGINT NOT NULL,
    batch TEXT COLLATE "C" NOT NULL,
    failure TEXT COLLATE "C",
    -- JSON object: what somebody decided about a step whose outcome is unknown; gone once the step goes on.
    resolution TEXT COLLATE "C",
    claimed_by TEXT COLLATE "C" NOT NULL DEFAULT '',
    -- NULL: it has ended.
    claimed_until_s DOUBLE PRECISION,
    PRIMARY KEY (run_id, step)
);
CREATE INDEX workflow_steps_by_batch ON workflow_steps (batch) WHERE batch <> '';
CREATE INDEX workflow_steps_unknown ON workflow_steps (run_id, step) WHERE state = 'unknown';
CREATE INDEX workflow_steps_due ON workflow_steps (claimed_until_s) WHERE claimed_until_s IS NOT NULL;

-- What a step asks; of the empty step: what whoever adopts the run needs. A step's row is written anew with each change,
-- these once.
CREATE TABLE workflow_texts (
    run_id TEXT COLLATE "C" NOT NULL REFERENCES workflow_runs (id) ON DELETE CASCADE,
    step TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    size_bytes BIGINT NOT NULL,
    text BYTEA NOT NULL,
    UNIQUE (run_id, step)
);
CREATE FUNCTION workflow_texts_grow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO workflow_bytes VALUES (NEW.tenant, NEW.size_bytes)
        ON CONFLICT (tenant) DO UPDATE SET total_bytes = workflow_bytes.total_bytes + excluded.total_bytes;
    RETURN NULL;
END $$;
CREATE TRIGGER workflow_texts_grow AFTER INSERT ON workflow_texts FOR EACH ROW
    EXECUTE FUNCTION workflow_texts_grow();
CREATE FUNCTION workflow_texts_shrink() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE workflow_bytes SET total_bytes = total_bytes - OLD.size_bytes WHERE tenant = OLD.tenant;
    RETURN NULL;
END $$;
CREATE TRIGGER workflow_texts_shrink AFTER DELETE ON workflow_texts FOR EACH ROW
    EXECUTE FUNCTION workflow_texts_shrink();

-- What steps read and write.
CREATE TABLE variables (
    rowid BIGINT GENERATED BY DEFAULT AS IDENTITY,
    id TEXT COLLATE "C" PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    contributor TEXT COLLATE "C" NOT NULL,
    app TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    -- NULL: declared or set by itself.
    run_id TEXT COLLATE "C" REFERENCES workflow_runs (id) ON DELETE CASCADE,
    -- Empty: no step produces it.
    step TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('pending', 'streaming', 'ready', 'failed', 'cancelled', 'skipped')),
    attempt BIGINT NOT NULL DEFAULT 0,
    is_list BIGINT NOT NULL DEFAULT 0,
    size_bytes BIGINT NOT NULL,
    failure TEXT COLLATE "C",
    created_at_s DOUBLE PRECISION NOT NULL,
    ended_at_s DOUBLE PRECISION,
    expires_at_s DOUBLE PRECISION,
    expired BIGINT NOT NULL DEFAULT 0,
    -- UTF-8; of a list: a JSON array.
    value BYTEA,
    -- As of workflow_runs.
    end_user TEXT COLLATE "C" NOT NULL DEFAULT '',
    -- Whether another worker reads its text as it comes: then `value` grows while it streams.
    streamed BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX variables_by_name ON variables (tenant, app, name) WHERE app <> '' AND expired = 0;
CREATE INDEX variables_by_run ON variables (run_id);
CREATE INDEX variables_by_contributor ON variables (tenant, contributor) WHERE contributor <> '';
CREATE INDEX variables_by_expiry ON variables (expires_at_s) WHERE expired = 0 AND expires_at_s IS NOT NULL;
CREATE INDEX variables_streamed ON variables (run_id) WHERE streamed = 1;
CREATE FUNCTION variables_grow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO workflow_bytes VALUES (NEW.tenant, NEW.size_bytes)
        ON CONFLICT (tenant) DO UPDATE SET total_bytes = workflow_bytes.total_bytes + excluded.total_bytes;
    RETURN NULL;
END $$;
CREATE TRIGGER variables_grow AFTER INSERT ON variables FOR EACH ROW
    WHEN (NEW.size_bytes > 0)
    EXECUTE FUNCTION variables_grow();
CREATE FUNCTION variables_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO workflow_bytes VALUES (NEW.tenant, NEW.size_bytes - OLD.size_bytes)
        ON CONFLICT (tenant) DO UPDATE SET total_bytes = workflow_bytes.total_bytes + excluded.total_bytes;
    RETURN NULL;
END $$;
CREATE TRIGGER variables_change AFTER UPDATE OF size_bytes ON variables FOR EACH ROW
    WHEN (NEW.size_bytes <> OLD.size_bytes)
    EXECUTE FUNCTION variables_change();
CREATE FUNCTION variables_shrink() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE workflow_bytes SET total_bytes = total_bytes - OLD.size_bytes WHERE tenant = OLD.tenant;
    RETURN NULL;
END $$;
CREATE TRIGGER variables_shrink AFTER DELETE ON variables FOR EACH ROW
    WHEN (OLD.size_bytes > 0)
    EXECUTE FUNCTION variables_shrink();

-- Triggers keep each tenant's sum, so that its cap costs no scan.
CREATE TABLE workflow_bytes (
    tenant TEXT COLLATE "C" PRIMARY KEY,
    total_bytes BIGINT NOT NULL
);

-- Texts with their vectors, which outlive the runs that kept them. Triggers keep the sums.
CREATE TABLE collections (
    tenant TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    -- Another one since anything was removed or replaced.
    generation TEXT COLLATE "C" NOT NULL,
    texts BIGINT NOT NULL DEFAULT 0,
    size_bytes BIGINT NOT NULL DEFAULT 0,
    created_at_s DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- Indexes in memory follow these rows.
CREATE TABLE collection_texts (
    seq BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    collection TEXT COLLATE "C" NOT NULL,
    contributor TEXT COLLATE "C" NOT NULL,
    -- Of the text.
    digest BYTEA NOT NULL,
    created_at_s DOUBLE PRECISION NOT NULL,
    -- Of text and vector.
    size_bytes BIGINT NOT NULL,
    -- The embedder that made the vector.
    identity TEXT COLLATE "C" NOT NULL,
    vector BYTEA NOT NULL,
    text BYTEA NOT NULL,
    FOREIGN KEY (tenant, collection) REFERENCES collections (tenant, name) ON DELETE CASCADE
);
CREATE UNIQUE INDEX collection_texts_by_digest ON collection_texts (tenant, collection, contributor, digest);
CREATE INDEX collection_texts_by_seq ON collection_texts (tenant, collection, seq);
CREATE INDEX collection_texts_by_contributor ON collection_texts (tenant, contributor) WHERE contributor <> '';
CREATE FUNCTION collection_texts_grow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO workflow_bytes VALUES (NEW.tenant, NEW.size_bytes)
        ON CONFLICT (tenant) DO UPDATE SET total_bytes = workflow_bytes.total_bytes + excluded.total_bytes;
    UPDATE collections SET texts = texts + 1, size_bytes = size_bytes + NEW.size_bytes
        WHERE tenant = NEW.tenant AND name = NEW.collection;
    RETURN NULL;
END $$;
CREATE TRIGGER collection_texts_grow AFTER INSERT ON collection_texts FOR EACH ROW
    EXECUTE FUNCTION collection_texts_grow();
CREATE FUNCTION collection_texts_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE workflow_bytes SET total_bytes = total_bytes + NEW.size_bytes - OLD.size_bytes WHERE tenant = NEW.tenant;
    UPDATE collections SET size_bytes = size_bytes + NEW.size_bytes - OLD.size_bytes
        WHERE tenant = NEW.tenant AND name = NEW.collection;
    RETURN NULL;
END $$;
CREATE TRIGGER collection_texts_change AFTER UPDATE OF size_bytes ON collection_texts FOR EACH ROW
    WHEN (NEW.size_bytes <> OLD.size_bytes)
    EXECUTE FUNCTION collection_texts_change();
CREATE FUNCTION collection_texts_shrink() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    UPDATE workflow_bytes SET total_bytes = total_bytes - OLD.size_bytes WHERE tenant = OLD.tenant;
    UPDATE collections SET texts = texts - 1, size_bytes = size_bytes - OLD.size_bytes
        WHERE tenant = OLD.tenant AND name = OLD.collection;
    RETURN NULL;
END $$;
CREATE TRIGGER collection_texts_shrink AFTER DELETE ON collection_texts FOR EACH ROW
    EXECUTE FUNCTION collection_texts_shrink();
