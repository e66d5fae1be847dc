"""Recorded requests with the quality each of two engines gave them: the streams of benchmarks.routing."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.recorded import rows
from benchmarks.vectors import Matrix, embedded

LETTERS = "ABCDEFGHIJ"


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

    def shuffled(self, seed: int) -> Recorded:
        """The same requests in an order of their own."""
        order = np.random.default_rng(seed).permutation(len(self.prompts))
        prompts = tuple(self.prompts[i] for i in order)
        return replace(self, prompts=prompts, quality=self.quality[order], vectors=self.vectors[order])


@dataclass(frozen=True, slots=True)
class _Source:
    file: str
    small: str
    large: str
    prompt: Callable[[Mapping[str, Any]], str]
    quality: Callable[[Mapping[str, Any], str], float]


def _lettered(question: str, options: list[str]) -> str:
    return question + "\n" + "\n".join(f"{LETTERS[i]}. {o}" for i, o in enumerate(options[: len(LETTERS)]))


def _with_choices(row: Mapping[str, Any]) -> str:
    choices = row.get("choices")
    if not choices:
        return str(row["prompt"])
    try:
        parsed = ast.literal_eval(choices) if isinstance(choices, str) else choices
    except (ValueError, SyntaxError):
        return f"{row['prompt']}\n{choices}"
    if isinstance(parsed, dict):
        parsed = parsed.get("text", [])
    return _lettered(row["prompt"], [str(c) for c in parsed])


def _routellm(file: str) -> _Source:
    return _Source(
        file,
        "mixtral-8x7b-instruct",
        "gpt-4-1106-preview",
        lambda row: str(row["prompt"]),
        lambda row, engine: float(row["models"][engine]["correct"]),
    )


SOURCES = {
    "gsm8k": _routellm("router_gsm8k_routellm.jsonl.gz"),
    "mmlu": _routellm("router_mmlu_routellm_open.jsonl.gz"),
    "mmlupro": _Source(
        "router_mmlupro_open.jsonl.gz",
        "Meta-Llama-3_1-8B-Instruct",
        "Meta-Llama-3_1-70B-Instruct",
        lambda row: _lettered(row["question"], row["options"]),
        lambda row, engine: float(row["correct"][engine]),
    ),
    "llmrouter": _Source(
        "router_llmrouter_open.jsonl.gz",
        "llama-3.1-8b-instruct",
        "llama-3.1-nemotron-51b-instruct",
        _with_choices,
        lambda row, engine: float(row["scores"][engine]),
    ),
    "alpacaeval": _Source(
        "router_alpacaeval_open.jsonl.gz",
        "FuseChat-Llama-3.2-1B-Instruct",
        "FuseChat-Gemma-2-9B-Instruct",
        lambda row: str(row["prompt"]),
        lambda row, engine: float(row["win_vs_gpt4turbo"][engine]),
    ),
}


def load(name: str, data: Path, cache: Path, limit: int | None = None) -> Recorded:
    """The set `name`, embedded by the gateway's own embedder (kept in `cache`). Raises NoData."""
    source = SOURCES[name]
    found = rows(data / source.file)[:limit]
    prompts = tuple(source.prompt(row) for row in found)
    quality = np.array([[source.quality(row, e) for e in (source.small, source.large)] for row in found])
    vectors = embedded(prompts, cache, kept_as=np.float32)
    return Recorded(name, source.small, source.large, prompts, quality, vectors)
