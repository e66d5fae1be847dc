"""SQLite's schema in PostgreSQL's words: `python -m tests.store.postgres.from_sqlite` prints the first migration.

Later migrations are written in pairs; tests/store/postgres/test_schema.py compares what both make.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from store.moving.tables import BY_ROWID, OF_SQLITE, WORDS_TRIGGERS
from store.sqlite.database import Database
from store.sqlite.schema import MIGRATIONS_FOLDER, numbered_files

_TYPES = {"INTEGER": "BIGINT", "REAL": "DOUBLE PRECISION", "BLOB": "BYTEA", "TEXT": 'TEXT COLLATE "C"'}
_TRIGGER = re.compile(
    r"CREATE TRIGGER (?P<name>\w+) AFTER (?P<event>INSERT|DELETE|UPDATE(?: OF [\w, ]+)?) ON (?P<table>\w+)"
    r"(?P<when>.*?)\bBEGIN\s(?P<body>.*)END",
    re.DOTALL,
)

_LATER = "0089"
"""From this migration on both databases have files of their own."""
_BY_HAND = {
    "outcomes_learn_their_model": (
        "UPDATE outcomes SET model = NEW.model, id = nextval(pg_get_serial_sequence('outcomes', 'id'))"
        " WHERE tenant = NEW.tenant AND request_id = NEW.request_id AND model = '';"
    )
}
"""Bodies of triggers that SQLite says in words of its own."""

HELPERS = r"""-- What SQLite has under these names.
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
"""


def script(before: str = _LATER) -> str:
    """All that the migrations before this one make, ready to be run."""
    with tempfile.TemporaryDirectory() as folder:
        path, first = Path(folder) / "understudy.db", Path(folder) / "migrations"
        first.mkdir()
        for file in numbered_files(MIGRATIONS_FOLDER):
            if file.name < before:
                shutil.copy(file, first)
        Database.open(path, migrations=first).close()
        with sqlite3.connect(path) as connection:
            return "\n".join(_parts(connection))


def _parts(connection: sqlite3.Connection) -> Iterator[str]:
    yield (
        "-- Made by tests/store/postgres/from_sqlite.py from SQLite's schema."
        " Later migrations are written by hand, in pairs.\n"
    )
    yield HELPERS
    tables = {
        name: sql
        for name, sql in connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL ORDER BY name"
        )
        if not OF_SQLITE.fullmatch(name)
    }
    for name in _in_order(tables):
        yield table(tables[name]) + ";\n"
    for name, sql in connection.execute(
        "SELECT tbl_name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL ORDER BY name"
    ):
        if name in tables:
            yield f"{sql};"
    yield ""
    for name, sql in connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name"
    ):
        if not WORDS_TRIGGERS.fullmatch(name):
            yield trigger(sql)
    for name in sorted(tables):
        yield from _rows(connection, name)


def table(sql: str) -> str:
    """One CREATE TABLE."""
    lines = [_without_comment(line) for line in sql.replace(") WITHOUT ROWID", ")").splitlines()]
    text = "\n".join(line for line in lines if line.strip())
    text = re.sub(
        r"(\b(?!only_row\b)\w+) INTEGER PRIMARY KEY(?: AUTOINCREMENT)?(?! REFERENCES| CHECK)",
        r"\1 BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
        text,
    )
    text = re.sub(r"(?<=[\w\"] )(INTEGER|REAL|BLOB|TEXT)\b", lambda found: _TYPES[found[1]], text)
    if any(text.startswith(f"CREATE TABLE {name} ") for name in BY_ROWID):
        text = text.replace("(\n", "(\n    rowid BIGINT GENERATED BY DEFAULT AS IDENTITY,\n", 1)
    # Reserved in PostgreSQL.
    return re.sub(r"(?m)^(\s+)user ", r'\1"user" ', text)


def _without_comment(line: str) -> str:
    return re.sub(r"\s*--.*", "", line)


def trigger(sql: str) -> str:
    """One CREATE TRIGGER, with the function that it runs."""
    found = _TRIGGER.match(sql)
    if found is None:
        raise ValueError(f"not understood: {sql.splitlines()[0]}")
    body = re.sub(r"\bIS NOT (?!NULL)", "IS DISTINCT FROM ", _BY_HAND.get(found["name"], found["body"]))
    body = re.sub(r"length\(CAST\((.*?) AS BLOB\)\)", r"octet_length(\1)", body)
    # An unqualified column of DO UPDATE SET is ambiguous in PostgreSQL.
    body = re.sub(
        r"(INSERT INTO (\w+)\b.*?DO UPDATE SET )(.*?);",
        lambda set_: set_[1] + re.sub(r"(\w+) = (\w+)", rf"\1 = {set_[2]}.\2", set_[3]) + ";",
        body,
        flags=re.DOTALL,
    )
    when = re.sub(r"\bIS NOT (?!NULL)", "IS DISTINCT FROM ", found["when"]).replace("WHEN", "", 1).strip()
    condition = f"\n    WHEN ({when})" if when else ""
    return (
        f"CREATE FUNCTION {found['name']}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN\n    {body.strip()}\n"
        f"    RETURN NULL;\nEND $$;\n"
        f"CREATE TRIGGER {found['name']} AFTER {found['event']} ON {found['table']} FOR EACH ROW{condition}\n"
        f"    EXECUTE FUNCTION {found['name']}();\n"
    )


def _in_order(tables: dict[str, str]) -> list[str]:
    """Each after those that it refers to."""
    done: list[str] = []
    while len(done) < len(tables):
        for name, sql in tables.items():
            wanted = set(re.findall(r"REFERENCES (\w+)", sql)) - {name}
            if name not in done and wanted <= set(done):
                done.append(name)
    return done


def _rows(connection: sqlite3.Connection, name: str) -> Iterator[str]:
    if name == "installation":
        yield "INSERT INTO installation VALUES (1, replace(gen_random_uuid()::text, '-', ''));"
        return
    for row in connection.execute(f"SELECT * FROM {name}"):
        values = ", ".join(f"'{value}'" if isinstance(value, str) else str(value) for value in row)
        yield f"INSERT INTO {name} VALUES ({values});"


if __name__ == "__main__":
    print(script())
