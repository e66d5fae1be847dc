"""Terms have one meaning, on the help page and in tooltips."""

from __future__ import annotations

from pathlib import Path

from admin.glossary import TERMS
from admin.pages.help import HELP
from tests.admin.site import site


async def test_every_term_is_on_the_help_page(tmp_path: Path) -> None:
    assert list(TERMS) == sorted(TERMS, key=str.lower)
    async with site(tmp_path) as pages:
        page = (await (await pages.person("viewer")).get(HELP.path)).text
        assert all(f">{term}</dt>" in page for term in TERMS)
