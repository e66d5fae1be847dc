"""Finds past questions with less than the transformer: what a late request could be decided by.

Recorded questions (banking77, nl2bash, Quora question pairs) are looked for among others, by exact search. A nearest
answer is right where the intent is the same (banking77), where the command has the same programs in order (nl2bash; never
the same description or command), or where it is the question's known duplicate (Quora).
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from benchmarks.recorded import NoData, rows
from benchmarks.tables import markdown
from benchmarks.vectors import Matrix, embedded, unit
from router.embedding import model
from router.embedding.embedder import Embedder
from router.embedding.guess import LEARNT_FROM, Guess, word_pieces
from router.examples.rarity import Rarity
from store.examples.bank import ExampleBank
from store.examples.search import ExampleSearch
from store.records import NewExample
from store.sqlite.database import Database

K = 5
_PROGRAM = re.compile(r"\||;|&&|\$\(|`|-exec ")
_BUCKETS = 2**18
Searched = Callable[[str], Sequence[int]]
"""From a question to the places of the past ones found, best first; K of them or fewer."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Past questions and new ones, each with what makes an answer right."""

    name: str
    past: list[str]
    past_right: list[Hashable]
    new: list[str]
    new_right: list[Hashable]


@dataclass(frozen=True, slots=True)
class Found:
    """How one way of finding did."""

    data: str
    way: str
    recall_at_5: float
    """Share of the transformer's five nearest."""
    right: float
    """Share of the questions whose first found answer is right."""
    cpu_ms: float
    """Of a question, searching included; of the transformer's, of a text that is not cached."""


def compared(folder: Path, cache: Path, past: int, new: int) -> Iterator[Found]:
    """Every way on every file that is there."""
    for read in (_banking77, _nl2bash, _quora):
        try:
            asked = read(folder, past, new)
        except NoData as absent:
            print(absent)
            continue
        yield from _of(asked, cache)


def table(found: Sequence[Found]) -> str:
    """The figures as Markdown."""
    head = ["data", "way", "recall@5", "right nearest", "CPU ms per text"]
    return markdown(
        head,
        [[f.data, f.way, f"{f.recall_at_5:.3f}", f"{f.right:.3f}", f"{f.cpu_ms:.2f}"] for f in found],
    )


def _of(asked: Asked, cache: Path) -> Iterator[Found]:
    past, new = embedded(asked.past, cache), embedded(asked.new, cache)
    truth = [_best(past @ vector) for vector in new]
    folder = model.locate("package")
    pieces = word_pieces(folder / "model.safetensors")
    assert pieces is not None
    embedder = Embedder.open("package", cache / "models", deadline_ms=60_000, cache_entries=0)
    with closing(embedder), tempfile.TemporaryDirectory() as at, threadpool_limits(1):
        counts = np.zeros(len(pieces))
        ids = [embedder.pieces(text) for text in asked.past]
        for one in ids:
            counts[np.unique(one)] += 1
        idf = np.log((1 + len(ids)) / (1 + counts))
        ways: dict[str, Searched] = {
            "transformer": lambda text: _best(past @ embedder.embed_blocking(text)),
            "BM25 of the rarest words (the product's)": _bm25(asked.past, folder, Path(at)),
            "word pieces, mean": _static(embedder, pieces, ids, np.ones(len(pieces))),
            "word pieces, by IDF": _static(embedder, pieces, ids, idf),
            "word pieces, mean less 3 components": _static(embedder, pieces, ids, np.ones(len(pieces)), 3),
            "hashed n-grams of characters, by IDF": _hashed(asked.past),
        }
        for count in (LEARNT_FROM, 4096):
            if count <= len(past):
                ways[f"guess learnt from {count:,} (the product's)"] = _guessed(
                    embedder, pieces, ids, past, count
                )
        for name, search in ways.items():
            found = _measured(asked, truth, name, search)
            print(found, file=sys.stderr, flush=True)
            yield found


def _measured(asked: Asked, truth: Sequence[Sequence[int]], name: str, search: Searched) -> Found:
    began_s = time.process_time()
    found = [search(text) for text in asked.new]
    cpu_ms = (time.process_time() - began_s) * 1000 / len(found)
    recall = np.mean([len(set(f) & set(t)) / K for f, t in zip(found, truth, strict=True)])
    right = [len(f) > 0 and asked.past_right[f[0]] == r for f, r in zip(found, asked.new_right, strict=True)]
    return Found(asked.name, name, float(recall), float(np.mean(right)), cpu_ms)


def _best(similarities: npt.NDArray[Any]) -> list[int]:
    some = np.argpartition(-similarities, K - 1)[:K]
    best: list[int] = some[np.argsort(-similarities[some])].tolist()
    return best


def _static(
    embedder: Embedder,
    pieces: npt.NDArray[Any],
    past: Sequence[npt.NDArray[Any]],
    weights: npt.NDArray[Any],
    less: int = 0,
) -> Searched:
    """By the weighted mean of the word pieces' vectors, perhaps without their first principal components (Arora, Liang and
    Ma 2017, "A Simple but Tough-to-Beat Baseline for Sentence Embeddings")."""

    def mean(ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        total = weights[ids] @ pieces[ids]
        return np.asarray(total / max(float(np.linalg.norm(total)), 1e-9))

    known = np.stack([mean(ids) for ids in past])
    centre = known.mean(axis=0) if less else np.zeros(known.shape[1])
    first = np.linalg.svd(known - centre, full_matrices=False)[2][:less]

    def without(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        rows = rows - centre
        return np.asarray(rows - rows @ first.T @ first)

    kept: Matrix = unit(without(known))
    return lambda text: _best(kept @ without(mean(embedder.pieces(text))).astype(np.float32))


def _guessed(
    embedder: Embedder,
    pieces: npt.NDArray[Any],
    ids: Sequence[npt.NDArray[Any]],
    past: Matrix,
    count: int,
) -> Searched:
    """By the product's guess, learnt from so many of the past questions, among their embeddings."""
    guess = Guess(pieces, past.shape[1])
    for one, vector in zip(ids[:count], past[:count], strict=True):
        guess.learn(one, vector)

    def search(text: str) -> list[int]:
        vector = guess.of(embedder.pieces(text))
        return [] if vector is None else _best(past @ vector)

    return search


def _hashed(past: Sequence[str]) -> Searched:
    """By cosine of hashed 3- to 5-grams of characters, weighted by IDF, in an inverted index."""

    def grams(text: str) -> set[int]:
        plain = f" {re.sub(r'[^a-z0-9]+', ' ', text.lower())} "
        return {
            hash(plain[at : at + size]) % _BUCKETS
            for size in (3, 4, 5)
            for at in range(len(plain) - size + 1)
        }

    by_gram: dict[int, list[int]] = {}
    of_past = [grams(text) for text in past]
    for place, own in enumerate(of_past):
        for gram in own:
            by_gram.setdefault(gram, []).append(place)
    squares = {gram: np.log((1 + len(past)) / (1 + len(having))) ** 2 for gram, having in by_gram.items()}
    lengths = np.array([max(sum(squares[g] for g in own), 1e-9) ** 0.5 for own in of_past])
    arrays = {gram: np.array(having) for gram, having in by_gram.items()}

    def search(text: str) -> list[int]:
        scores = np.zeros(len(past))
        for gram in grams(text):
            if gram in arrays:
                scores[arrays[gram]] += squares[gram]
        return _best(scores / lengths)

    return search


def _bm25(past: Sequence[str], weights: Path, folder: Path) -> Searched:
    """By the words that the retriever looks for."""
    db = Database.open(folder / "examples.db")
    bank, rarity = ExampleBank(db), Rarity.read(weights / "tokenizer.json")
    places: dict[int, int] = {}
    for start in range(0, len(past), 200):
        kept = [bank.add(_example(text)) for text in past[start : start + 200]]
        places |= {future.result(120).id: start + place for place, future in enumerate(kept)}
    search = ExampleSearch(db)

    def found(text: str) -> list[int]:
        said = rarity.telling(text)
        return [places[id] for id, _ in search.matching("t", "s", said, K, within_s=5.0)] if said else []

    return found


def _example(text: str) -> NewExample:
    return NewExample("t", "s", text, "answer", text, None, "", "large", "")


def _banking77(folder: Path, past: int, new: int) -> Asked:
    read = rows(folder / "sim_banking77.jsonl.gz")
    known = [row for row in read if row["split"] == "train"][:past]
    asked = [row for row in read if row["split"] == "test"][:new]
    return Asked(
        "banking77",
        [row["text"] for row in known],
        [row["intent"] for row in known],
        [row["text"] for row in asked],
        [row["intent"] for row in asked],
    )


def _nl2bash(folder: Path, past: int, new: int) -> Asked:
    read = rows(folder / "bank_nl2bash_open.jsonl.gz")
    random.Random(1).shuffle(read)
    asked = read[:new]
    linked = {row["group"] for row in asked}
    known = [row for row in read[new:] if row["group"] not in linked][:past]
    return Asked(
        "nl2bash",
        [row["prompt"] for row in known],
        [_programs(row["response"]) for row in known],
        [row["prompt"] for row in asked],
        [_programs(row["response"]) for row in asked],
    )


def _programs(command: str) -> tuple[str, ...]:
    return tuple(part.split()[0] for part in _PROGRAM.split(command) if part.split())


def _quora(folder: Path, past: int, new: int) -> Asked:
    read = rows(folder / "sim_qqp_open.jsonl.gz")
    asked = [row for row in read if row["duplicate"]][:new]
    ids, questions = {row["id"] for row in asked}, {row["a"] for row in asked}
    others = [row["b"] for row in read if row["id"] not in ids and row["b"] not in questions]
    known = list(dict.fromkeys([*(row["b"] for row in asked), *others]))[:past]
    random.Random(2).shuffle(known)
    return Asked("Quora", known, list(known), [row["a"] for row in asked], [row["b"] for row in asked])
