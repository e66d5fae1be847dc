"""The benchmark of the admin pages runs, on a log that takes a second to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from admin.pages import PAGES
from benchmarks.admin_pages.__main__ import measured


@pytest.mark.slow
async def test_every_page_is_asked_for_and_timed(tmp_path: Path) -> None:
    figures = await measured(tmp_path, requests=300, examples=20)
    assert figures["requests"] == 300
    assert {page.path for page in PAGES if "{" not in page.path} <= {
        path.partition("?")[0] for path in figures["pages"]
    }
    assert {"/requests?q=hidden+files", "/router?span=week"} <= set(figures["pages"])
    assert all(took["median_ms"] > 0 for took in figures["pages"].values())
    assert figures["while_computing"]["/overview"]["asked"] > 0
    assert all(pages["/router"]["asked"] > 0 for pages in figures["while_drawing"].values())
