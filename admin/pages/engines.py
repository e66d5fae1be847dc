"""Engines page: load, breakers, errors, prices, speed; drain and restore."""

from __future__ import annotations

from admin.page import Action, Page
from admin.summaries.engines import drain, engines, restore

ENGINES = Page(
    "/engines",
    "Engines",
    "engines.html",
    engines,
    actions=(Action("/engines/drain", drain), Action("/engines/restore", restore)),
)
