"""Engines page: load, breakers, errors, prices, speed; drain, restore and test."""

from __future__ import annotations

from admin.page import Action, Page
from admin.summaries.engines import drain, engines, restore, test

ENGINES = Page(
    "/engines",
    "Engines",
    "engines.html",
    engines,
    csv="engines",
    actions=(
        Action("/engines/drain", drain),
        Action("/engines/restore", restore),
        Action("/engines/test", test),
    ),
)
