"""The menu: groups, and nothing that somebody may not open."""

from __future__ import annotations

from pathlib import Path

from admin.menu import ORDER, menu_of
from admin.pages import PAGES
from admin.roles import Role
from tests.admin.site import site


def test_every_page_of_the_menu_stands_in_it_once() -> None:
    listed = [entry.path for heading in menu_of(PAGES) for entry in heading.entries]
    assert sorted(listed) == sorted(page.path for page in PAGES if page.in_menu)
    assert len({path for _, paths in ORDER for path in paths}) == sum(len(paths) for _, paths in ORDER)
    assert listed[0] == "/overview"


def test_a_viewer_is_not_offered_what_is_an_operators() -> None:
    offered = [entry.path for heading in menu_of(PAGES) for entry in heading.seen_by(Role.VIEWER)]
    assert "/audit" not in offered and "/requests" in offered


async def test_the_foot_names_version_and_time_zone(tmp_path: Path) -> None:
    async with site(tmp_path, admin={"time_zone": "Asia/Kolkata"}) as pages:
        viewer, operator = await pages.person("viewer"), await pages.person("operator")
        page = (await viewer.get("/overview")).text
        assert "Times are in Asia/Kolkata. Understudy 0." in page and 'href="/help"' in page
        assert 'href="/audit"' not in page and 'href="/audit"' in (await operator.get("/overview")).text
