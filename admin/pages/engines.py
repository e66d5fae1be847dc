"""Engines page: load, breakers, errors, prices, speed; drain, restore and test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.operations.engines import drain, resume
from admin.page import Action, Asked, Page
from admin.sources import Sources
from admin.summaries.engines import engines, test


def _engine(_: Sources, asked: Asked) -> Mapping[str, Any]:
    engine, replica = asked.text("engine", longest=200), asked.text("replica", longest=300)
    return {"name": f"{engine}@{replica}" if replica else engine}


def _drained(sources: Sources, asked: Asked) -> Mapping[str, Any]:
    return {**_engine(sources, asked), "reason": asked.text("reason"), "stand_in": asked.text("stand_in")}


ENGINES = Page(
    "/engines",
    "Engines",
    "engines.html",
    engines,
    csv="engines",
    actions=(
        drain.form("/engines/drain", fields=_drained),
        resume.form("/engines/restore", fields=_engine),
        Action("/engines/test", test),
    ),
)
