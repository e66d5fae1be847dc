"""Writes `docs/files.md`, a line for every file, from what each says of itself: `python -m tests.file_map`."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = ("gateway", "admin", "router", "engines", "store", "loadtest")


def file_map() -> str:
    """The whole page as Markdown."""
    lines = [
        "# Every file, in a line",
        "",
        "Written by `python -m tests.file_map` from the files' own first sentences.",
    ]
    for room in ROOMS:
        lines += ["", f"## {room}/", "", "| file | what it is for |", "|---|---|"]
        for path in sorted((ROOT / room).rglob("*.py")):
            said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            sentence = " ".join(said.split("\n\n")[0].split()).replace("|", "\\|")
            lines.append(f"| `{path.relative_to(ROOT / room).as_posix()}` | {sentence} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (ROOT / "docs" / "files.md").write_text(file_map(), encoding="utf-8")
