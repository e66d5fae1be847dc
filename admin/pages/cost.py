"""Cost page: who spent what on which day, beside the time before."""

from __future__ import annotations

from admin.page import Page
from admin.summaries.cost import cost

COST = Page("/cost", "Cost", "cost.html", cost, charts=True, csv="rows")
