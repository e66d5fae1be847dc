"""One thing, one name: what people once read on the admin pages under other names is not there any more.

Looked at is what is shown: texts and attributes of templates, sentences and field names in the code of the pages (not their
docstrings) and their scripts, what commands and the demo print, dashboards, and the documentation.
tests/flow/test_demo_pages.py looks at the pages and their twins themselves, after a demo.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent


class Old(NamedTuple):
    """A name that is not used any more, and how it is looked for."""

    label: str
    new: str
    phrase: str = ""
    """A regular expression of it in a sentence; empty where its words are common ones, and it is sought as a whole label."""
    field: str = ""
    """The same of it as a part of a field's name."""


OLD = (
    Old("First words", "TTFT", r"first words", r"first_words?"),
    Old("first chunk", "TTFT", r"first chunk", r"first_chunk"),
    Old("Whole answer", "Latency", "", r"whole_answer"),
    Old("Our own time", "Gateway overhead", r"\b(our|gateway's) own time", r"own_time"),
    Old("half are faster", "p50", r"half are faster", r"half_are"),
    Old("95 % within", "p95", r"95.?% within", r"95_within"),
    Old("How full", "Utilisation", r"how full", r"how_full|fullness"),
    Old("Waiting", "Queued"),
    Old("alone", "Direct", "", r"alone"),
    Old("with examples", "Few-shot", "", r"with_examples"),
    Old("From memory", "Cache hit", r"from memory", r"from_memory"),
    Old("exact repeat", "Cache hit", r"exact repeats?\b", r"exact_repeat"),
    Old("The way it went", "Timeline", r"the way it went", r"way_it_went"),
    Old("What was weighed", "Routing decision", r"what was weighed", r"weighed"),
    Old("of this choice", "Propensity", r"of this choice\b", r"of_this_choice"),
    Old("What came of it", "Feedback and evals", r"what came of it", r"came_of"),
    Old("Nobody has spoken of this answer", "No feedback yet", r"has spoken of this", r"spoken"),
    Old("Tried on purpose", "Exploration", r"tried on purpose", r"on_purpose"),
    Old("Unlike anything seen", "Novel", r"unlike anything seen", r"unlike"),
    Old("Dials", "Routing settings", r"\bdials?\b", r"dials?"),
    Old("turn", "change"),
    Old("Take the last turn back", "Undo", r"take the last turn", r"last_turn"),
    Old("What if", "Simulate", r"what.if\b", r"what_if"),
    Old("Look", "Run"),
    Old("Near ones wanted (m)", "Min. similar examples", r"near ones wanted", r"near_ones"),
    Old(
        "Promises on quality",
        "Quality guarantee",
        r"promises? on quality|quality promises?",
        r"promised?|promises(?!_too)",
    ),
    Old("limiting", "Throttling", "", r"limiting"),
    Old("threatened", "At risk", "", r"threatened"),
    Old("wrong", "Critical"),
    Old("waits", "Warning"),
    Old("bandit of demo for acme", "Router", r"\bbandit of\b"),
    Old("bandit", "Router"),
    Old("Let go", "Release", r"\blet go\b(?! of\b)", r"let_go"),
    Old("Twins disagree", "Conflicting duplicates", r"twins disagree", r"twins"),
    Old("Given as right", "Human-corrected", r"given as right", r"given_as_right"),
    Old("Gain to be had", "Improvement potential", r"gain to be had", r"to_be_had"),
    Old("Of a companion", "Gain of paired example", r"\bcompanions?\b", r"companion"),
    Old("betters its answers (distil)", "Re-answers weak examples", r"betters its answers", r"betters"),
    Old("A note for people", "Key name", r"a note for people", r"for_people"),
    Old("Asked by hand", "Manual queries", r"asked by hand", r"by_hand"),
    Old("What it bought", "Results", r"what it bought", r"bought"),
    Old("Take back", "Revert", r"\btakes? back\b", r"take_back"),
    Old(
        "Everything learnt has versions",
        "Model versions",
        r"everything learnt has versions",
        r"everything_learnt",
    ),
)
PHRASES = re.compile("|".join(old.phrase for old in OLD if old.phrase), re.IGNORECASE)
LABELS = {old.label.lower() for old in OLD}
FIELDS = re.compile(
    "(?:^|_)(?:" + "|".join(old.field for old in OLD if old.field) + ")(?:_|$)", re.IGNORECASE
)
_ENDS = " .:…?!"
"""What may follow a label."""

DOCS = ("tutorial", "how-to", "explanation", "reference")
ADMIN_DOCS = (
    "docs/how-to/use-the-admin-pages.md",
    "docs/how-to/add-an-admin-page.md",
    "README.md",
    "docs/README.md",
)
"""Where old names are not even common words."""
PRINTED = ("simulation/demo", "understudy/commands", "learning/logs")
"""What people read on a terminal."""
SUMMARISED = ("admin", "understudy/commands", "learning/logs")
"""Where dictionaries become JSON that people read."""
_PROTOCOL = re.compile(r"first chunk|from memory", re.IGNORECASE)
"""Of a stream, which begins with a chunk, and of a process: no figures there."""
_STORED = {"limiting", "threatened"}
"""States of a guarantee's account by their names in the store, from which their names on the pages follow."""
_CODE = re.compile(r"`[^`]*`|--dials?\b|x-mock-dial")
_JINJA = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
_QUOTED = re.compile(r"\"([^\"]*)\"|'([^']*)'")
_SHOWN_ATTRIBUTES = r"\s(?:title|aria-label|placeholder|data-confirm|data-label|label|alt|value)=\"([^\"]*)\""


def is_old(text: str, *, whole: bool = True) -> bool:
    """Whether a text holds an old name in a sentence, or is one as a `whole`."""
    return bool(PHRASES.search(text)) or (whole and text.strip(_ENDS).lower() in LABELS)


def is_old_field(name: str) -> bool:
    return bool(FIELDS.search(name))


def of_template(text: str) -> Iterator[str]:
    """What a template shows: its texts, the values of its attributes, and the strings in its expressions."""
    for block in _JINJA.findall(text):
        if not block.startswith("{#"):
            yield from (one or other for one, other in _QUOTED.findall(block))
    plain = _JINJA.sub("\0", text)
    yield from re.findall(_SHOWN_ATTRIBUTES, plain)
    yield from re.split(r"<[^>]*>|\0", plain)


def of_code(module: str, *, docstrings: bool = False) -> Iterator[str]:
    """The sentences of a module, strings with a space or a capital; `docstrings`: with those of commands, that are shown."""
    tree = ast.parse(module)
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in told else None
        if isinstance(text, str) and (" " in text or not text.islower()):
            yield text
        if docstrings and isinstance(node, ast.FunctionDef) and node.decorator_list:
            yield ast.get_docstring(node) or ""


def of_dashboard(told: object) -> Iterator[str]:
    """Titles, descriptions and legends."""
    if isinstance(told, Mapping):
        for name, value in told.items():
            if name in ("title", "description", "legendFormat") and isinstance(value, str):
                yield value
            yield from of_dashboard(value)
    elif isinstance(told, list):
        for each in told:
            yield from of_dashboard(each)


def fields(text: str) -> Iterator[str]:
    """The names that a module gives to fields."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Dict):
            yield from (
                key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
            )


def shown() -> Iterator[tuple[str, str]]:
    """Where a text is, and the text: of everything but the documentation, which consists of sentences."""

    def told(path: Path, texts: Iterator[str]) -> Iterator[tuple[str, str]]:
        for text in texts:
            yield path.relative_to(ROOT).as_posix(), " ".join(text.split())

    for path in sorted((ROOT / "admin").rglob("*")):
        if path.suffix == ".html":
            yield from told(path, of_template(path.read_text(encoding="utf-8")))
        elif path.suffix == ".py":
            yield from told(path, of_code(path.read_text(encoding="utf-8")))
        elif path.suffix == ".js":
            found = _QUOTED.findall(re.sub(r"//.*|/\*.*?\*/", "", path.read_text(encoding="utf-8")))
            yield from told(path, (one or other for one, other in found))
    for folder in PRINTED:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield from told(path, of_code(path.read_text(encoding="utf-8"), docstrings=True))
    for path in sorted((ROOT / "deploy").rglob("*.json")):
        yield from told(path, of_dashboard(json.loads(path.read_text(encoding="utf-8"))))


def lines_of(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        yield f"{path.relative_to(ROOT).as_posix()}:{number}", line


def paired(lines: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Each line with the next one: a name may be broken between them."""
    where, before = "", ""
    for place, line in lines:
        yield where or place, f"{before} {line.strip()}"
        where, before = place, line.rstrip()


def test_no_old_name_is_shown() -> None:
    # In code a whole string in small letters is a word of the code.
    found = [
        f"{where}: {text[:120]!r}"
        for where, text in shown()
        if is_old(text, whole=where.endswith(".html") or text != text.lower())
    ]
    assert not found, "\n".join(found)


def test_no_page_of_the_documentation_says_an_old_name() -> None:
    pages = [path for folder in DOCS for path in sorted((ROOT / "docs" / folder).rglob("*.md"))]
    found = [
        f"{where}: {line[:120]!r}"
        for path in (*pages, *(ROOT / name for name in ADMIN_DOCS), ROOT / "config.example.yaml")
        for where, line in paired(lines_of(path))
        if PHRASES.search(_said(path, line))
    ]
    assert not found, "\n".join(found)


def _said(path: Path, line: str) -> str:
    """A line of documentation without what is written as code, and but on the pages' own pages without common words."""
    plain = _CODE.sub("", line)
    return plain if path.relative_to(ROOT).as_posix() in ADMIN_DOCS else _PROTOCOL.sub("", plain)


def test_no_field_has_an_old_name() -> None:
    found = {
        f"{path.relative_to(ROOT).as_posix()}: {name}"
        for folder in SUMMARISED
        for path in (ROOT / folder).rglob("*.py")
        for name in fields(path.read_text(encoding="utf-8"))
        if is_old_field(name) and name not in _STORED
    }
    assert not found


@pytest.mark.parametrize("old", OLD, ids=lambda old: old.label)
def test_an_old_name_is_found_wherever_it_stands(old: Old) -> None:
    """As a label of a page whatever its case, and in a sentence and as a field where it is no common word."""
    for label in (old.label, old.label.upper(), old.label.capitalize()):
        for template in (
            f"<b>{label}</b>",
            f'{{{{ parts.figure("{label}", x) }}}}',
            f'<b title="{label}">1</b>',
        ):
            assert any(is_old(text) for text in of_template(template)), template
    if old.phrase:
        assert PHRASES.search(_said(ROOT / ADMIN_DOCS[0], f"The page says *{old.label}* of it."))
        assert any(is_old(text) for text in of_code(f'x = "and {old.label.lower()}: 1"'))
        assert any(is_old(text) for text in of_dashboard({"panels": [{"title": f"{old.label} now"}]}))
    if old.field:
        name = old.label.lower().replace("(", "").replace(")", "").replace(" % ", "_").replace(" ", "_")
        assert [one for one in fields(f"x = {{'{name}_ms': 1, 'the_{name}': 2}}") if is_old_field(one)] == [
            f"{name}_ms",
            f"the_{name}",
        ]


@pytest.mark.parametrize("new", sorted({old.new for old in OLD}))
def test_the_new_name_is_shown_instead(new: str) -> None:
    assert any(new.lower() in text.lower() for where, text in shown() if where.startswith("admin/")), new
