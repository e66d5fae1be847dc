"""Documentation: of the version that runs, its index and every page of it."""

from __future__ import annotations

from admin.documentation import INDEX, Document, document, documents
from admin.page import Asked, NotThere, Page, Summary
from admin.sources import Sources


def index(sources: Sources, asked: Asked) -> Summary:
    """The index, and every page with its address."""
    rows = [{"title": each.title, "file": each.file, "path": each.path} for each in documents()]
    return {**_shown(document(INDEX)), "documents": rows}


def one(sources: Sources, asked: Asked) -> Summary:
    """One page, as Markdown."""
    return _shown(document(f"{asked.path['room']}/{asked.path['name']}.md"))


def _shown(found: Document | None) -> Summary:
    if found is None:
        raise NotThere("The documentation of this version has no such page.")
    return {"name": found.title, "file": found.file, "text": found.text}


DOCS = Page("/docs", "Documentation", "docs.html", index, in_menu=False, csv="documents")
DOC = Page("/docs/{room}/{name}", "Documentation", "docs.html", one, in_menu=False, section="/docs")
