"""One stream through the gate, in process: the same gate as behind the sockets, with the vectors made beforehand.

Outcomes come after `_LATE` further requests, as from a queue in the background. What comparing costs is paid from an
allowance of 200 requests at the large engine's price, and a fifth of what offload saved; where that does not suffice
nothing is compared.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

import numpy as np

from benchmarks.proof.streams import Recorded, good_topic, shuffled, small_answer
from benchmarks.vectors import Matrix
from learning.outcomes.loss import loss, right_answer
from router.plan import Candidate
from router.proving.gate import Gate
from router.proving.regions import Compared
from router.proving.standing import Action, Proof
from store.records import Example

MOST_EXAMPLES = 5
MAX_LOSS = 0.05
_LATE = 20
_PRICE = {"small": 1.0, "large": 10.0}
_ALLOWED_REQUESTS, _SPEND_SHARE = 200, 0.2
_VERDICTS = 2
_TOLD_SHARE = 0.1
_LEAST_PROBING = 0.1
_AGAIN_EVERY = 20


@dataclass(frozen=True, slots=True)
class Run:
    """What came of one stream."""

    stream: str
    engine: str
    seed: int
    requests: int
    offloaded: float
    """Share of all requests."""
    offloaded_late: float
    """The same of the last tenth."""
    oracle: float
    """Share that a gate would offload that knows every outcome beforehand: see `_oracle`."""
    lost: float
    """Mean quality lost, over all requests."""
    most_lost: float
    """The largest mean quality lost at any point of the stream, over the requests up to there."""
    first: int | None
    """Place of the first request that was offloaded."""
    compared: int
    saved: float
    """Net, as a share of asking the large engine always: what offload saved less what comparing cost."""
    least_saved: float
    """The least of it at any point, in requests at the large engine's price."""


@dataclass(slots=True)
class _Books:
    """What was spent and saved, in the price of a token."""

    allowance: float
    large: float = 0.0
    offload: float = 0.0
    compared: float = 0.0
    least: float = 0.0

    @property
    def left(self) -> float:
        """Share of the allowance that is left, 0 to 1."""
        return max(0.0, 1.0 - self.compared / (self.allowance + _SPEND_SHARE * max(0.0, self.offload)))

    def affords(self, price: float) -> bool:
        return self.compared + price <= self.allowance + _SPEND_SHARE * max(0.0, self.offload)

    def now(self) -> None:
        self.least = min(self.least, self.offload - self.compared)


def replayed(
    recorded: Recorded,
    vectors: Matrix,
    engine: str,
    seed: int,
    count: int,
    theta: float = -1.0,
    flips: float = 0.0,
) -> Run:
    """Play one stream.

    `theta`: similarity from which an earlier answer may be an example; the product has no such bar. `flips`: share of the
    verdicts that say the opposite; then one comparison in `_AGAIN_EVERY` is of the large engine with itself.
    """
    order, answers = shuffled(recorded, seed, count)
    texts, points = [recorded.texts[place] for place in order], vectors[order]
    gate, coins = Gate(("small",), MAX_LOSS, random.Random(seed)), random.Random(seed + 1)
    remembered = np.zeros(len(order), bool)
    waiting: deque[tuple[int, int, Proof, Action, Compared]] = deque()
    large_prices = [_PRICE["large"] * _tokens(t, a) for t, a in zip(texts, answers, strict=True)]
    topics = [recorded.topics[at] for at in order] if recorded.topics else [""] * len(order)
    rights = [recorded.right[at] for at in order] if recorded.right else answers
    books = _Books(_ALLOWED_REQUESTS * float(np.mean(large_prices)))
    lost = most_lost = 0.0
    served: list[bool] = []
    compared, mimicked = 0, []
    awake = False
    for place, (text, said, right) in enumerate(zip(texts, answers, rights, strict=True)):
        while waiting and waiting[0][0] <= place:
            _, of, proof, action, outcome = waiting.popleft()
            gate.add("t", "scope", points[of], proof.noted, action, outcome)
        examples = _examples(points, place, remembered, answers, theta)
        nearest = examples[0].example.answer if examples else None
        proof = gate.proof("t", "scope", points[place], examples, int(remembered[:place].sum()))

        def small(action: Action, text: str = text, right: str = right) -> str:
            example = nearest if action.with_examples else None  # noqa: B023 - called at once
            return small_answer(
                engine,
                text,
                right,
                example,
                topic=topics[place],  # noqa: B023
                progress=place / len(texts),  # noqa: B023
                awake=awake,  # noqa: B023
            )

        def seen(same: bool) -> float:
            return float(same != (coins.random() < flips))

        mimicked.append(float(small(Action("small", bool(examples))) == right))
        opened = proof.open_actions()
        served.append(bool(opened))
        large_price = large_prices[place]
        books.large += large_price
        awake = awake or bool(opened)
        given = small(opened[0]) if opened else said
        lost += (said == right) - (given == right)
        if opened:
            books.offload += large_price - _small_price(text, right, examples, opened[0])
        else:
            remembered[place] = True
        most_lost = max(most_lost, lost / (place + 1))
        found: list[tuple[float, Action, Compared]] = []
        if coins.random() < proof.share * (max(_LEAST_PROBING, books.left) if proof.probing else 1.0):
            for action in proof.wished:
                price = large_price if opened else _small_price(text, right, examples, action)
                if recorded.judged:
                    # The request and both answers are read, and little is said.
                    price += _VERDICTS * _PRICE["large"] * _tokens(text + 2 * right, "")
                found.append((price, action, Compared(seen(small(action) == said))))
            if flips and proof.wished and coins.random() < 1 / _AGAIN_EVERY and books.affords(large_price):
                books.compared += large_price
                gate.saw("t", "scope", proof.noted, {"again": seen(True)})
        if recorded.told and coins.random() < _TOLD_SHARE:
            score, correction = float(given == right), right if recorded.told == "correction" else ""
            if opened:
                found.append((0.0, opened[0], Compared(loss=1.0 - score, said=score)))
            else:
                known = right_answer(said, score, correction)
                for each in proof.standings:
                    other = small(each.action)
                    lost_here = loss(said, other, right=known, score=score, quality=float(other == said))
                    price = _small_price(text, right, examples, each.action)
                    found.append((price, each.action, Compared(loss=lost_here, said=score)))
        for price, action, outcome in found:
            if books.affords(price):
                books.compared += price
                compared += 1
                waiting.append((place + _LATE, place, proof, action, outcome))
        books.now()
    tenth = max(1, len(served) // 10)
    mean_price = books.large / len(served)
    return Run(
        recorded.name,
        engine,
        seed,
        len(served),
        sum(served) / len(served),
        sum(served[-tenth:]) / tenth,
        _oracle(engine, points, mimicked, topics if recorded.topics else answers),
        lost / len(served),
        most_lost,
        served.index(True) if any(served) else None,
        compared,
        (books.offload - books.compared) / books.large,
        books.least / mean_price,
    )


def _examples(
    points: Matrix,
    place: int,
    remembered: np.ndarray[tuple[int], np.dtype[np.bool_]],
    answers: list[str],
    theta: float,
) -> list[Candidate]:
    """The nearest earlier requests whose answers are remembered, best first."""
    similarities = points[:place] @ points[place]
    near = np.flatnonzero((similarities >= theta) & remembered[:place])
    best = near[np.argsort(-similarities[near])][:MOST_EXAMPLES]
    return [
        Candidate(
            Example(int(i), 0, "t", "scope", "", answers[i], "large", 0.0),
            float(similarities[i]),
        )
        for i in best
    ]


def _oracle(engine: str, points: Matrix, qualities: list[float], topics: list[str]) -> float:
    """The share that could be offloaded with a mean quality of 1 - MAX_LOSS: all or nothing, but for the mimic, whose
    requests are taken in the order of the nearest earlier request's similarity, as far as the mean allows."""
    if engine == "mimic":
        nearest = [float((points[:i] @ points[i]).max(initial=0.0)) for i in range(len(points))]
        ordered = np.array(qualities)[np.argsort(-np.array(nearest))]
        means = np.cumsum(ordered) / np.arange(1, len(ordered) + 1)
        return float((np.flatnonzero(means >= 1 - MAX_LOSS).max(initial=-1) + 1) / len(ordered))
    if engine == "half":
        return sum(map(good_topic, topics)) / len(topics)
    return {"good": 1.0, "drift": 0.5, "gold": 1.0}.get(engine, 0.0)


def _tokens(text: str, answer: str) -> float:
    return (len(text) + 4 * len(answer)) / 4


def _small_price(text: str, answer: str, examples: list[Candidate], action: Action) -> float:
    """Prompt and answer, an answer's token costing four of the prompt's; an example is about as long as the request."""
    sent = len(examples) * (len(text) + len(answer)) / 4 if action.with_examples else 0.0
    return _PRICE["small"] * (_tokens(text, answer) + sent)
