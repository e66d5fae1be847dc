"""What a log would have saved: the report that `understudy learn --from logs` left in the data folder."""

from __future__ import annotations

from admin.page import Asked, Summary
from admin.sources import Sources
from learning.logs.report import REPORT, VERSION, stored


def log_report(sources: Sources, asked: Asked) -> Summary:
    """The latest report; `report` is None where there is none, or one of another version."""
    return {"report": stored(sources.store.folder, REPORT, VERSION)}
