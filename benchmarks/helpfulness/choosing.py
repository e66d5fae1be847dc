"""Choosing examples as the gateway does, in process: scorer, correction, combiner; and rows to train a scorer on."""

from __future__ import annotations

import random
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.options import options
from learning.training.scorer.rows import Row
from router.examples.combiner import Knobs, combine, with_gains
from router.examples.features import Features, RequestView, names_met
from router.examples.help_rates import HelpRates
from router.examples.scorer import Scorer
from router.plan import Candidate

CANDIDATES, MOST, BUDGET_TOKENS = 20, 5, 2000
DEFAULTS = Knobs(order="helpful_last")
NUMBERS, EXCHANGED = (1, 2, 3, 5), 0.3
"""Of what is learnt from: how many examples a request gets, drawn evenly; how often one of them is exchanged."""


def study_options(doc: str | None, requests: int) -> ArgumentParser:
    """A parser with what a study of examples can be told, whoever answers in it."""
    parser = options(doc, cache=True)
    parser.add_argument("--requests", type=int, default=requests, help="[%(default)s]")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--min-gain", type=float, default=DEFAULTS.min_gain)
    parser.add_argument("--min-promise", type=float, default=DEFAULTS.min_promise)
    return parser


@contextmanager
def opened(
    models: Mapping[str, bytes], dimensions: int, features: Features, clock: Callable[[], float] = time.time
) -> Iterator[dict[str, Scorer]]:
    """Scorers by name, ready until the block ends."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        scorers = {}
        for number, (name, model) in enumerate(models.items()):
            path = folder / f"{number}.onnx"
            path.write_bytes(model)
            # What is measured is the choice: on a busy machine a late score would make it another one.
            scorers[name] = Scorer.open(
                path, version=name, dimensions=dimensions, features=features, deadline_s=60.0, clock=clock
            )
            stack.callback(scorers[name].close)
        yield scorers


def choose(
    scorer: Scorer, rates: HelpRates, request: RequestView, near: Sequence[Candidate], knobs: Knobs
) -> list[Candidate]:
    """What the scorer and the combiner send, the requests before this one known to `rates`."""
    scores = scorer.score(request, near)
    familiar = names_met(scores.features)
    effects = rates.corrected("t", scores.scorer, scores.effects, familiar=familiar)
    found = combine(
        with_gains(near, scores.gains.tolist(), effects),
        quality_alone=scores.quality_alone,
        most=MOST,
        budget_tokens=BUDGET_TOKENS,
        knobs=knobs,
        familiar=familiar,
    )
    return list(found.chosen)


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
    scalars = features.rows(request, near, at_s)
    place = {c.example.id: k for k, c in enumerate(near)}
    none = np.zeros_like(request.vector)

    def stacked(vectors: list[np.ndarray]) -> np.ndarray:
        return np.stack(vectors) if vectors else np.zeros((0, len(none)), np.float32)

    return Row(
        request_id=f"{number:06}",
        at_s=at_s,
        request=request.vector,
        questions=stacked([none if c.vector is None else c.vector for c in sent]),
        answers=stacked([none if c.answer_vector is None else c.answer_vector for c in sent]),
        scalars=scalars[[place[c.example.id] for c in sent]],
        quality=quality,
        weight=weight,
    )
