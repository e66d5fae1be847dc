"""The latest rehearsal in a data folder: for admin pages, and for the gates, which begin with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from learning.logs.report import stored
from router.proving.standing import Action

REPORT = "rehearsal.json"
"""The report's name in a data folder."""
VERSION = 1
"""The version of a report's form."""


def latest(folder: Path) -> dict[str, Any] | None:
    """The report; None if there is none, or one of another version."""
    return stored(folder, REPORT, VERSION)


def qualities(report: Mapping[str, Any], model: str, engine: str) -> dict[str, dict[Action, float]]:
    """By shared scope, the mean quality of each way of a small engine; nothing if another one, or another served model,
    was rehearsed. To tenths: less is chance where a hundred questions were asked."""
    if (report.get("model"), report.get("small")) != (model, engine):
        return {}
    ways = {"alone": Action(engine, False), "examples": Action(engine, True)}
    return {
        scope: {ways[name]: round(float(quality), 1) for name, (_, quality) in found.items() if name in ways}
        for scope, found in report["scopes"].items()
    }
