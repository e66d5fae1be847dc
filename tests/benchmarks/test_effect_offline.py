"""The offline arms on a made set: what is asked, kept, graded and computed; and the figures of real models kept here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.effect import offline
from benchmarks.recorded import ROOT

KEPT = ROOT / "docs" / "experiments" / "effect-offline.json"


@pytest.fixture(scope="module")
def kept() -> list[dict[str, Any]]:
    """Outcomes of real models: ids, scores, tokens and seconds."""
    read: list[dict[str, Any]] = json.loads(KEPT.read_text(encoding="utf-8"))
    return read


def test_the_page_has_the_tables_that_the_outcomes_come_to(kept: list[dict[str, Any]]) -> None:
    page = (KEPT.parent / "effect.md").read_text(encoding="utf-8")
    for row in kept:
        assert offline.table(row).strip() in page, (
            f"print {row['set']} by --told docs/experiments/{KEPT.name}"
        )
