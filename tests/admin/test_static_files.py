"""Scripts and style sheets: served from here, kept by browsers for as long as they stay the same."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from admin.static_files import CHARTS, StaticFiles, charts_script
from tests.admin.site import Site, site


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


async def test_a_file_is_packed_and_may_be_kept_for_ever(pages: Site) -> None:
    url = StaticFiles().url("admin.css")
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        async with session.get(pages.url + url, headers={"Accept-Encoding": "gzip"}) as packed:
            assert packed.headers["Cache-Control"] == "public, max-age=31536000, immutable"
            text = gzip.decompress(await packed.read())
        async with session.get(pages.url + url, headers={"Accept-Encoding": "identity"}) as plain:
            assert await plain.read() == text and b"--ground" in text


def test_the_charting_library_comes_out_of_its_wheel() -> None:
    path = charts_script()
    assert path is not None
    found = StaticFiles().get(StaticFiles().url(CHARTS).split("/")[2], CHARTS)
    assert found is not None and gzip.decompress(found.packed()) == path.read_bytes()
    assert len(found.packed()) < path.stat().st_size / 2


@pytest.mark.parametrize(
    "path", ["/static/0/admin.css", "/static/0/../admin.js", "/static/x/%2e%2e%2fapp.py"]
)
async def test_nothing_else_is_served(pages: Site, path: str) -> None:
    assert (await pages.stranger().get(path)).status in (303, 404)


def test_no_script_or_style_sheet_fetches_anything_from_elsewhere() -> None:
    folder = Path(__file__).parents[2] / "admin"
    for path in [*folder.glob("static/*"), *folder.glob("templates/*")]:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text and "https://" not in text and "@import" not in text, path
