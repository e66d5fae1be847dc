"""Tables in Markdown, their columns aligned for a terminal, and their places in pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as Markdown; cells are shown as `str` gives them."""
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    lines = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_between(path: Path, name: str, text: str) -> None:
    """Put `text` between the lines `<!-- NAME -->` and `<!-- end -->` of a page. Raises ValueError where they are not."""
    before, opening, rest = path.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")
    _, closing, after = rest.partition("<!-- end -->\n")
    if not opening or not closing:
        raise ValueError(f"{path} has no lines <!-- {name} --> and <!-- end -->")
    path.write_text(f"{before}{opening}{text}\n{closing}{after}", encoding="utf-8")
