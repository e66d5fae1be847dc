"""What scoring and combining cost by themselves: CPU of this process per request, all threads, for 20 candidates.

The real scorer and combiner, in process, on texts as long as questions are. Each request is new to them, its examples
are not: what was read of an example is kept. Python's garbage collector is set as in the process that serves. Two models:
the prior that a fresh installation runs, and one as it is trained. Its weights are drawn at random: they cost what
learnt ones do.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np

from benchmarks.overhead.questions import Questions
from learning.training.scorer.rankers import Line
from router.embedding.model import prepare
from router.examples.combiner import combine, with_worths
from router.examples.features import NAMES, Features, RequestView
from router.examples.prior import prior_model
from router.examples.rarity import Rarity
from router.examples.scorer import Scorer
from router.examples.set_quality import SetQuality
from router.plan import Candidate
from store.records import Example, Vector
from understudy.processes.garbage_collection import calm_collector

CANDIDATES, BANK, DIMENSIONS = 20, 400, 384
MODELS = ("prior", "trained")
QUALITY = SetQuality(alone=0.3, one=0.3, vote=0.4, displaced=0.1, each=0.01)


class Stages:
    """A bank, requests and two scorers."""

    def __init__(self, folder: Path, rarity: Rarity) -> None:
        """`folder`: for the models. `rarity`: from the embedder's vocabulary."""
        self._rng = np.random.default_rng(5)
        self._pick = random.Random(5)
        self._questions = Questions()
        line = Line(self._rng.standard_normal(len(NAMES)) * 0.05, 0.0)
        models = (prior_model(), line.onnx(embedding_version="", qualities={"": QUALITY}))
        self._scorers = {}
        for name, model in zip(MODELS, models, strict=True):
            path = folder / f"{name}.onnx"
            path.write_bytes(model)
            self._scorers[name] = Scorer.open(path, version=name, features=Features(rarity), deadline_s=5.0)
        self._bank = [self._candidate(n) for n in range(BANK)]
        self._number = BANK
        calm_collector()

    def close(self) -> None:
        """Ends the scorers' threads."""
        for scorer in self._scorers.values():
            scorer.close()

    def once(self, model: str, requests: int) -> dict[str, float]:
        """CPU per request, in milliseconds: of scoring, of combining, and of both; and how many examples were chosen."""
        scorer = self._scorers[model]
        asked = []
        for _ in range(requests):
            self._number += 1
            request = RequestView(self._questions.text(self._number), self._vector(), "large")
            near = sorted(self._pick.sample(self._bank, CANDIDATES), key=lambda c: -c.similarity)
            asked.append((request, near))
        began_s = time.process_time()
        scored = [(near, scorer.score(request, near)) for request, near in asked]
        scored_s = time.process_time()
        sets = [
            combine(with_worths(near, scores.worths), quality=scores.quality, most=8, budget_tokens=2000)
            for near, scores in scored
        ]
        combined_s = time.process_time()
        return {
            "score_ms": (scored_s - began_s) / requests * 1000,
            "combine_ms": (combined_s - scored_s) / requests * 1000,
            "both_ms": (combined_s - began_s) / requests * 1000,
            "examples": sum(len(together.chosen) for together in sets) / requests,
        }

    def _candidate(self, number: int) -> Candidate:
        text = self._questions.text(number)
        example = Example(number, number, "t", "s", text, f"It is the {number}th. " + text, "large", 0.0)
        similarity, words = self._pick.uniform(0.75, 0.98), self._pick.uniform(0.0, 9.0)
        return Candidate(example, similarity, self._vector(), self._vector(), words=words)

    def _vector(self) -> Vector:
        vector = self._rng.standard_normal(DIMENSIONS, dtype=np.float32)
        return vector / np.linalg.norm(vector)


def measured(
    rounds: int, requests: int, folder: Path, rarity: Rarity | None = None
) -> dict[str, list[dict[str, float]]]:
    """Both models in turn, round by round, after a first round that is not kept. None for `rarity`: the product's own."""
    stages = Stages(folder, rarity or Rarity.read(prepare("package", folder / "models").tokenizer))
    found: dict[str, list[dict[str, float]]] = {model: [] for model in MODELS}
    try:
        for n in range(rounds + 1):
            for model in MODELS if n % 2 == 0 else reversed(MODELS):
                figures = stages.once(model, requests)
                if n:
                    found[model].append(figures)
    finally:
        stages.close()
    return found
