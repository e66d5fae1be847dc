"""The documentation of this version as HTML, of Markdown that the source and the wheel have; links lead on here.

It knows no page of the gateway and nothing of the store.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import count, pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

PATH = "/docs"
_HERE = Path(__file__).parent
FOLDER = next(
    (folder for folder in (_HERE / "docs", _HERE.parent / "docs") if folder.is_dir()), _HERE / "docs"
)
"""In a wheel beside this file; in the source beside its folder."""
INDEX = "README.md"
_NAME = re.compile(r"[a-z0-9-]+/[a-z0-9-]+\.md")
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_TABLE = '<div class="table" tabindex="0" role="region" aria-label="Table {number}"><table class="wide">'


@dataclass(frozen=True, slots=True)
class Document:
    """One page."""

    file: str
    """Below the folder, such as `how-to/operate.md`."""
    title: str
    text: str
    """Markdown, without the title."""

    @property
    def path(self) -> str:
        """Where it is shown."""
        return PATH if self.file == INDEX else f"{PATH}/{self.file.removesuffix('.md')}"


def document(file: str) -> Document | None:
    """The page of a file; None where there is none of that name."""
    if not _NAME.fullmatch(file) and file != INDEX:
        return None
    try:
        whole = (FOLDER / file).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    title, text = _TITLE.search(whole), _TITLE.sub("", whole, count=1).strip()
    return Document(file, title[1].replace("`", "") if title else file, text)


@lru_cache(maxsize=1)
def documents() -> tuple[Document, ...]:
    """Every page but the index, by room and name."""
    files = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/*.md"))
    return tuple(found for file in files if (found := document(file)) is not None)


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a page, or its title."""

    page: str
    """The title of its page."""
    text: str
    path: str
    """Where it is shown."""


def headings_with(words: str) -> Iterator[Heading]:
    """Titles and headings, with the title of their page, that hold every one of these words; titles come first."""
    wanted = words.casefold().split()
    found = [
        heading
        for each in documents()
        for heading in _headings(each)
        if all(word in f"{heading.page} {heading.text}".casefold() for word in wanted)
    ]
    yield from sorted(found, key=lambda heading: heading.text != heading.page)


@cache
def _headings(page: Document) -> tuple[Heading, ...]:
    tokens = MarkdownIt("commonmark").parse(page.text)
    below = [_words(inline) for token, inline in pairwise(tokens) if token.type == "heading_open"]
    return (
        Heading(page.title, page.title, page.path),
        *(Heading(page.title, text, f"{page.path}#{_id(_slug(text))}") for text in below),
    )


@lru_cache(maxsize=32)
def as_html(text: str, file: str) -> Markup:
    """The text of the page `file` as HTML. Markup in it is shown as text."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(text)
    _name_headings(tokens)
    for token in tokens:
        if token.children is not None:
            token.children = list(_linked(token.children, file))
        if token.type in ("th_open", "td_open") and token.attrs.pop("style", "") == "text-align:right":
            token.attrSet("class", "num")
    html = str(markdown.renderer.render(tokens, markdown.options, {})).replace("<pre>", '<pre tabindex="0">')
    number = count(1)
    html = re.sub("<table>", lambda _: _TABLE.format(number=next(number)), html)
    return Markup(html.replace("</table>", "</table></div>"))


def _name_headings(tokens: Sequence[Token]) -> None:
    """Give headings the ids that links name them by, as GitHub makes them."""
    for token, inline in pairwise(tokens):
        if token.type == "heading_open":
            token.attrSet("id", _id(_slug(_words(inline))))


def _words(inline: Token) -> str:
    return "".join(child.content for child in inline.children or ())


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")


def _id(slug: str) -> str:
    """Not one of the frame's own."""
    return f"doc-{slug}"


def _linked(tokens: Sequence[Token], file: str) -> Iterator[Token]:
    """The tokens of a line, where links lead to pages here; what is not here stays as its text, a picture as its words."""
    dropped: list[bool] = []
    for token in tokens:
        if token.type == "image":
            yield _text(token.content)
        elif token.type == "link_open":
            target = _target(str(token.attrGet("href")), file)
            dropped.append(target is None)
            if target is not None:
                token.attrSet("href", target)
                yield token
        elif token.type != "link_close" or not dropped.pop():
            yield token


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def _target(href: str, file: str) -> str | None:
    """The address that a link of the page `file` leads to; None for what is no page of the documentation."""
    if href.startswith(("https://", "http://")):
        return href
    path, mark, slug = href.partition("#")
    fragment = "#" + _id(slug) if mark else ""
    if not path:
        return fragment
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
    found = document(wanted) if not path.endswith("/") else None
    return None if found is None else found.path + fragment
