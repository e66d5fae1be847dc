"""The fenced blocks of a page: what language each is in, and what it needs to be run as it stands."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
GUIDES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs" / "tutorial").glob("*.md")),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
]
"""Pages whose blocks readers paste."""
_FENCE = re.compile(r"^( *)```(\w*) *([^\n]*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Fence:
    """One block. `needs`: `run` only the program; `serve`: it starts what goes on, a command each line; `gateway` one that
    listens; `yours` what only the reader has; `said`, of text, that the block before prints it."""

    page: Path
    language: str
    needs: str
    file: str
    """The name under which the page tells to save it, beside the blocks that follow."""
    text: str


def fences(page: Path, language: str = "") -> Iterator[Fence]:
    """The blocks of a page in their order; only those of a language, if one is given."""
    for _, name, marks, text in _FENCE.findall(page.read_text(encoding="utf-8")):
        if not language or name == language:
            given = dict(mark.partition("=")[::2] for mark in marks.split())
            needs = next((mark for mark in given if not given[mark]), "")
            yield Fence(page, name, needs, given.get("file", ""), textwrap.dedent(text))
