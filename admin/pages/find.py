"""Find: one search box for ids, names and words."""

from __future__ import annotations

from admin.page import Page
from admin.summaries.find import find

FIND = Page("/find", "Find", "find.html", find, in_menu=False, follow="to")
