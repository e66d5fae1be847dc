"""Every page of the menu says what it cannot know."""

from __future__ import annotations

from pathlib import Path

from admin.pages import PAGES
from admin.unknown import UNKNOWN
from tests.admin.site import site

MENU = {page.path for page in PAGES if page.in_menu}


def test_every_page_of_the_menu_has_a_sentence_and_no_other_has() -> None:
    assert set(UNKNOWN) == MENU


async def test_it_stands_at_the_end_of_the_page(tmp_path: Path) -> None:
    async with site(tmp_path) as pages:
        operator = await pages.person("operator")
        for path in MENU:
            assert (await operator.get(path)).text.count("Not known here: ") == 1, path
