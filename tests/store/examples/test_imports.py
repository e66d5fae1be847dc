"""The cursor of an import only ever moves on, and belongs to one file and one tenant."""

from __future__ import annotations

from pathlib import Path

from store.examples.imports import ImportCursors
from store.sqlite.database import Database

FILE, OTHER = "a" * 64, "b" * 64


def test_a_cursor_moves_on_and_never_back(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "understudy.db")
    cursors = ImportCursors(db)
    assert cursors.lines_done(FILE, "acme") == 0
    for lines in (500, 1000, 700):
        cursors.advance(FILE, "acme", lines).result(30)
    assert cursors.lines_done(FILE, "acme") == 1000
    db.close()
    reopened = Database.open(tmp_path / "understudy.db")
    assert ImportCursors(reopened).lines_done(FILE, "acme") == 1000
    reopened.close()


def test_another_file_or_tenant_is_never_taken_for_done(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "understudy.db")
    cursors = ImportCursors(db)
    cursors.advance(FILE, "acme", 500).result(30)
    assert cursors.lines_done(OTHER, "acme") == cursors.lines_done(FILE, "umbrella") == 0
    assert cursors.forget_tenant("acme").result(30) == 1
    assert cursors.lines_done(FILE, "acme") == 0
    db.close()
