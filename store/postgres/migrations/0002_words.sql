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

ALTER TABLE examples
    ADD COLUMN question_words tsvector GENERATED ALWAYS AS (words_of(question)) STORED,
    ADD COLUMN words tsvector GENERATED ALWAYS AS (words_of(question || ' ' || answer)) STORED,
    ADD COLUMN word_count bigint
        GENERATED ALWAYS AS (count_words(tenant || ' ' || scope || ' ' || question || ' ' || answer)) STORED;
CREATE INDEX examples_by_question_words ON examples USING gin (question_words);
CREATE INDEX examples_by_words ON examples USING gin (words);
ALTER TABLE request_texts ADD COLUMN words tsvector
    GENERATED ALWAYS AS (CASE WHEN conversation IS NOT NULL THEN words_of(question || ' ' || answer) END) STORED;
CREATE INDEX request_texts_by_words ON request_texts USING gin (words);
