"""Help: what the terms of the pages mean, the version, and where the documentation is."""

from __future__ import annotations

from admin.glossary import TERMS
from admin.page import Asked, Page, Summary
from admin.sources import Sources


def glossary(sources: Sources, asked: Asked) -> Summary:
    """Every term with its meaning."""
    return {"terms": [{"term": term, "means": means} for term, means in TERMS.items()]}


HELP = Page("/help", "Help", "help.html", glossary, in_menu=False, csv="terms")
