"""Recorded answers of three small engines and a large one, played through the product's gate as a cascade.

Small engines agree where `learning.outcomes.equal.same` finds the letters they chose the same. The gate, its ledger and the
prediction by which it ranks are the product's (router.proving). An answer of a small engine costs 1, of the large one 10;
every call is paid for, also in comparisons. Outcomes come `_LATE` requests later.
"""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from benchmarks.recorded import rows
from benchmarks.routing.data import Recorded, load
from benchmarks.routing.metrics import recovered
from learning.outcomes.equal import same
from router.proving.gate import Gate
from router.proving.neighbours import Near, Outcomes
from router.proving.regions import Compared
from router.proving.standing import Action, Proof

SET = "router_mmlupro_open"
SMALL = ("Meta-Llama-3_1-8B-Instruct", "Phi-3-mini-4k-instruct", "Mixtral-8x7B-Instruct-v0.1")
LARGE = "Meta-Llama-3_1-70B-Instruct"
MAX_LOSS = 0.05
PRICE_SMALL, PRICE_LARGE = 1.0, 10.0
_LATE = 20
_LETTER = re.compile(r"answer is \(?([A-J])\)?")
_ALONE = Near()

Floats = npt.NDArray[np.float64]
Judge = Literal["right", "equal"]
"""right: a verdict tells whether the small answer was worse than the large one. equal: only equal letters count as good."""


@dataclass(frozen=True, slots=True)
class Answers:
    """The requests of one order, with what each engine answered."""

    stream: Recorded
    letters: Sequence[dict[str, str]]
    """By engine; empty where it named none."""

    def shuffled(self, seed: int) -> Answers:
        """The same in an order of their own, which is that of `Recorded.shuffled`."""
        order = np.random.default_rng(seed).permutation(len(self.letters))
        return Answers(self.stream.ordered(order), [self.letters[at] for at in order])

    def agree(self, members: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Where all of these engines gave the same answer."""
        return np.array([_agree([each[name] for name in members]) for each in self.letters])


@dataclass(frozen=True, slots=True)
class Run:
    """What came of one order."""

    scores: Floats
    """[n]: how much a request needs the large engine, before its outcome was known."""
    offloaded: float
    offloaded_late: float
    """The same of the last tenth."""
    lost: float
    most_lost: float
    """The largest mean loss at any point of the stream, over the requests up to there."""
    first: int | None
    compared: int
    saved: float
    """Net, as a share of asking the large engine always."""


def answers(data: Path, cache: Path) -> Answers:
    """All recorded answers. Raises NoData."""
    found = [row["outputs"] for row in rows(data / f"{SET}.jsonl.gz")]
    letters = [
        {name: (_LETTER.findall(each.get(name) or "") or [""])[0] for name in (*SMALL, LARGE)}
        for each in found
    ]
    return Answers(load(SET, data, cache), letters)


def played(asked: Answers, members: Sequence[str], judge: Judge, seed: int) -> Run:
    """Play one order."""
    gate, coins = Gate(("cascade",), MAX_LOSS, random.Random(seed)), random.Random(seed + 1)
    action, known = Action("cascade", with_examples=False), Outcomes()
    quality, points, agreed = asked.stream.quality, asked.stream.vectors, asked.agree(members)
    waiting: deque[tuple[int, int, Proof, Compared]] = deque()
    extra, calls = PRICE_SMALL * len(members), 0
    scores, served = np.ones(len(quality)), np.zeros(len(quality), bool)
    lost = most_lost = spent = 0.0
    for place, (small, large) in enumerate(quality):
        while waiting and waiting[0][0] <= place:
            _, of, proof, outcome = waiting.popleft()
            gate.add("t", "scope", points[of], proof.noted, action, outcome)
            known.add(points[of], _ALONE, outcome.quality or 0.0)
        proof = gate.proof("t", "scope", points[place], ())
        opened, agrees = bool(proof.open_actions()), bool(agreed[place])
        served[place] = opened and agrees
        spent += extra * opened + PRICE_LARGE * (not served[place])
        if agrees:
            scores[place] = -known.expected(points[place], _ALONE)
        if opened and not agrees:
            proof.take_back()
        elif coins.random() < proof.share * bool(proof.wished):
            spent += PRICE_LARGE if opened else extra
            if agrees:
                calls += 1
                waiting.append((place + _LATE, place, proof, _compared(asked, place, judge)))
        lost += (large - small) * served[place]
        most_lost = max(most_lost, lost / (place + 1))
    tenth = max(1, len(served) // 10)
    return Run(
        scores,
        float(served.mean()),
        float(served[-tenth:].mean()),
        lost / len(served),
        most_lost,
        int(served.argmax()) if served.any() else None,
        calls,
        1.0 - spent / (PRICE_LARGE * len(served)),
    )


def paid_apgr(scores: Floats, quality: Floats, extra: float) -> float:
    """APGR over what is spent, from the small engine alone (0) to the large one alone (1), where each request costs `extra`
    beside who answers it; where a coin between the two does better for as much, the coin counts. 0.5 is chance."""
    curve = recovered(scores, quality)
    spent = np.linspace(0.0, 1.0, 1001)
    large = (spent * (PRICE_LARGE - PRICE_SMALL) - extra) / (
        PRICE_LARGE if extra else PRICE_LARGE - PRICE_SMALL
    )
    found = np.interp(large, np.linspace(0.0, 1.0, len(curve)), curve, left=0.0)
    return float(np.trapezoid(np.maximum(found, spent), spent))


def _compared(asked: Answers, place: int, judge: Judge) -> Compared:
    small, large = asked.stream.quality[place]
    if judge == "right":
        return Compared(float(small >= large), float(large - small))
    letters = asked.letters[place]
    return Compared(float(_agree([letters[SMALL[0]], letters[LARGE]])))


def _agree(said: Sequence[str]) -> bool:
    return bool(said[0]) and all(same(each, said[0]) for each in said[1:])
