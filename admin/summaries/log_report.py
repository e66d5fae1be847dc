"""What a log would have saved: the report that `understudy learn --from logs` left in the data folder."""

from __future__ import annotations

import json
from typing import Any

from admin.page import Asked, Summary
from admin.sources import Sources
from learning.logs.report import REPORT, VERSION

_LARGEST_BYTES = 2**20


def log_report(sources: Sources, asked: Asked) -> Summary:
    """The latest report; `report` is None where there is none, or one of another version."""
    return {"report": _read(sources)}


def _read(sources: Sources) -> dict[str, Any] | None:
    path = sources.store.folder / REPORT
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            return None
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("version") == VERSION else None
