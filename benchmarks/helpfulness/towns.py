"""Is the right example among those that are sent, where names differ by a letter? `python -m benchmarks.helpfulness.towns`.

The questions of the tiny models (benchmarks/tiny_models/world.py), without a model to answer them: each fact is in the bank
once, in some phrasing, and asked in another, so that another town in the same words is often nearer. Retrieval, features and
prior are those that serve. Nothing is chosen by these figures (benchmarks.helpfulness.recorded is what choices are made on).
Also the processor time of scoring and combining 20 candidates, the least of several turns for each question.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.helpfulness.cases import Case
from benchmarks.helpfulness.recorded import Bank, opened, sent
from benchmarks.options import options, write
from benchmarks.tables import markdown
from benchmarks.tiny_models.world import PHRASINGS, World
from benchmarks.vectors import embedded
from router.embedding import model as embedding_model
from router.examples.features import Features, RequestView
from router.examples.fusion import best_fused
from router.examples.prior import prior_model
from router.examples.rarity import Rarity
from router.examples.scorer import Scorer
from router.plan import Candidate

CANDIDATES, TURNS = 20, 30


def towns(seed: int, cache: Path) -> Case:
    """Every fact as it is remembered, and after all of them every fact as it is asked."""
    rng, facts = random.Random(seed), World().facts
    phrased = [rng.sample(range(len(PHRASINGS)), 2) for _ in facts]
    prompts = [fact.question(both[k]) for k in (0, 1) for fact, both in zip(facts, phrased, strict=True)]
    answers = [fact.answer for fact in facts] * 2
    vectors, said = embedded(prompts, cache), embedded(answers, cache)
    return Case(
        "towns",
        "commands",
        prompts,
        answers,
        [frozenset()] * len(prompts),
        list(range(len(prompts))),
        vectors,
        said,
    )


def measured(seeds: int, cache: Path) -> dict[str, float]:
    """Shares of the questions whose right example is among the candidates, or sent; `cpu_ms` of a choice."""
    rarity = Rarity.read(embedding_model.prepare("package", cache / "models").tokenizer)
    features, found, cpu_s = Features(rarity), dict[str, list[bool]](), list[float]()
    with TemporaryDirectory() as folder:
        prior = opened(Path(folder) / "prior.onnx", prior_model(), features)
        for seed in range(seeds):
            case = towns(seed, cache)
            half = len(case.prompts) // 2
            asked = list(range(half, 2 * half))
            for i, near in zip(asked, Bank(case, np.arange(half), rarity).near(asked), strict=True):
                considered = best_fused(near, CANDIDATES)
                request = RequestView(case.prompts[i], case.vectors[i], "large")
                chosen = sent(prior, request, considered)
                if not seed:
                    cpu_s.append(min(_cpu_s(prior, request, considered) for _ in range(TURNS)))
                for name, some in (
                    ("nearest", near[:1]),
                    ("5 nearest", near[:5]),
                    ("first of the prior", chosen[:1]),
                    ("sent by the prior", chosen),
                    ("20 candidates", considered),
                ):
                    found.setdefault(name, []).append(i - half in {c.example.id for c in some})
        prior.close()
    shares = {name: float(np.mean(there)) for name, there in found.items()}
    return {**shares, "cpu_ms": 1000.0 * float(np.mean(cpu_s))}


def _cpu_s(scorer: Scorer, request: RequestView, considered: list[Candidate]) -> float:
    began = time.process_time()
    sent(scorer, request, considered)
    return time.process_time() - began


def main() -> None:
    """From the command line."""
    parser = options(__doc__, cache=True)
    parser.add_argument("--seeds", type=int, default=5, help="200 questions each [%(default)s]")
    asked = parser.parse_args()
    figures = measured(asked.seeds, asked.cache)
    rows = [[name, f"{share:.3f}"] for name, share in figures.items() if name != "cpu_ms"]
    print(markdown(("among", "the right one"), rows))
    print(f"scoring and combining {CANDIDATES} candidates: {figures['cpu_ms']:.3f} ms of processor time")
    write(figures, asked.json)


if __name__ == "__main__":
    main()
