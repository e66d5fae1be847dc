"""Terms have one meaning, on the help page and in tooltips."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markupsafe import escape

from admin.glossary import TERMS
from admin.pages.help import HELP
from admin.rendering import Rendering
from admin.static_files import StaticFiles
from tests.admin.site import site

TEMPLATES = Path(__file__).parents[2] / "admin" / "templates"


async def test_every_term_is_on_the_help_page(tmp_path: Path) -> None:
    assert list(TERMS) == sorted(TERMS, key=str.lower)
    async with site(tmp_path) as pages:
        page = (await (await pages.person("viewer")).get(HELP.path)).text
        assert all(f">{term}</dt>" in page for term in TERMS)


BY_VALUE = {"Critical", "Warning"}
"""Terms of badges whose text is the state of something."""


def test_every_term_has_a_tooltip_where_it_is_shown() -> None:
    said = set(BY_VALUE)
    for template in sorted(TEMPLATES.glob("*.html")):
        text = template.read_text(encoding="utf-8")
        for first, second in re.findall(r"\bterm\(\"([^\"]*)\"(?:, \"([^\"]*)\")?", text):
            said.add(second or first)
        for line in text.splitlines():
            if re.search(r"\b(?:badge|figure|head|meaning)\(|WAYS = |\"failed_over\": \(", line):
                said |= {name[:1].upper() + name[1:] for name in re.findall(r"\"([^\"]*)\"", line)} | set(
                    re.findall(r"meaning\(\"([^\"]*)\"", line)
                )
    assert set(TERMS) - said == set()


@pytest.mark.parametrize(
    ("part", "term"),
    [
        ('badge("failed over", "warn")', "Failed over"),
        ('badge("critical", "bad")', "Critical"),
        ('badge("warning", "warn")', "Warning"),
        ('standing("at_risk")', "At risk"),
        ('figure("Offloaded", 1, "", "", "/requests")', "Offloaded"),
        ('figure("Latency", 1)', "Latency"),
        ('head("Model versions", "/learning.json")', "Model versions"),
        ('spread({"p50": 1, "p95": 2})', "p50, p95"),
    ],
)
def test_what_is_a_term_carries_its_meaning_by_itself(part: str, term: str) -> None:
    page = Rendering(StaticFiles(), {})._environment.from_string(
        '{% import "parts.html" as parts %}{{ parts.' + part + " }}"
    )
    assert f'title="{escape(TERMS[term])}"' in page.render()


def test_what_is_no_term_has_no_tooltip() -> None:
    page = Rendering(StaticFiles(), {})._environment.from_string(
        '{% import "parts.html" as parts %}{{ parts.badge("pinned") }}{{ parts.figure("Cost", 1) }}'
    )
    assert "title" not in page.render()
