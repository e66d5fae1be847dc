"""Choosing examples as the gateway does, in process: scorer and combiner; and rows to train a scorer on."""

from __future__ import annotations

import random
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.options import options
from learning.training.scorer.rows import Row
from router.examples.combiner import combine, with_worths
from router.examples.features import Features, RequestView
from router.examples.scorer import Scorer
from router.examples.set_quality import same_answer
from router.plan import Candidate

CANDIDATES, MOST, BUDGET_TOKENS = 20, 8, 2000
NUMBERS, EXCHANGED = (1, 2, 3, 5), 0.3
"""Of what is learnt from: how many examples a request gets, drawn evenly; how often one of them is exchanged."""


def study_options(doc: str | None, requests: int) -> ArgumentParser:
    """A parser with what a study of examples can be told, whoever answers in it."""
    parser = options(doc, cache=True)
    parser.add_argument("--requests", type=int, default=requests, help="[%(default)s]")
    parser.add_argument("--seed", type=int, default=7)
    return parser


@contextmanager
def opened(
    models: Mapping[str, bytes], features: Features, clock: Callable[[], float] = time.time
) -> Iterator[dict[str, Scorer]]:
    """Scorers by name, ready until the block ends."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        scorers = {}
        for number, (name, model) in enumerate(models.items()):
            path = folder / f"{number}.onnx"
            path.write_bytes(model)
            # What is measured is the choice: on a busy machine a late score would make it another one.
            scorers[name] = Scorer.open(path, version=name, features=features, deadline_s=60.0, clock=clock)
            stack.callback(scorers[name].close)
        yield scorers


def choose(scorer: Scorer, request: RequestView, near: Sequence[Candidate]) -> list[Candidate]:
    """What the scorer and the combiner send, the most helpful last."""
    scores = scorer.score(request, near)
    scored = with_worths(near, scores.worths)
    return list(combine(scored, quality=scores.quality, most=MOST, budget_tokens=BUDGET_TOKENS).chosen)


def drawn(rng: random.Random, near: Sequence[Candidate]) -> list[Candidate]:
    """A set to learn from: some of the nearest, now and then one of them exchanged."""
    sent = list(near[: rng.choice(NUMBERS)])
    if rng.random() < EXCHANGED and len(near) > len(sent):
        sent[rng.randrange(len(sent))] = rng.choice(near[len(sent) :])
    return sent


def outcome(
    number: int,
    at_s: float,
    request: RequestView,
    near: Sequence[Candidate],
    sent: Sequence[Candidate],
    features: Features,
    quality: float,
    weight: float = 1.0,
) -> Row:
    """A row to train on: a request that was served with some of its nearest examples, and how good the answer was."""
    place = {c.example.id: k for k, c in enumerate(near)}
    return Row(
        request_id=f"{number:06}",
        at_s=at_s,
        features=features.rows(request, near, at_s),
        answers=tuple(same_answer(c.example.answer) for c in near),
        sent=tuple(place[c.example.id] for c in sent),
        quality=quality,
        weight=weight,
    )
