"""The cursor of an import only ever moves on, and belongs to one file and one tenant."""

from __future__ import annotations

from store import Store
from tests.store.contract.conftest import Opening

FILE, OTHER = "a" * 64, "b" * 64


def test_a_cursor_moves_on_and_never_back(store: Store, open_store: Opening) -> None:
    cursors = store.examples.imports
    assert cursors.lines_done(FILE, "acme") == 0
    for lines in (500, 1000, 700):
        cursors.advance(FILE, "acme", lines).result(30)
    assert cursors.lines_done(FILE, "acme") == 1000
    store.close()
    assert open_store().examples.imports.lines_done(FILE, "acme") == 1000


def test_another_file_or_tenant_is_never_taken_for_done(store: Store) -> None:
    cursors = store.examples.imports
    cursors.advance(FILE, "acme", 500).result(30)
    assert cursors.lines_done(OTHER, "acme") == cursors.lines_done(FILE, "umbrella") == 0
    assert cursors.forget_tenant("acme").result(30) == 1
    assert cursors.lines_done(FILE, "acme") == 0
