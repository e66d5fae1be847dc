"""Recorded requests with the quality each of two engines gave them: the streams of benchmarks.routing.

A file takes part by its schema, not by its name: rows with a `prompt` or `question`, and a field that maps two or more
models to a score, to whether they were right, or to an object that says one of these.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.recorded import NoData, rows
from benchmarks.vectors import Matrix, embedded

LETTERS = "ABCDEFGHIJ"
PAIRS = (
    ("mixtral-8x7b-instruct", "gpt-4-1106-preview"),
    ("Meta-Llama-3_1-8B-Instruct", "Meta-Llama-3_1-70B-Instruct"),
    ("llama-3.1-8b-instruct", "llama-3.1-nemotron-51b-instruct"),
    ("FuseChat-Llama-3.2-1B-Instruct", "FuseChat-Gemma-2-9B-Instruct"),
)
"""Small and large, where a file has these; else see `_pair`."""
SECOND = ":2"
"""Ends the name of a set that is the same file with another pair of its engines."""
_FEWEST_FOR_SECOND = 6
"""Engines that a file needs for a second pair."""
_SCORES = ("correct", "score", "quality")
_SUBJECTS = ("subject", "category", "task")


@dataclass(frozen=True, slots=True)
class Recorded:
    """One set of requests."""

    name: str
    small: str
    large: str
    prompts: tuple[str, ...]
    quality: npt.NDArray[np.float64]
    """[requests, 2]: of the small engine and of the large one, 0..1."""
    vectors: Matrix
    """[requests, dimensions], unit length."""
    subjects: tuple[str, ...] = ()
    """What each is about, where the file says so."""
    cut: int = 0
    """Scores outside 0 to 1, which were cut to it."""

    def ordered(self, order: npt.NDArray[np.int64]) -> Recorded:
        """These of the requests, in this order."""
        return replace(
            self,
            prompts=tuple(self.prompts[i] for i in order),
            quality=self.quality[order],
            vectors=self.vectors[order],
            subjects=tuple(self.subjects[i] for i in order) if self.subjects else (),
        )

    def shuffled(self, seed: int) -> Recorded:
        """The same requests in an order of their own."""
        return self.ordered(np.random.default_rng(seed).permutation(len(self.prompts)))


def names(data: Path) -> list[str]:
    """The files of the folder that fit, without their ending, and their second pairs."""
    found = []
    for path in sorted(data.glob("*.jsonl.gz")):
        first, name = rows(path)[:1], path.name.removesuffix(".jsonl.gz")
        field = _scored(first)
        if field is not None:
            found.append(name)
            found += [name + SECOND] * (len(first[0][field]) >= _FEWEST_FOR_SECOND)
    return found


def load(name: str, data: Path, cache: Path, limit: int | None = None) -> Recorded:
    """The set `name`, embedded by the gateway's own embedder (kept in `cache`). Raises NoData.

    A second pair is chosen as a first one is where none is named, among the engines that the first one leaves.
    """
    found = rows(data / f"{name.removesuffix(SECOND)}.jsonl.gz")[:limit]
    field = _scored(found)
    if field is None:
        raise NoData(f"skipped: {name} holds no scores of two models for a prompt")
    small, large = _pair(found, field)
    if name.endswith(SECOND):
        small, large = _chosen_pair(found, field, {small, large})
    usable = [row for row in found if all(_score(row[field].get(e)) is not None for e in (small, large))]
    raw = np.array([[_score(row[field][e]) for e in (small, large)] for row in usable], np.float64)
    prompts = tuple(map(_prompt, usable))
    subject = next((s for s in _SUBJECTS if s in usable[0]), None)
    return Recorded(
        name,
        small,
        large,
        prompts,
        np.clip(raw, 0.0, 1.0),
        embedded(prompts, cache, kept_as=np.float32),
        tuple(str(row[subject]) for row in usable) if subject else (),
        int(((raw < 0.0) | (raw > 1.0)).sum()),
    )


def _scored(found: list[dict[str, Any]]) -> str | None:
    """The field with the models' scores; None where the rows have none, or no prompt."""
    if not found or not any(isinstance(found[0].get(key), str) for key in ("prompt", "question")):
        return None
    for field, value in found[0].items():
        if isinstance(value, dict) and sum(_score(each) is not None for each in value.values()) >= 2:
            return field
    return None


def _score(value: Any) -> float | None:
    if isinstance(value, Mapping):
        value = next((value[key] for key in _SCORES if key in value), None)
    return float(value) if isinstance(value, bool | int | float) else None


def _pair(found: list[dict[str, Any]], field: str) -> tuple[str, str]:
    """A small and a large engine: one of PAIRS, else the best and the one nearest to 70 % of its mean score."""
    known = found[0][field]
    for pair in PAIRS:
        if all(engine in known for engine in pair):
            return pair
    return _chosen_pair(found, field, set())


def _chosen_pair(found: list[dict[str, Any]], field: str, without: set[str]) -> tuple[str, str]:
    means = {}
    for engine in found[0][field].keys() - without:
        scores = [s for row in found if (s := _score(row[field].get(engine))) is not None]
        means[engine] = float(np.clip(scores, 0.0, 1.0).mean())
    large = max(sorted(means), key=lambda engine: means[engine])
    others = [engine for engine in sorted(means) if engine != large]
    return min(others, key=lambda engine: abs(means[engine] - 0.7 * means[large])), large


def _prompt(row: Mapping[str, Any]) -> str:
    text = str(row["prompt"] if isinstance(row.get("prompt"), str) else row["question"])
    choices = row.get("choices") or row.get("options")
    if not choices:
        return text
    try:
        parsed = ast.literal_eval(choices) if isinstance(choices, str) else choices
    except (ValueError, SyntaxError):
        return f"{text}\n{choices}"
    if isinstance(parsed, dict):
        parsed = parsed.get("text", [])
    return text + "\n" + "\n".join(f"{letter}. {c}" for letter, c in zip(LETTERS, parsed, strict=False))
