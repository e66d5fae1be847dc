"""Recorded requests with a teacher's labels, as streams; two that drift are made of the largest of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from benchmarks.recorded import rows
from benchmarks.vectors import Matrix, embedded
from learning.tasks.training import Labelled
from router.tasks.features import COLUMNS, hashed

TEST_SHARE = 0.2
_USED_ONCE = 6000


@dataclass(frozen=True)
class Stream:
    """One labelled file."""

    name: str
    texts: tuple[str, ...]
    teacher: tuple[str | None, ...]
    """None where the file holds a gold label only: these are for testing."""
    gold: tuple[str, ...]
    vectors: Matrix
    drift: str = ""
    """"share" or "meaning", half-way."""

    @cached_property
    def columns(self) -> Any:
        """Hashed columns, (texts, COLUMNS), sparse."""
        seen = [hashed(text) for text in self.texts]
        ends = np.cumsum([0, *(len(each.columns) for each in seen)])
        values = np.concatenate([each.values for each in seen])
        return csr_matrix(
            (values, np.concatenate([each.columns for each in seen]), ends), shape=(len(seen), COLUMNS)
        )

    def split(self, seed: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Places of the online part in their order, and of the test part: those without a teacher's label, or a fifth."""
        order = np.random.default_rng(seed).permutation(len(self.texts))
        labelled = np.array([self.teacher[place] is not None for place in order])
        if not labelled.all():
            return order[labelled], order[~labelled]
        test = int(TEST_SHARE * len(order))
        return order[test:], order[:test]

    def ordered(self, seed: int) -> npt.NDArray[np.int64]:
        """Places of all labelled requests in the order in which they are asked."""
        random = np.random.default_rng(seed)
        order = random.permutation([n for n, label in enumerate(self.teacher) if label is not None])
        if self.drift != "share":
            return order[:_USED_ONCE] if self.drift else order
        # The first half of the labels are asked four times as often before the change, the others after it.
        names = sorted({str(self.teacher[place]) for place in order})
        early = set(names[: len(names) // 2])
        often = [place for place in order if self.teacher[place] in early]
        seldom = [place for place in order if self.teacher[place] not in early]
        half = min(len(often), len(seldom))
        cut = half * 4 // 5
        before = random.permutation([*often[:cut], *seldom[: half - cut]])
        after = random.permutation([*often[cut:half], *seldom[half - cut : half]])
        return np.concatenate([before, after])

    def told(self, order: npt.NDArray[np.int64]) -> list[str]:
        """The teacher's labels in that order: from half-way on each stands for the next where meanings change."""
        labels = [str(self.teacher[place]) for place in order]
        if self.drift == "meaning":
            names = sorted(set(labels))
            following = dict(zip(names, [*names[1:], names[0]], strict=True))
            half = len(labels) // 2
            labels[half:] = [following[label] for label in labels[half:]]
        return labels

    def labelled(
        self, places: Sequence[int], labels: Sequence[str], weights: Sequence[float] | None = None
    ) -> list[Labelled]:
        """Rows to train on."""
        weights = weights or [1.0] * len(places)
        return [
            Labelled(self.texts[place], self.vectors[place], label, weight)
            for place, label, weight in zip(places, labels, weights, strict=True)
        ]


def streams(data: Path, cache: Path, names: Sequence[str] | None = None) -> list[Stream]:
    """Every file of `data` with texts and labels; `names`: only those that contain one of these."""
    found = []
    for path in sorted(data.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            first = json.loads(next(lines))
        label = next((key for key in ("gold", "intent") if key in first), None)
        wanted = not names or any(name in path.name for name in names)
        if "text" not in first or label is None or not wanted:
            continue
        read = rows(path)
        gold = tuple(row[label] for row in read)
        # Files without a model's labels: the gold label is the teacher.
        teacher = tuple(row["llm_label"] for row in read) if "llm_label" in first else gold
        texts = tuple(row["text"] for row in read)
        name = path.name.split(".")[0].removeprefix("caching_").removeprefix("labels_")
        found.append(Stream(name, texts, teacher, gold, embedded(texts, cache)))
    return found


def drifting(found: Sequence[Stream]) -> list[Stream]:
    """The largest stream that a model labelled, with its labels' shares and with their meanings changed half-way."""
    by_model = [stream for stream in found if stream.teacher is not stream.gold]
    if not by_model:
        return []
    largest = max(by_model, key=lambda stream: sum(label is not None for label in stream.teacher))
    return [replace(largest, name=f"{largest.name}, {kind}", drift=kind) for kind in ("share", "meaning")]
