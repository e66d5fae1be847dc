"""Settings page: the settings in force and where they come from; checks a file before it is used."""

from __future__ import annotations

from admin.page import Action, Page
from admin.summaries.settings import check, settings

SETTINGS = Page(
    "/settings",
    "Settings",
    "settings.html",
    settings,
    csv="settings",
    actions=(Action("/settings/check", check, template="settings_check.html"),),
)
