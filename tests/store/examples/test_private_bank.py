"""No way into a private tenant's bank but the synthetic one; what was told stays booked whatever is deleted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from store.examples.bank import ExampleBank
from store.examples.private_bank import PrivateBank
from store.examples.rows import remove
from store.sqlite.database import Database
from tests.store.rows import new_example

STORE = Path(__file__).parents[3] / "store"


def begin(db: Database, tenant: str) -> int:
    private = PrivateBank(db)
    return (
        ExampleBank(db)
        .write_removal(lambda c: remove(c, tenant, private.begin(c, tenant), erase=True))
        .result(30)
    )


@pytest.mark.sqlite
def test_no_answer_is_kept_at_all(db: Database) -> None:
    begin(db, "a1")
    ExampleBank(db).admit(new_example(1, answer="SECRET ANSWER")).result(30)
    dump = "\n".join(db.read().execute("SELECT sql FROM sqlite_master").fetchone() or ())
    assert dump
    tables = [name for (name,) in db.read().execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in tables:
        rows = db.read().execute(f"SELECT * FROM {table}").fetchall()
        assert "SECRET ANSWER" not in repr(rows), table
        if table != "private_questions":
            assert "question 1" not in repr(rows), table


def test_one_function_inserts_into_the_bank_and_one_file_reads_what_was_put_aside() -> None:
    """If this fails, somebody inserts elsewhere: let that ask store.examples.private_bank.put_aside first."""
    sources = {path.relative_to(STORE).as_posix(): path.read_text("utf-8") for path in STORE.rglob("*.py")}
    inserting = {
        name for name, text in sources.items() if re.search(r"INSERT (OR \w+ )?INTO examples\b", text)
    }
    assert inserting == {"examples/rows.py"}
    calling = {name for name, text in sources.items() if re.search(r"example_rows\.insert\(", text)}
    # versions.py adds variations of what is in the bank, which in a private one is synthetic itself.
    assert calling == {"examples/admitting.py", "examples/versions.py"}
    root = STORE.parent
    reading = {
        path.relative_to(root).as_posix()
        for room in ("understudy", "gateway", "admin", "learning", "router", "engines", "store")
        for path in (root / room).rglob("*.py")
        if re.search(r"private_questions", path.read_text("utf-8"))
    }
    # contributors.py reads names of contributors, so that theirs can be deleted.
    # The stamps are no content.
    # The list of tables says when its rows end; a statement of what is left counts them.
    assert reading - {"store/decisions/stamps.py", "store/tables.py", "store/held.py"} == {
        "store/examples/private_bank.py",
        "store/examples/contributors.py",
    }
