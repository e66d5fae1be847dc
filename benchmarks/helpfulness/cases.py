"""Recorded requests of which it is known which examples are of the right kind: the same intent, or the same command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.recorded import rows
from benchmarks.vectors import Matrix, embedded, exact_nearest
from router.plan import Candidate
from store.records import Example


@dataclass(frozen=True)
class Case:
    """Prompts with their answers, a label each, and vectors; prompt `i` and example `i` are the same pair."""

    name: str
    prompts: list[str]
    answers: list[str]
    labels: list[str]
    groups: list[int]
    """Pairs of one group are never on different sides of a split."""
    vectors: Matrix
    answer_vectors: Matrix

    def example(self, i: int) -> Example:
        """Pair `i` as it would be remembered."""
        return Example(i, i, "t", "s", self.prompts[i], self.answers[i], "large", 0.0)

    def right(self, i: int, example_id: int) -> bool:
        """Whether an example is of the right kind for prompt `i`."""
        return self.labels[i] == self.labels[example_id]


def banking77(data: Path, cache: Path, most: int | None = None) -> Case:
    """Customers' questions to a bank; an example is right if it has the same of 77 intents. Raises NoData."""
    asked = _some(rows(data / "sim_banking77.jsonl.gz"), most)
    prompts = [row["text"].strip()[:1500] for row in asked]
    intents = [row["intent"] for row in asked]
    kinds = sorted(set(intents))
    said = embedded([kind.replace("_", " ") for kind in kinds], cache)
    case = Case(
        "banking77",
        prompts,
        [intent.replace("_", " ") for intent in intents],
        intents,
        _same_text(prompts),
        embedded(prompts, cache),
        said[[kinds.index(intent) for intent in intents]],
    )
    return _shuffled(case)


def nl2bash(data: Path, cache: Path, most: int | None = None) -> Case:
    """What to do in a shell, in English; an example is right if its command begins with the same utility. Raises NoData."""
    pairs = _some(rows(data / "bank_nl2bash_open.jsonl.gz"), most)
    pairs = [pair for pair in pairs if pair["response"].split()]
    prompts = [pair["prompt"].strip()[:1500] for pair in pairs]
    commands = [pair["response"].strip()[:1500] for pair in pairs]
    case = Case(
        "nl2bash",
        prompts,
        commands,
        [command.split()[0] for command in commands],
        [int(pair["group"]) for pair in pairs],
        embedded(prompts, cache),
        embedded(commands, cache),
    )
    return _shuffled(case)


def _shuffled(case: Case) -> Case:
    """The files are sorted, and a pair's place, which becomes its id, must not tell its label."""
    order = np.random.default_rng(0).permutation(len(case.prompts))
    return Case(
        case.name,
        [case.prompts[i] for i in order],
        [case.answers[i] for i in order],
        [case.labels[i] for i in order],
        [case.groups[i] for i in order],
        case.vectors[order],
        case.answer_vectors[order],
    )


def folds(case: Case, count: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(training, test) places, each prompt tested once; whole groups go together."""
    kinds = sorted(set(case.groups))
    side = np.random.default_rng(seed).permutation(len(kinds)) % count
    of_group = dict(zip(kinds, side.tolist(), strict=True))
    fold = np.array([of_group[group] for group in case.groups])
    return [(np.flatnonzero(fold != n), np.flatnonzero(fold == n)) for n in range(count)]


def nearest(
    case: Case, asked: Sequence[int] | np.ndarray, bank: np.ndarray, count: int
) -> Iterator[list[Candidate]]:
    """The `count` nearest of the bank for each prompt, nearest first; never one of the prompt's own group."""
    # A few more than wanted, to be left with enough when those of the own group are gone.
    found = exact_nearest(case.vectors[bank], case.vectors[list(asked)], min(len(bank), count + 30))
    for i, places in zip(asked, found, strict=True):
        ids = bank[places]
        ids = ids[[case.groups[j] != case.groups[i] for j in ids]]
        similarity = case.vectors[ids] @ case.vectors[i]
        order = np.argsort(-similarity, kind="stable")[:count]
        yield [
            Candidate(
                case.example(int(ids[n])),
                float(similarity[n]),
                case.vectors[ids[n]],
                case.answer_vectors[ids[n]],
            )
            for n in order
        ]


def _some(every: list[dict[str, str]], most: int | None) -> list[dict[str, str]]:
    """At most that many, spread over the file: it is sorted by label."""
    if most is None or most >= len(every):
        return every
    return [every[i] for i in np.linspace(0, len(every) - 1, most).astype(int)]


def _same_text(prompts: list[str]) -> list[int]:
    known: dict[str, int] = {}
    return [known.setdefault(" ".join(prompt.casefold().split()), len(known)) for prompt in prompts]
