"""Is what helps chosen, rather than what is similar, when real models answer? With any two engines that speak OpenAI's API.

    python -m benchmarks.helpfulness.engines --engines URL_SMALL URL_LARGE [--requests 300] [--seed 7]

Made for the tiny models (`make tiny-models`, then one `vllm serve` for each):
their world is where the questions come from, and its judge is exact. The large engine answers every fact once, in
some phrasing: that is the bank. Requests ask in another phrasing. The scorer learns from graded answers of the small
engine to requests about some of the towns, served with varying examples, and, as in service, from what the bank's own
answers about these towns agree on ("outcomes alone": without that); what is compared is asked about towns of other
families. Every quality here is of an answer the small engine gave; nothing is simulated but the world. Greedy
decoding, so the same prompt is asked once.

The oracle tries the 20 candidates one by one, those about the asked fact first, and sends the first that makes the
answer right; none where the engine is right alone, or no candidate makes it so.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.helpfulness.choosing import (
    CANDIDATES,
    MOST,
    choose,
    drawn,
    opened,
    outcome,
    study_options,
)
from benchmarks.options import write
from benchmarks.tables import markdown
from benchmarks.tiny_models.world import PHRASINGS, Fact, World
from benchmarks.vllm.serving import chat, remote
from learning.training.scorer.lessons import MOST_EXAMPLES, lessons
from learning.training.scorer.rows import Row
from learning.training.scorer.training import trained
from router.embedding.embedder import Embedder
from router.embedding.model import prepare
from router.examples.features import Features, RequestView
from router.examples.prior import prior_model
from router.examples.rarity import Rarity
from router.examples.scorer import Scorer
from router.plan import Candidate
from router.prompt import example_tokens, with_examples
from store.records import Example, Vector

ANSWER_TOKENS = 24
COUNTERFACTUAL = 0.4
"""Of what is learnt from: how often an answer without examples is asked for, too."""
LEARNT_FAMILIES = 0.6
"""Share of the families of towns that the scorer learns about."""
FAMILY = 4
AT_ONCE = 16
NOW_S = 86_400.0


@dataclass(frozen=True)
class Asked:
    """A question and what could be sent along with it."""

    fact: Fact
    question: str
    vector: Vector
    near: tuple[Candidate, ...]
    """Nearest first."""


Prompt = tuple[str, tuple[int, ...]]
"""A question, and the ids of the examples sent with it, in order."""


class Engine:
    """One engine, asked greedily; no prompt twice."""

    def __init__(self, url: str) -> None:
        """`url`: with /v1, as an OpenAI client would be given it. Raises OSError where nobody answers."""
        self.served = remote(url)
        self.said: dict[Prompt, str] = {}

    def ask(self, prompts: Sequence[tuple[str, Sequence[Candidate]]]) -> None:
        """Fetches what it says to each of `prompts` (a question and its examples, in order) into `said`."""
        new = {key(question, examples): (question, examples) for question, examples in prompts}
        waiting = [name for name in new if name not in self.said]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            self.said.update(
                zip(waiting, pool.map(lambda name: self._answer(*new[name]), waiting), strict=True)
            )

    def _answer(self, question: str, examples: Sequence[Candidate]) -> str:
        messages = with_examples([{"role": "user", "content": question}], examples)
        found = chat(self.served, question, messages=messages, max_tokens=ANSWER_TOKENS)
        return str(found["choices"][0]["message"]["content"])


def key(question: str, examples: Sequence[Candidate]) -> Prompt:
    """What tells two prompts apart."""
    return question, tuple(c.example.id for c in examples)


class Town:
    """The world, the bank that the large engine's answers make, and the small engine's graded answers."""

    def __init__(self, small: Engine, large: Engine, embed: Callable[[str], Vector], seed: int) -> None:
        self.world, self.small = World(), small
        self._rng = random.Random(seed)
        self._embed = embed
        self._phrased = [self._rng.randrange(len(PHRASINGS)) for _ in self.world.facts]
        asked = [fact.question(p) for fact, p in zip(self.world.facts, self._phrased, strict=True)]
        large.ask([(question, ()) for question in asked])
        answers = [large.said[question, ()] for question in asked]
        self.large_right = float(np.mean([self._right(q, a) for q, a in zip(asked, answers, strict=True)]))
        self._vectors = np.stack([embed(question) for question in asked])
        self._answer_vectors = np.stack([embed(answer) for answer in answers])
        self._examples = [
            Example(i + 1, i + 1, "t", "", question, answer, "large", 0.0)
            for i, (question, answer) in enumerate(zip(asked, answers, strict=True))
        ]

    def requests(self, count: int, *, learnt: bool, relevant: bool = True) -> list[Asked]:
        """Drawn among the towns that are learnt about, or the others; with the 20 nearest of the bank.

        Without `relevant`, the bank is without the fact that is asked about.
        """
        families = len(self.world.facts) // FAMILY
        bound = round(families * LEARNT_FAMILIES) * FAMILY
        there = range(bound) if learnt else range(bound, len(self.world.facts))
        found = []
        for _ in range(count):
            place = self._rng.choice(there)
            others = [p for p in range(len(PHRASINGS)) if p != self._phrased[place]]
            fact = self.world.facts[place]
            question = fact.question(self._rng.choice(others))
            vector = self._embed(question)
            similarity = self._vectors @ vector
            order = [i for i in np.argsort(-similarity, kind="stable").tolist() if relevant or i != place]
            near = tuple(self._candidate(i, float(similarity[i])) for i in order[:CANDIDATES])
            found.append(Asked(fact, question, vector, near))
        return found

    def bank(self) -> list[Candidate]:
        """What it holds about the towns that are learnt about, oldest first."""
        families = len(self.world.facts) // FAMILY
        return [self._candidate(i, 0.0) for i in range(round(families * LEARNT_FAMILIES) * FAMILY)]

    def quality(self, asked: Asked, examples: Sequence[Candidate]) -> float:
        """1 if the small engine answered right with these, which it must have been asked; else 0."""
        return float(self._right(asked.question, self.small.said[key(asked.question, examples)]))

    def draw(self, near: Sequence[Candidate]) -> list[Candidate]:
        """A set to learn from."""
        return drawn(self._rng, near)

    def sample(self, near: Sequence[Candidate], count: int) -> list[Candidate]:
        """Any of them."""
        return self._rng.sample(list(near), count)

    def also_without(self) -> bool:
        """Whether a request that is learnt from is asked without examples too."""
        return self._rng.random() < COUNTERFACTUAL

    def _right(self, question: str, answer: str) -> bool:
        return self.world.is_right(question, answer)

    def _candidate(self, i: int, similarity: float) -> Candidate:
        return Candidate(self._examples[i], similarity, self._vectors[i], self._answer_vectors[i])


def view(asked: Asked) -> RequestView:
    """As the scorer sees it."""
    return RequestView(asked.question, asked.vector, "large")


def outcomes(town: Town, requests: Sequence[Asked], features: Features) -> list[Row]:
    """Graded answers to requests served with varying examples."""
    drawn = [(asked, town.draw(asked.near)) for asked in requests]
    served = [
        pair for asked, sent in drawn for pair in ((asked, sent), (asked, []))[: 1 + town.also_without()]
    ]
    town.small.ask([(asked.question, sent) for asked, sent in served])
    return [
        outcome(
            place,
            float(place),
            view(asked),
            asked.near,
            sent,
            features,
            town.quality(asked, sent),
            1.0 if sent else 1 / COUNTERFACTUAL,
        )
        for place, (asked, sent) in enumerate(served)
    ]


def by_scorer(scorer: Scorer, requests: Sequence[Asked]) -> list[list[Candidate]]:
    """What the scorer and the combiner send."""
    return [choose(scorer, view(asked), asked.near) for asked in requests]


def oracle(town: Town, requests: Sequence[Asked]) -> list[list[Candidate]]:
    """For each the best of no example and any one of the candidates, found by asking."""
    town.small.ask([(asked.question, []) for asked in requests])
    best: list[list[Candidate]] = [[] for _ in requests]
    orders = [
        sorted(asked.near, key=lambda c, a=asked: c.example.answer != a.fact.answer) for asked in requests
    ]  # type: ignore[misc]
    wrong = [i for i, asked in enumerate(requests) if not town.quality(asked, [])]
    for n in range(CANDIDATES):
        town.small.ask([(requests[i].question, [orders[i][n]]) for i in wrong])
        for i in wrong:
            if town.quality(requests[i], [orders[i][n]]):
                best[i] = [orders[i][n]]
        wrong = [i for i in wrong if not best[i]]
    return best


def compared(
    town: Town, requests: Sequence[Asked], scorers: Mapping[str, Scorer], *, with_oracle: bool
) -> dict[str, Any]:
    """Every way to choose on the same requests: quality, examples and their tokens per request."""
    ways: dict[str, list[list[Candidate]]] = {
        "none": [[] for _ in requests],
        "random 5": [town.sample(asked.near, MOST) for asked in requests],
        **{f"nearest {k}": [list(asked.near[:k])[::-1] for asked in requests] for k in (1, 3, 5)},
        **{name: by_scorer(scorer, requests) for name, scorer in scorers.items()},
    }
    if with_oracle:
        ways["oracle"] = oracle(town, requests)
    found: dict[str, dict[str, float]] = {}
    for name, sets in ways.items():
        town.small.ask([(asked.question, sent) for asked, sent in zip(requests, sets, strict=True)])
        found[name] = {
            "quality": float(np.mean([town.quality(a, s) for a, s in zip(requests, sets, strict=True)])),
            "examples": float(np.mean([len(sent) for sent in sets])),
            "tokens": float(np.mean([sum(map(example_tokens, sent)) for sent in sets])),
        }
    return {"requests": len(requests), "ways": found}


def correlations(town: Town, requests: Sequence[Asked], scorers: Mapping[str, Scorer]) -> dict[str, float]:
    """Of similarity and of each predicted gain with the true gain of each candidate by itself."""
    town.small.ask([(asked.question, [c]) for asked in requests for c in asked.near])
    town.small.ask([(asked.question, []) for asked in requests])
    true = [town.quality(a, [c]) - town.quality(a, []) for a in requests for c in a.near]
    said = {"similarity": [c.similarity for asked in requests for c in asked.near]}
    for name, scorer in scorers.items():
        said[name] = [g for asked in requests for g in scorer.score(view(asked), asked.near).worths]
    return {name: float(np.corrcoef(values, true)[0, 1]) for name, values in said.items()}


def table(title: str, figures: Mapping[str, Any]) -> str:
    """Markdown."""
    rows = [
        [name, f"{m['quality']:.3f}", f"{m['examples']:.2f}", f"{m['tokens']:.0f}"]
        for name, m in figures["ways"].items()
    ]
    title = f"\n### {title} ({figures['requests']} requests)\n\n"
    return title + markdown(("chosen by", "right", "examples", "tokens"), rows)


def run(
    small: str,
    large: str,
    *,
    requests: int,
    seed: int,
    cache: Path,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Everything, in order; `requests` to learn from, two thirds as many to compare by."""
    rarity = Rarity.read(prepare("package", cache).tokenizer)
    features = Features(rarity)
    embedder = Embedder.open("package", cache, cache_entries=50_000)
    with ExitStack() as stack:
        stack.callback(embedder.close)
        town = Town(Engine(small), Engine(large), embedder.embed_blocking, seed)
        tell(f"the large engine is right about {town.large_right:.3f} of the facts")
        rows = outcomes(town, town.requests(requests, learnt=True), features)
        bare = trained(rows, prior_model(), tell=tell)
        taught = lessons(town.bank(), Features(rarity, MOST_EXAMPLES), lambda asked: [], "large", seed=seed)
        made = trained(rows, prior_model(), lessons=taught, tell=tell)
        for one in (bare, made):
            tell(one.reason)
        models = {"prior": prior_model(), "outcomes alone": bare.data, "trained": made.data}
        scorers = stack.enter_context(opened(models, features))
        later = town.requests(requests * 2 // 3, learnt=False)
        strange = town.requests(requests // 3, learnt=False, relevant=False)
        found = {
            "large_right": town.large_right,
            "training": {
                name: one.metrics | {"accepted": one.accepted, "rows": len(rows)}
                for name, one in (("outcomes alone", bare), ("trained", made))
            },
            "later": compared(town, later, scorers, with_oracle=True),
            "nothing_relevant": compared(town, strange, scorers, with_oracle=False),
            "correlation_with_true_gain": correlations(town, later[: requests // 6], scorers),
        }
    tell(table("Towns it never saw", found["later"]))
    tell(table("A bank without the fact", found["nothing_relevant"]))
    for name, value in found["correlation_with_true_gain"].items():
        tell(f"Correlation of {name} with true gain: {value:.3f}")
    return found


def main() -> None:
    """Trains, compares and prints; with --json also writes the figures."""
    parser = study_options(__doc__, requests=300)
    parser.add_argument("--engines", nargs=2, metavar=("SMALL", "LARGE"), help="their URLs, with /v1")
    asked = parser.parse_args()
    if not asked.engines:
        print(
            "skipped: no engines given; --engines URL_SMALL URL_LARGE"
            " (docs/how-to/run-real-models.md says how to serve some)"
        )
        return
    found = run(
        *asked.engines,
        requests=asked.requests,
        seed=asked.seed,
        cache=asked.cache / "models",
        tell=lambda line: print(line, flush=True),
    )
    write(found, asked.json)


if __name__ == "__main__":
    main()
