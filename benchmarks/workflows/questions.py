"""Recorded questions, each with a document to be answered from: for workflows over real engines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.recorded import rows

FILE = "workflow_beerqa.jsonl.gz"
GROUP = 20
"""Questions whose passages, about 36 of 525 characters, make one document: 18 to 20 chunks of 256 tokens."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and the document."""

    text: str
    document: str


def questions(data: Path) -> list[Question]:
    """One of each group: no two documents share a passage, so that nothing kept of one serves another. Raises NoData."""
    return list(_grouped(rows(data / FILE)))


def _grouped(recorded: Sequence[dict[str, Any]]) -> Iterator[Question]:
    for first in range(0, len(recorded) - GROUP + 1, GROUP):
        group = recorded[first : first + GROUP]
        passages = dict.fromkeys(f"{title}\n{text}" for row in group for title, text in row["context"])
        yield Question(group[0]["prompt"], "\n\n".join(passages))
