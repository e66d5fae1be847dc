"""The page of what a log would have saved."""

from __future__ import annotations

from admin.page import Page
from admin.summaries.log_report import log_report

LOG_REPORT = Page(
    "/log-report",
    "What a log would have saved",
    "log_report.html",
    log_report,
    section="/overview",
    in_menu=False,
)
