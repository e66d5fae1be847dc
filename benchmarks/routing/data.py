"""Recorded requests with the quality each of two engines gave them: the streams of benchmarks/routing.py."""

from __future__ import annotations

import ast
import gzip
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

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
    vectors: npt.NDArray[np.float32]
    """[requests, dimensions], unit length."""

    def shuffled(self, seed: int) -> Recorded:
        """The same requests in an order of their own."""
        order = np.random.default_rng(seed).permutation(len(self.prompts))
        return Recorded(
            self.name,
            self.small,
            self.large,
            tuple(self.prompts[i] for i in order),
            self.quality[order],
            self.vectors[order],
        )


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


SOURCES = {
    "gsm8k": _Source(
        "router_gsm8k_routellm.jsonl.gz",
        "mixtral-8x7b-instruct",
        "gpt-4-1106-preview",
        lambda row: str(row["prompt"]),
        lambda row, engine: float(row["models"][engine]["correct"]),
    ),
    "mmlu": _Source(
        "router_mmlu_routellm_open.jsonl.gz",
        "mixtral-8x7b-instruct",
        "gpt-4-1106-preview",
        lambda row: str(row["prompt"]),
        lambda row, engine: float(row["models"][engine]["correct"]),
    ),
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


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def load(name: str, data: Path, cache: Path, limit: int | None = None) -> Recorded | None:
    """The set `name`, embedded by the gateway's own embedder (kept in `cache`); None where its file is absent."""
    source = SOURCES[name]
    path = data / source.file
    if not path.exists():
        return None
    rows = list(_rows(path))[:limit]
    prompts = tuple(source.prompt(row) for row in rows)
    quality = np.array([[source.quality(row, e) for e in (source.small, source.large)] for row in rows])
    return Recorded(name, source.small, source.large, prompts, quality, embedded(prompts, cache))


def embedded(prompts: tuple[str, ...], cache: Path) -> npt.NDArray[np.float32]:
    """[prompts, dimensions]: each prompt's vector, from `cache` where it holds the same prompts."""
    key = hashlib.sha256("\0".join(prompts).encode()).hexdigest()[:16]
    path = cache / f"{key}.npy"
    if path.exists():
        return np.asarray(np.load(path), np.float32)
    from router.embedder import Embedder

    cache.mkdir(parents=True, exist_ok=True)
    embedder = Embedder.open("package", cache / "model", deadline_ms=60_000)
    try:
        vectors = np.stack([embedder.embed_blocking(text) for text in prompts]).astype(np.float32)
    finally:
        embedder.close()
    np.save(path, vectors)
    return vectors
