"""Claims to the outside: each figure of the README has a row, and the page is what the rows come to."""

from __future__ import annotations

from benchmarks import claims
from benchmarks.recorded import ROOT


def test_every_figure_of_the_readme_has_a_row() -> None:
    assert claims.without_a_row((ROOT / "README.md").read_text(encoding="utf-8"), claims.claims()) == []


def test_the_page_is_what_the_rows_come_to() -> None:
    assert claims.PAGE.read_text(encoding="utf-8") == claims.page(claims.claims()), "run `make claims`"


def test_every_row_says_how_it_is_known_and_which_code_it_speaks_of() -> None:
    for row in claims.claims():
        assert row.kind in ("real", "recorded", "simulated") and row.figures and row.date
        assert row.command.startswith(("python -m benchmarks.", "make ")), row.claim
        assert all((ROOT / path).exists() for path in row.code), row.claim
