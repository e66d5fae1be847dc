"""Every page, in the order of the menu. A new one is a Page in a file here and a line below."""

from __future__ import annotations

from admin.page import Page
from admin.pages.audit import AUDIT
from admin.pages.overview import OVERVIEW

PAGES: tuple[Page, ...] = (OVERVIEW, AUDIT)
