"""One thing, one name: what people once read on the admin pages under other names is not there any more.

Looked at is what is shown: texts and attributes of templates, sentences and field names in the code of the pages (not their
docstrings), and the pages' documentation.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PHRASES = re.compile(
    r"first words|first chunk|our own time|how full|the way it went|what was weighed|\bof this choice\b|what came of it"
    r"|has spoken of|tried on purpose|unlike anything seen|\bdials?\b|take the last turn|what if\b|near ones wanted"
    r"|promises? on quality|threatened promise|\bbandit of\b|\blet go\b|twins disagree|given as right|gain to be had"
    r"|of a companion|betters its answers|a note for people|asked by hand|what it bought|everything learnt has versions"
    r"|half are faster|95.% within|from memory|exact repeat",
    re.IGNORECASE,
)
"""Old names, wherever they stand in a sentence."""
LABELS = {
    *(
        "whole answer",
        "waiting",
        "alone",
        "with examples",
        "look",
        "wrong",
        "waits",
        "limiting",
        "threatened",
        "take back",
    ),
    *("bandit", "turn"),
}
"""Old names that are words of their own elsewhere: as a whole text of a template."""
FIELDS = {
    *(
        "first_words",
        "first_chunk_ms",
        "whole_answer",
        "own_time",
        "how_full",
        "fullness",
        "dial",
        "dials",
    ),
    *(
        "what_if",
        "companion",
        "gain_to_be_had",
        "given_as_right",
        "bought",
        "promises",
        "tried_on_purpose",
        "from_memory",
    ),
}
"""The same as names of fields of JSON."""
ADMIN_DOCS = ("docs/how-to/use-the-admin-pages.md", "docs/how-to/add-an-admin-page.md", "README.md")
"""Where old names are not even common words."""
COMMON = re.compile(r"exact repeat|first chunk", re.IGNORECASE)
"""Old names of figures and labels, which stay the names of what elsewhere is spoken of."""
_CODE = re.compile(r"`[^`]*`|--dials?\b|x-mock-dial")
_JINJA = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
_QUOTED = re.compile(r"\"([^\"]*)\"|'([^']*)'")


def of_template(text: str) -> Iterator[str]:
    """What a template shows: its texts, the values of its attributes, and the strings in its expressions."""
    for block in _JINJA.findall(text):
        if not block.startswith("{#"):
            yield from (one or other for one, other in _QUOTED.findall(block))
    plain = _JINJA.sub("\0", text)
    yield from re.findall(r"\s(?:title|aria-label|placeholder|data-confirm|label)=\"([^\"]*)\"", plain)
    yield from re.split(r"<[^>]*>|\0", plain)


def of_code(module: str) -> Iterator[str]:
    """The sentences of a module: strings with a space or a capital, without docstrings."""
    tree = ast.parse(module)
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in told else None
        if isinstance(text, str) and (" " in text or not text.islower()):
            yield text


def fields(text: str) -> Iterator[str]:
    """The names that a module gives to fields."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Dict):
            yield from (
                key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
            )


def shown() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "admin").rglob("*")):
        read = {".html": of_template, ".py": of_code}.get(path.suffix)
        if read is not None:
            for text in read(path.read_text(encoding="utf-8")):
                yield path.relative_to(ROOT).as_posix(), " ".join(text.split())
    for name in ADMIN_DOCS:
        yield from lines_of(ROOT / name)


def lines_of(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        yield f"{path.relative_to(ROOT).as_posix()}:{number}", line


def test_no_old_name_is_shown() -> None:
    found = [
        f"{where}: {text[:120]!r}"
        for where, text in shown()
        if PHRASES.search(text) or (where.endswith(".html") and text.strip(" .:…").lower() in LABELS)
    ]
    assert not found, "\n".join(found)


def test_no_page_of_the_documentation_says_an_old_name() -> None:
    folders = ("tutorial", "how-to", "explanation", "reference")
    found = [
        f"{where}: {line[:120]!r}"
        for folder in folders
        for path in sorted((ROOT / "docs" / folder).rglob("*.md"))
        for where, line in lines_of(path)
        if PHRASES.search(COMMON.sub("", _CODE.sub("", line)))
    ]
    assert not found, "\n".join(found)


def test_no_field_has_an_old_name() -> None:
    found = {
        f"{path.name}: {name}"
        for path in (ROOT / "admin" / "summaries").glob("*.py")
        for name in fields(path.read_text(encoding="utf-8"))
        if name in FIELDS
    }
    assert not found


@pytest.mark.parametrize(
    "text", ["<b>First words</b>", '{{ parts.figure("Whole answer", x) }}', '<b title="How full">1</b>']
)
def test_old_names_are_found_wherever_they_stand(text: str) -> None:
    assert any(PHRASES.search(one) or one.strip().lower() in LABELS for one in of_template(text))
