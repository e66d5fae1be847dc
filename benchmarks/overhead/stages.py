"""What scoring and combining cost by themselves: CPU of this process per request, all threads, for 20 candidates.

The real scorer and combiner, in process, on texts as long as questions are. Each request is new to them, its examples
are not: what was read of an example is kept. Python's garbage collector is set as in the process that serves. Three
models, since they cost differently: the prior that a fresh installation runs; one of the shape that training makes with
lessons from the bank, which looks at no embedding of an example; and one as it is trained from outcomes alone, which
does. Weights are drawn at random: they cost what learnt ones do.
And two kinds of text: ordinary words with a number among them, and the same with two names in each that no other text
has, which are compared letter by letter.
"""

from __future__ import annotations

import itertools
import random
import time
from pathlib import Path

import numpy as np

from benchmarks.overhead.questions import Questions
from learning.training.scorer.graph import SHAPES, scorer_model
from router.embedding.model import prepare
from router.examples.combiner import Knobs, combine, with_gains
from router.examples.features import NAMES, Features, RequestView, names_met
from router.examples.help_rates import HelpRates
from router.examples.prior import prior_model
from router.examples.rarity import Rarity
from router.examples.scorer import Scorer
from router.plan import Candidate
from store.records import Example, Vector
from understudy.processes.garbage_collection import calm_collector

CANDIDATES, BANK, DIMENSIONS = 20, 400, 384
MEMBERS = 4
_SIZES = {
    "d": DIMENSIONS,
    "r": 8 * MEMBERS,
    "t": 4 * MEMBERS,
    "s": len(NAMES),
    "h": 48 * MEMBERS,
    "m": MEMBERS,
}
"""As training makes them (learning.training.scorer.network, scorer_training)."""
_READ = np.tile(np.array([1, 0, 0, 0], np.float32), MEMBERS)
"""Of what a request may be about, each network reads one direction where the bank gave lessons."""
MODELS = ("prior", "trained", "embeddings")
KINDS = ("", "_named")
_SYLLABLES = (
    *("bra", "del", "fo", "gim", "hul", "ka", "lem", "mor", "nis", "quo", "rav", "tis", "ulo", "ven"),
    *("wex", "zar"),
)


class Stages:
    """A bank, requests and two scorers."""

    def __init__(self, folder: Path, rarity: Rarity) -> None:
        """`folder`: for the models. `rarity`: from the embedder's vocabulary."""
        self._rng = np.random.default_rng(5)
        self._pick = random.Random(5)
        self._questions = Questions()
        drawn = {
            name: (self._rng.standard_normal([_size(axis) for axis in axes]) * 0.05).astype(np.float32)
            for name, axes in SHAPES.items()
        }
        # Means: of shares drawn at random, weights below nothing would make none.
        drawn["mean_effects"] = np.tile(np.eye(2, dtype=np.float32), (MEMBERS, 1)) / MEMBERS
        drawn["mean_alone"] = np.full((MEMBERS, 1), 1 / MEMBERS, np.float32)
        taught = drawn | {"low_rank": drawn["low_rank"] * 0, "topics": drawn["topics"] * _READ}
        models = (prior_model(), scorer_model(taught), scorer_model(drawn))
        self._scorers = {}
        for name, model in zip(MODELS, models, strict=True):
            path = folder / f"{name}.onnx"
            path.write_bytes(model)
            self._scorers[name] = Scorer.open(
                path, version=name, dimensions=DIMENSIONS, features=Features(rarity), deadline_s=5.0
            )
        self._banks = {kind: [self._candidate(n, kind) for n in range(BANK)] for kind in KINDS}
        self._number = BANK
        self._rates = HelpRates()
        calm_collector()

    def close(self) -> None:
        """Ends the scorers' threads."""
        for scorer in self._scorers.values():
            scorer.close()

    def once(self, model: str, kind: str, requests: int) -> dict[str, float]:
        """CPU per request, in milliseconds: of scoring, of combining, and of both; and how many examples were chosen."""
        scorer = self._scorers[model]
        asked = []
        for _ in range(requests):
            self._number += 1
            request = RequestView(self._text(self._number, kind), self._vector(), "large")
            near = sorted(self._pick.sample(self._banks[kind], CANDIDATES), key=lambda c: -c.similarity)
            asked.append((request, near))
        drawn = [
            (gains, [(gain, 0.0) for gain in gains])
            for gains in self._rng.uniform(0.02, 0.4, (requests, CANDIDATES)).tolist()
        ]
        began_s = time.process_time()
        scored = [(near, scorer.score(request, near)) for request, near in asked]
        scored_s = time.process_time()
        sets = [
            combine(
                # Gains of its own: what a prior or random weights make of strangers would spare the combiner its work.
                with_gains(near, gains, self._rates.corrected("t", model, effects, familiar=familiar)),
                quality_alone=min(0.5, scores.quality_alone),
                most=5,
                budget_tokens=2000,
                knobs=Knobs(order="helpful_last", min_gain=0.0),
                familiar=familiar,
            )
            for (near, scores), (gains, effects) in zip(scored, drawn, strict=True)
            for familiar in [names_met(scores.features)]
        ]
        combined_s = time.process_time()
        return {
            "score_ms": (scored_s - began_s) / requests * 1000,
            "combine_ms": (combined_s - scored_s) / requests * 1000,
            "both_ms": (combined_s - began_s) / requests * 1000,
            "examples": sum(len(together.chosen) for together in sets) / requests,
        }

    def _text(self, number: int, kind: str) -> str:
        text = self._questions.text(number)
        return f"{_name(2 * number)} asks {_name(2 * number + 1)}: {text}" if kind else text

    def _candidate(self, number: int, kind: str) -> Candidate:
        text = self._text(number, kind)
        example = Example(number, number, "t", "s", text, f"It is the {number}th. " + text, "large", 0.0)
        return Candidate(example, self._pick.uniform(0.75, 0.98), self._vector(), self._vector())

    def _vector(self) -> Vector:
        vector = self._rng.standard_normal(DIMENSIONS, dtype=np.float32)
        return vector / np.linalg.norm(vector)


def measured(
    rounds: int, requests: int, folder: Path, rarity: Rarity | None = None
) -> dict[str, list[dict[str, float]]]:
    """Both models in turn, round by round, after a first round that is not kept; so for each kind of text.

    None for `rarity`: the product's own.
    """
    stages = Stages(folder, rarity or Rarity.read(prepare("package", folder / "models").tokenizer))
    found: dict[str, list[dict[str, float]]] = {model + kind: [] for kind in KINDS for model in MODELS}
    try:
        # One kind after the other: taken in turn, each would find the other's examples in the processor's caches.
        for kind, n in itertools.product(KINDS, range(rounds + 1)):
            for model in MODELS if n % 2 == 0 else reversed(MODELS):
                figures = stages.once(model, kind, requests)
                if n:
                    found[model + kind].append(figures)
    finally:
        stages.close()
    return found


def _name(number: int) -> str:
    """Another one for each of the first 65,536 numbers."""
    base = len(_SYLLABLES)
    return "".join(_SYLLABLES[number // base**place % base] for place in range(4)).capitalize()


def _size(axis: str) -> int:
    """Of an axis as scorer_graph.SHAPES writes it: "d", "3d", "2"."""
    name = axis.lstrip("0123456789")
    return int(axis.removesuffix(name) or 1) * (_SIZES[name] if name else 1)
