"""Overview page: how much, how good, how fast, and what it saved."""

from __future__ import annotations

from admin.page import Page
from admin.summaries.overview import overview

OVERVIEW = Page("/overview", "Overview", "overview.html", overview, charts=True, csv="traffic")
