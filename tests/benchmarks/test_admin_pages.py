"""The benchmark of the admin pages runs, on a log that takes a second to write."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from admin.pages import PAGES

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


async def test_every_page_is_asked_for_and_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    admin_pages = importlib.import_module("admin_pages")
    figures = await admin_pages.measured(tmp_path, requests=300, examples=20)
    assert figures["requests"] == 300
    assert {page.path for page in PAGES if "{" not in page.path} <= set(figures["pages"])
    assert {"/requests?q=hidden+files", "/router?span=week"} <= set(figures["pages"])
    assert all(took["median_ms"] > 0 for took in figures["pages"].values())
    assert figures["while_computing"]["/overview"]["asked"] > 0
