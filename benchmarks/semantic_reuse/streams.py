"""Recorded questions as streams for benchmarks.semantic_reuse: what is nearest, how near, and would its answer do."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.vectors import Matrix, embedded

NEIGHBOURS = 400


@dataclass(frozen=True, slots=True)
class Asked:
    """One request and its nearest remembered question."""

    entry: int
    similarity: float
    right: bool
    asked: str
    remembered: str


class Growing:
    """banking77: nothing is remembered at first; what had to be asked becomes an entry, unless it was compared and agreed.

    The same intent counts as the same answer, which flatters: two questions of one intent may deserve two answers.
    """

    name = "banking77"

    def __init__(self, rows: list[dict[str, Any]], cache: Path) -> None:
        self.texts = [row["text"] for row in rows]
        self.answers = np.unique([row["intent"] for row in rows], return_inverse=True)[1]
        self.near, self.similarity = nearest(embedded(self.texts, cache), NEIGHBOURS)

    def stream(self, seed: int) -> Iterator[tuple[Asked | None, Any]]:
        """Pairs of a request (None: nothing is near) and what to call when it was asked anew: was it compared?"""
        order = list(range(len(self.texts)))
        random.Random(seed).shuffle(order)
        kept = np.zeros(len(order), bool)
        for query in order:
            known = kept[self.near[query]]
            place = int(known.argmax())
            if not known[place]:
                kept[query] = True
                yield None, None
                continue
            entry = int(self.near[query][place])
            right = bool(self.answers[entry] == self.answers[query])

            def answered_anew(compared: bool, query: int = query, right: bool = right) -> None:
                kept[query] = not (compared and right)

            yield (
                Asked(
                    entry, float(self.similarity[query][place]), right, self.texts[query], self.texts[entry]
                ),
                answered_anew,
            )


class Fixed:
    """A list of requests whose nearest entry is known beforehand, in an order that the seed decides."""

    def __init__(self, name: str, asked: list[Asked]) -> None:
        self.name = name
        self._asked = asked

    def stream(self, seed: int) -> Iterator[tuple[Asked | None, Any]]:
        order = list(self._asked)
        random.Random(seed).shuffle(order)
        for each in order:
            yield each, None


def quora(rows: list[dict[str, Any]], cache: Path) -> tuple[list[Fixed], dict[str, float]]:
    """The Quora streams, and what their labels are worth.

    Pairs: b asks while a's answer is remembered, and nothing else is near. Bank: every a is remembered, b asks and meets
    its nearest, once with what nobody labelled left out and once with it taken for wrong. Labels spread along chains
    of duplicates.
    """
    texts = list(dict.fromkeys(text for row in rows for text in (row["a"], row["b"])))
    number = {text: place for place, text in enumerate(texts)}
    vectors = embedded(texts, cache)
    same, different = labels(rows, number)
    pairs = []
    for row in rows:
        a, b = number[row["a"]], number[row["b"]]
        pairs.append(Asked(a, float(vectors[a] @ vectors[b]), bool(row["duplicate"]), row["b"], row["a"]))
    bank = np.array(sorted({number[row["a"]] for row in rows}))
    askers = np.array(sorted({number[row["b"]] for row in rows} - {*bank.tolist()}))
    labelled, pessimistic = [], []
    for start in range(0, len(askers), 500):
        block = askers[start : start + 500]
        similarity = vectors[block] @ vectors[bank].T
        for query, place, near in zip(block, similarity.argmax(1), similarity.max(1), strict=True):
            entry = int(bank[place])
            groups = frozenset((same[int(query)], same[entry]))
            right = len(groups) == 1
            asked = Asked(entry, float(near), right, texts[query], texts[entry])
            pessimistic.append(asked)
            if right or groups in different:
                labelled.append(asked)
    twins = [row["duplicate"] for row in rows if plain(row["a"]) == plain(row["b"])]
    facts = {
        "pairs": len(rows),
        "bank_entries": len(bank),
        "bank_askers": len(askers),
        "bank_labelled": len(labelled),
        "pairs_of_the_same_words": len(twins),
        "of_these_labelled_different": len(twins) - sum(twins),
    }
    return [
        Fixed("qqp pairs", pairs),
        Fixed("qqp bank, labelled", labelled),
        Fixed("qqp bank, unlabelled is wrong", pessimistic),
    ], facts


def labels(rows: list[dict[str, Any]], number: dict[str, int]) -> tuple[list[int], set[frozenset[int]]]:
    """The group of each text, duplicates being in one group, and which groups a person told apart."""
    group = list(range(len(number)))

    def find(text: int) -> int:
        while group[text] != text:
            group[text] = group[group[text]]
            text = group[text]
        return text

    for row in rows:
        if row["duplicate"]:
            group[find(number[row["a"]])] = find(number[row["b"]])
    same = [find(text) for text in range(len(group))]
    different = {
        frozenset((same[number[row["a"]]], same[number[row["b"]]])) for row in rows if not row["duplicate"]
    }
    return same, different


def plain(text: str) -> str:
    """The words alone, to find labels that contradict themselves."""
    return " ".join("".join(c if c.isalnum() else " " for c in text.casefold()).split())


def nearest(vectors: Matrix, count: int) -> tuple[npt.NDArray[np.int32], Matrix]:
    """For each vector the `count` most similar others, or all where there are fewer, and their cosines: exact, in blocks."""
    count = min(count, len(vectors) - 1)
    near = np.zeros((len(vectors), count), np.int32)
    cosine = np.zeros((len(vectors), count), np.float32)
    for start in range(0, len(vectors), 500):
        similarity = vectors[start : start + 500] @ vectors.T
        rows = np.arange(len(similarity))
        similarity[rows, start + rows] = -2.0
        best = np.argpartition(-similarity, count, axis=1)[:, :count]
        values = np.take_along_axis(similarity, best, 1)
        order = np.argsort(-values, axis=1)
        near[start : start + 500] = np.take_along_axis(best, order, 1)
        cosine[start : start + 500] = np.take_along_axis(values, order, 1)
    return near, cosine
