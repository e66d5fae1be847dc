"""Recorded requests of which it is known what an example is worth: every file of a folder that fits by its schema.

- *labels*: `text`, and what it was labelled (`llm_label`, else `gold`, `intent` or `label`). An example is worth 1 if its
  label is the right one (`gold`, else what it was labelled), else 0.
- *commands*: `prompt`, `response`, `group`. An example is worth the share of words that its command has in common (F1).
- *questions*: `prompt`, `answers`. An example is worth 1 if its answer is one of the right ones, else 0.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.recorded import rows
from benchmarks.vectors import Matrix, embedded
from store.records import Example

Kind = Literal["labels", "commands", "questions"]
_WORD = re.compile(r"\w+")
_LABELS = ("llm_label", "gold", "intent", "label")
_LONGEST = 1500


@dataclass(frozen=True)
class Case:
    """Prompts with their answers and vectors; prompt `i` and example `i` are the same pair."""

    name: str
    kind: Kind
    prompts: list[str]
    answers: list[str]
    right: list[frozenset[str]]
    """The right answers, normalised."""
    groups: list[int]
    """Pairs of one group are never on different sides of a split, nor examples for each other."""
    vectors: Matrix
    answer_vectors: Matrix | None

    def example(self, i: int) -> Example:
        """Pair `i` as it would be remembered."""
        return Example(i, i, "t", "s", self.prompts[i], self.answers[i], "large", 0.0)

    def worth(self, i: int, example_id: int) -> float:
        """How much of what prompt `i` needs an example holds, 0 to 1."""
        if self.kind != "commands":
            return float(_normal(self.answers[example_id]) in self.right[i])
        one, other = Counter(self.answers[i].split()), Counter(self.answers[example_id].split())
        return 2.0 * (one & other).total() / (one.total() + other.total())


def cases(data: Path, cache: Path, most: int | None = None, named: Sequence[str] = ()) -> Iterator[Case]:
    """Every file of the folder that fits, or those whose names begin so; at most so many pairs of each."""
    for path in sorted(data.glob("*.jsonl.gz")):
        name = path.name.removesuffix(".jsonl.gz")
        if (named and not name.startswith(tuple(named))) or not name.startswith(
            ("sim_", "caching_", "labels_", "bank_")
        ):
            continue
        read = rows(path)
        made = _case_of(read[0]) if read else None
        if made is not None:
            yield made(name, _some(read, most), cache)


def _case_of(row: dict[str, Any]) -> Callable[[str, list[dict[str, Any]], Path], Case] | None:
    if {"prompt", "response", "group"} <= row.keys():
        return _commands
    if {"prompt", "answers"} <= row.keys():
        return _questions
    if "text" in row and row.keys() & set(_LABELS):
        return _labels
    return None


def _commands(name: str, read: list[dict[str, Any]], cache: Path) -> Case:
    read = [row for row in read if row["response"].split()]
    prompts, commands = [_cut(row["prompt"]) for row in read], [_cut(row["response"]) for row in read]
    groups = [int(row["group"]) for row in read]
    nothing: list[frozenset[str]] = [frozenset()] * len(read)
    vectors, answers = embedded(prompts, cache), embedded(commands, cache)
    return Case(name, "commands", prompts, commands, nothing, groups, vectors, answers)


def _questions(name: str, read: list[dict[str, Any]], cache: Path) -> Case:
    read = [row for row in read if row["answers"]]
    prompts = [_cut(row["prompt"]) for row in read]
    right = [frozenset(map(_normal, row["answers"])) for row in read]
    answers = [str(row["answers"][0]) for row in read]
    return Case(
        name,
        "questions",
        prompts,
        answers,
        right,
        one_text_one_group(prompts),
        embedded(prompts, cache),
        None,
    )


def _labels(name: str, read: list[dict[str, Any]], cache: Path) -> Case:
    prompts = [_cut(row["text"]) for row in read]
    labelled = [_label(row, _LABELS) for row in read]
    right = [frozenset([_normal(_label(row, ("gold", *_LABELS)))]) for row in read]
    kinds = sorted(set(labelled))
    said = embedded(kinds, cache)[[kinds.index(label) for label in labelled]]
    return Case(
        name, "labels", prompts, labelled, right, one_text_one_group(prompts), embedded(prompts, cache), said
    )


def _label(row: dict[str, Any], of: Sequence[str]) -> str:
    return str(next(row[key] for key in of if row.get(key) is not None)).replace("_", " ")


def folds(case: Case, count: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(bank, asked) places, each prompt asked once; whole groups go together."""
    kinds = sorted(set(case.groups))
    side = np.random.default_rng(seed).permutation(len(kinds)) % count
    of_group = dict(zip(kinds, side.tolist(), strict=True))
    fold = np.array([of_group[group] for group in case.groups])
    return [(np.flatnonzero(fold != n), np.flatnonzero(fold == n)) for n in range(count)]


def _cut(text: str) -> str:
    return text.strip()[:_LONGEST]


def _normal(text: str) -> str:
    return " ".join(_WORD.findall(text.lower()))


def _some(every: list[dict[str, Any]], most: int | None) -> list[dict[str, Any]]:
    """At most that many, spread over the file: it may be sorted."""
    if most is None or most >= len(every):
        return every
    return [every[i] for i in np.linspace(0, len(every) - 1, most).astype(int)]


def one_text_one_group(prompts: list[str]) -> list[int]:
    """A group for each text, whatever its case and blanks."""
    known: dict[str, int] = {}
    return [known.setdefault(" ".join(prompt.casefold().split()), len(known)) for prompt in prompts]
