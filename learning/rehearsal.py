"""What a small engine would be worth on requests whose answers were recorded, before anything is switched on.

Leave one out: each question is asked of the small engine alone, with the most similar other requests of the log as examples,
and with random ones; to copy the most similar one's answer asks nobody. Quality is how close an answer is to the recorded
one (learning.outcomes.loss.closeness), so one less it bounds what is lost against whoever gave those: another answer may be
as good.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engines.asking import NotAnswered, chat_of
from engines.chat import ChatRequest
from learning.evaluation.intervals import Interval, Ratio, bootstrap
from learning.outcomes.loss import closeness
from router.prompt import with_pairs

Floats = npt.NDArray[np.float64]

_RESAMPLES = 1000
_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Past:
    """A request of the log with its answer."""

    chat: ChatRequest
    question: str
    answer: str
    scope: str
    """Hash of its instructions: examples come from the same."""
    vector: npt.NDArray[np.float32]
    """Unit vector of the question."""
    usd: float = 0.0
    """What its answer cost."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine said, in US dollars and seconds."""

    text: str
    usd: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Tried:
    """One question answered in one way."""

    quality: float
    usd: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """The questions that were answered in every way, in one order."""

    ways: Mapping[str, Sequence[Tried]]
    similarity: Sequence[float]
    """Of each question to the most similar other one."""
    large_usd: float
    """What the recorded answers of these questions cost."""


ALONE, NEAREST, RANDOM, COPY = "small alone", "small + {} nearest", "small + {} random", "copy of the nearest"


async def rehearse(
    past: Sequence[Past],
    ask: Callable[[ChatRequest], Awaitable[Answer | None]],
    *,
    questions: int,
    examples: int,
    seed: int = 0,
    advanced: Callable[[int, int], None] = lambda done, of: None,
) -> Rehearsed:
    """Ask, one request after the other. `ask` gives None where nothing more can be asked: then it ends there. A
    question of which it raises NotAnswered is left out."""
    draw = random.Random(seed)
    scopes: dict[str, list[int]] = defaultdict(list)
    for place, one in enumerate(past):
        scopes[one.scope].append(place)
    chosen = [n for n in draw.sample(range(len(past)), len(past)) if len(scopes[past[n].scope]) > examples]
    names = ALONE, NEAREST.format(examples), RANDOM.format(examples), COPY
    found: dict[str, list[Tried]] = {name: [] for name in names}
    similarity: list[float] = []
    large_usd = 0.0
    for count, place in enumerate(chosen[:questions]):
        advanced(count, min(questions, len(chosen)))
        one = past[place]
        others = [n for n in scopes[one.scope] if past[n].question != one.question]
        if len(others) < examples:
            continue
        near = np.array([past[n].vector for n in others]) @ one.vector
        order = [others[n] for n in np.argsort(-near, kind="stable")[:examples]]
        tried: list[Tried] = []
        # The most similar one stands last, beside the question.
        for shown in ([], order[::-1], draw.sample(others, examples)):
            pairs = [(past[n].question, past[n].answer) for n in shown]
            try:
                said = await ask(chat_of(one.chat.fields, with_pairs(one.chat.messages, pairs)))
            except NotAnswered:
                break
            if said is None:
                return Rehearsed(found, similarity, large_usd)
            tried.append(Tried(closeness(said.text, one.answer), said.usd, said.seconds))
        if len(tried) < len(names) - 1:
            continue
        tried.append(Tried(closeness(past[order[0]].answer, one.answer), 0.0, 0.0))
        for name, each in zip(names, tried, strict=True):
            found[name].append(each)
        similarity.append(float(near.max()))
        large_usd += one.usd
    return Rehearsed(found, similarity, large_usd)


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one way."""

    way: str
    questions: int
    quality: float
    within: Interval
    """95 %, of the quality."""
    more: float
    """Quality above the small engine's alone, on the same questions."""
    more_within: Interval
    usd_per_1000: float
    median_s: float


def rows(found: Rehearsed) -> list[Row]:
    """A row for each way. Raises ValueError where no question was answered."""
    alone = _qualities(found.ways[ALONE])
    ones = np.ones_like(alone)
    made: list[Row] = []
    for way, tried in found.ways.items():
        quality = _qualities(tried)
        (mean, within), (more, more_within) = bootstrap(
            [Ratio(quality, ones), Ratio(quality - alone, ones)], level=_LEVEL, resamples=_RESAMPLES
        )
        bounded = Interval(max(0.0, within.low), min(1.0, within.high))
        usd = 1000.0 * sum(one.usd for one in tried) / len(tried)
        median_s = float(np.median([one.seconds for one in tried]))
        made.append(Row(way, len(tried), mean, bounded, more, more_within, usd, median_s))
    return made


@dataclass(frozen=True, slots=True)
class Offload:
    """What one way would take over under one bound of the loss over all requests."""

    way: str
    max_loss: float
    share: float
    """Of the questions, those most like a past one first, as far as their loss is below the bound."""
    within: Interval
    """95 % of the resamples of the questions."""
    saved: float
    """Of what the recorded answers cost; 0 where nothing has a price."""


def offload(found: Rehearsed, way: str, max_loss: float, *, seed: int = 0) -> Offload:
    """See Offload. A prediction from these questions, not a proof: a gateway has to see as much for itself."""
    order = np.argsort(-np.array(found.similarity), kind="stable")
    loss = 1.0 - _qualities(found.ways[way])[order]
    count = len(loss)
    draw = np.random.default_rng(seed)
    shares = [_share(loss[np.sort(draw.integers(0, count, count))], max_loss) for _ in range(_RESAMPLES)]
    share = _share(loss, max_loss)
    taken = order[: round(share * count)]
    usd = sum(found.ways[way][n].usd for n in taken)
    saved = (share * found.large_usd - usd) / found.large_usd if found.large_usd else 0.0
    low, high = np.quantile(shares, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Offload(way, max_loss, share, Interval(float(low), float(high)), saved)


def sentence(found: Rehearsed, max_loss: float) -> str:
    """The verdict: what the best way would take at `max_loss`, and at which loss it would take everything."""
    asked = [name for name in found.ways if name != COPY]
    way = max(asked, key=lambda name: float(_qualities(found.ways[name]).mean()))
    now = offload(found, way, max_loss)
    took = "nothing" if now.share == 0 else f"{now.share:.0%} ({now.within.low:.0%} to {now.within.high:.0%})"
    text = f"With max_loss {max_loss:.0%} {took} would be offloaded ({way})"
    if now.share > 0 and found.large_usd:
        text += _money(now.saved)
    whole = float(1.0 - _qualities(found.ways[way]).mean())
    if now.share < 1.0:
        text += f"; at {whole:.0%} everything would"
        if found.large_usd:
            text += _money(offload(found, way, whole + 1e-9).saved)
    return text + "."


def _money(saved: float) -> str:
    return f", saving {saved:.0%}" if saved >= 0 else f", costing {-saved:.0%} more"


def _share(loss: Floats, max_loss: float) -> float:
    """The largest share of the first of these whose loss, over all of them, stays within the bound."""
    within = np.flatnonzero(np.cumsum(loss) / len(loss) <= max_loss)
    return float(within[-1] + 1) / len(loss) if len(within) else 0.0


def _qualities(tried: Sequence[Tried]) -> Floats:
    return np.array([one.quality for one in tried])
