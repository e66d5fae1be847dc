"""What pages tell operators to set is a setting that there is."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"\b(?:models|engines|keys|tenants)\.NAME(?:\.\w+)+")


def test_pages_name_settings_that_the_configuration_takes() -> None:
    reference = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    settings = set(re.findall(r"^\| `([^`]+)`", reference, re.MULTILINE))
    named = {
        found.replace("NAME", "*")
        for page in (ROOT / "admin" / "templates").glob("*.html")
        for found in NAMED.findall(page.read_text(encoding="utf-8"))
    }
    assert named and not {
        one for one in named if not any(each == one or each.startswith(f"{one}.") for each in settings)
    }
