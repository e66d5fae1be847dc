"""The pages that promise something with the names of the tests that prove it: each of these tests exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = ("table-stakes.md", "peers-lessons.md")


@cache
def defined_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def rows(page: str) -> list[list[str]]:
    text = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
    found = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in text.splitlines()
        if line[:1] == "|"
    ]
    return found[2:]


def named(cell: str) -> list[tuple[Path, str]]:
    return [(ROOT / path, test) for path, test in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", cell)]


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_is_named_exists(page: str) -> None:
    proofs = [proof for row in rows(page) for proof in named(row[-1])]
    assert len(proofs) > 35
    assert not [
        f"{path.relative_to(ROOT)}::{test}"
        for path, test in proofs
        if not path.is_file() or test not in defined_in(path)
    ]


def test_all_thirty_five_rows_are_there_and_each_has_its_proof() -> None:
    stakes = rows("table-stakes.md")
    assert [row[0] for row in stakes] == [str(number) for number in range(1, 36)]
    assert not [row[1] for row in stakes if row[2] != "Y"]
    assert not [row[1] for row in stakes if not named(row[-1])]


def test_every_lesson_has_a_test_and_no_section_is_missing() -> None:
    lessons = rows("peers-lessons.md")
    assert not [row[1] for row in lessons if not named(row[-1])]
    wanted = {f"B{number}" for number in range(4, 11)} | {f"E{number}" for number in range(1, 14)}
    assert {row[0] for row in lessons} == wanted
