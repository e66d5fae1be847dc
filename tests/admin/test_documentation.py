"""The documentation on the admin pages: of the version that runs, every page and every link of it."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from admin.documentation import FOLDER, INDEX, as_html, document, documents
from admin.pages.docs import DOCS
from tests.admin.site import site

ROOT = Path(__file__).parents[2]


async def test_every_page_leads_to_the_documentation_of_its_version(tmp_path: Path) -> None:
    async with site(tmp_path) as pages:
        viewer = await pages.person("viewer")
        foot = (await viewer.get("/overview")).text.partition('<footer class="foot">')[2]
        assert re.search(r"Understudy \d+\.\d+", foot) and '<a href="/docs">Documentation</a>' in foot
        index = await viewer.get(DOCS.path)
        assert index.status == 200 and 'href="/docs/how-to/use-the-admin-pages"' in index.text
        assert 'href="/docs/reference/settings"' in (await viewer.get("/help")).text
        page = await viewer.get("/docs/how-to/use-the-admin-pages")
        assert page.status == 200 and "<h1>Use the admin pages</h1>" in page.text
        assert '<h2 id="doc-sign-in">Sign in</h2>' in page.text
        assert (await pages.stranger().get("/docs")).status == 303


async def test_titles_and_headings_are_found_by_their_words(tmp_path: Path) -> None:
    async with site(tmp_path) as pages:
        viewer = await pages.person("viewer")
        title = (await viewer.get(f"{DOCS.path}?q=glossary")).text
        assert '<li><a href="/docs/reference/glossary">Glossary</a></li>' in title
        shown = (await viewer.get(f"{DOCS.path}?q=SETTINGS+listen")).text
        assert 'href="/docs/reference/settings#doc-listen"' in shown
        nothing = await viewer.get(f"{DOCS.path}?q=<script>xyzzy")
        assert nothing.status == 200 and "No title and no heading" in nothing.text


@pytest.mark.parametrize("path", ["/docs/how-to/none", "/docs/..%2f..%2fadmin/app", "/docs/%00/x"])
async def test_nothing_but_the_documentation_is_shown(tmp_path: Path, path: str) -> None:
    async with site(tmp_path) as pages:
        got = await (await pages.person("viewer")).get(path)
        assert got.status == 404 and "Traceback" not in got.text


def test_every_link_leads_to_a_page_that_is_there_and_to_a_heading_of_it() -> None:
    index = document(INDEX)
    assert index is not None
    made = {each.path: as_html(each.text, each.file) for each in (index, *documents())}
    ids = {path: re.findall(r'id="([^"]+)"', html) for path, html in made.items()}
    led = 0
    for path, html in made.items():
        assert "style=" not in html and "<img" not in html, path
        for href in re.findall(r'href="([^"]+)"', html):
            if not href.startswith(("https://", "http://")):
                page, _, heading = href.partition("#")
                assert not heading or heading in ids[page or path], f"{path}: {href}"
                assert not page or page in made, f"{path}: {href}"
                led += 1
    assert led > 300
    assert len(made) == 1 + len(list(FOLDER.glob("*/*.md")))


def test_markup_in_a_page_stays_text_and_no_link_runs_a_script() -> None:
    html = as_html(
        "<script>x</script> [a](javascript:alert(1)) ![b](c.svg) [d](../../README.md)", "how-to/x.md"
    )
    assert html == "<p>&lt;script&gt;x&lt;/script&gt; [a](javascript:alert(1)) b d</p>\n"


def test_the_wheel_brings_the_documentation_along(tmp_path: Path) -> None:
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(built) as wheel:
        there = {
            name.removeprefix("admin/docs/") for name in wheel.namelist() if name.startswith("admin/docs/")
        }
    assert {INDEX, *(each.file for each in documents())} <= there
