"""Documentation: of the version that runs, its index and every page of it."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice

from admin.documentation import INDEX, Document, document, documents, headings_with
from admin.page import Asked, NotThere, Page, Summary
from admin.sources import Sources

MOST_FOUND = 100


def index(sources: Sources, asked: Asked) -> Summary:
    """The index, and every page with its address; with `q` the titles and headings that hold its words."""
    rows = [{"title": each.title, "file": each.file, "path": each.path} for each in documents()]
    words = asked.text("q", longest=200)
    found = [asdict(heading) for heading in islice(headings_with(words), MOST_FOUND)] if words else []
    return {**_shown(document(INDEX)), "q": words, "found": found, "documents": rows}


def one(sources: Sources, asked: Asked) -> Summary:
    """One page, as Markdown."""
    return _shown(document(f"{asked.path['room']}/{asked.path['name']}.md"))


def _shown(found: Document | None) -> Summary:
    if found is None:
        raise NotThere("The documentation of this version has no such page.")
    return {"name": found.title, "file": found.file, "text": found.text}


DOCS = Page("/docs", "Documentation", "docs.html", index, in_menu=False, csv="documents")
DOC = Page("/docs/{room}/{name}", "Documentation", "docs.html", one, in_menu=False, section="/docs")
