"""Trains a scorer on outcomes and lessons, and accepts it only if its choices are worth more than the nearest examples.

Rows are split by time: the oldest fit, later ones choose between rankings, and the latest decide. What choices are worth on
those is estimated by a model of set quality over all rankings together, the new one's, that in use and nearness, fitted on
the other half of the latest rows (the direct method: Dudik, Langford, Li 2011, "Doubly Robust Policy Evaluation and
Learning", section 2), so that no ranking judges itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from learning.learned.learner import Trained
from learning.training.comparison import Floats, comparison
from learning.training.scorer import rankers
from learning.training.scorer.lessons import Lessons
from learning.training.scorer.rankers import Judge, Line, Worths, by_scope, terms_of
from learning.training.scorer.rows import Row
from router.examples.combiner import combine
from router.examples.prior import prior_model
from router.examples.scorer import ScorerError, ScorerModel
from router.examples.set_quality import UNLEARNT, SetQuality
from router.plan import Candidate
from store.records import Example

LEAST_ROWS = 200
"""Outcomes below which training is pointless."""
LEAST_HELD_OUT = 20
CHECK, HELD_OUT = 0.2, 0.3
MOST = 8
"""Examples sent at most."""
LESSON_WEIGHT = 0.3
"""The weight of one lesson beside an example that was sent, in the ranking that learns from both."""
_ROOM_TOKENS = 1_000_000


class TooFewOutcomes(ValueError):
    """There are too few outcomes. The text says how many there are."""


def trained(
    rows: Sequence[Row],
    incumbent: bytes,
    *,
    lessons: Lessons | None = None,
    embedding_version: str = "",
    built_in: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Trained:
    """A scorer trained on `rows`, against `incumbent` (ONNX: the one in use, or the prior). Takes seconds.

    `built_in`: the incumbent is the prior. `tell` gets a line now and then. The same rows, lessons and incumbent give the
    same scorer. Raises TooFewOutcomes.
    """
    ordered = sorted(rows, key=lambda row: (row.at_s, row.request_id))
    fit, check, held = _split(ordered)
    found = _rankings(fit, lessons)
    errors = {name: _error(line, fit, check) for name, line in found.items()}
    tell(", ".join(f"{name}: squared error {error:.4f}" for name, error in errors.items()))
    best = min(errors, key=lambda name: errors[name])
    accepted = False
    with _in_use(incumbent, tell) as before:
        judges = _judges(held, [found[best], found["nearest"], before.worths])
        qualities = dict(before.declared.qualities)
        before_by_row = _worths(judges, held, [choose(before.worths, qualities, row) for row in held])
        in_use, none = _mean(before_by_row, held), _worth(judges, held, [[]] * len(held))
        # Where what was learnt does not rank better than nearness, how many of the nearest pay is learnt all the same.
        for name in dict.fromkeys([best, "nearest"]):
            line = found[name]
            learnt = by_scope(line, [*fit, *check])
            chosen = [choose(line, learnt, row) for row in held]
            by_row = _worths(judges, held, chosen)
            worth = {
                "new": _mean(by_row, held),
                "nearest": _worth(
                    judges,
                    held,
                    [_nearest(found["nearest"], r, len(c)) for r, c in zip(held, chosen, strict=True)],
                ),
                "none": none,
                "in use": in_use,
            }
            tell(f"{name}: {', '.join(f'{who} {value:.4f}' for who, value in worth.items())}")
            accepted = worth["new"] >= max(worth["nearest"], none) and worth["new"] > in_use
            if accepted:
                break
    model = line.onnx(embedding_version=embedding_version, qualities=by_scope(line, ordered))
    metrics = {
        "held_out": {who: round(value, 5) for who, value in worth.items()},
        "ranking": name,
        "validation": {of: round(error, 5) for of, error in errors.items()},
        "examples": round(float(np.mean([len(places) for places in chosen])), 3),
        "lessons": 0 if lessons is None else len(lessons.overlap),
        "comparison": comparison(
            "quality",
            np.clip(before_by_row, 0.0, 1.0),
            np.clip(by_row, 0.0, 1.0),
            np.array([row.weight for row in held]),
            with_built_in=built_in,
        ),
        "outcomes": {"fit": len(fit), "validation": len(check), "held_out": len(held)},
    }
    return Trained(model, metrics, accepted, _reason(worth, accepted=accepted))


def _reason(worth: Mapping[str, float], *, accepted: bool) -> str:
    verb = "worth more" if accepted else "not worth more"
    return (
        f"{verb} on the hold-out: {worth['new']:.3f}; what is in use {worth['in use']:.3f},"
        f" the nearest examples {worth['nearest']:.3f}, none {worth['none']:.3f}"
    )


def choose(worths: Worths, qualities: dict[str, SetQuality], row: Row, most: int = MOST) -> list[int]:
    """Choose what router.examples.combiner sends of a row's candidates, best first."""
    candidates = [
        Candidate(Example(n, 0, "", "", "", answer, "", 0.0), 0.0, gain=worth)
        for n, (answer, worth) in enumerate(zip(row.answers, worths(row.features), strict=True))
    ]
    quality = qualities.get(row.scope) or qualities.get("") or UNLEARNT
    found = combine(candidates, quality=quality, most=most, budget_tokens=_ROOM_TOKENS)
    return [candidate.example.id for candidate in reversed(found.chosen)]


def _rankings(rows: Sequence[Row], lessons: Lessons | None) -> dict[str, Line]:
    """Rankings to choose from: nearness, and lines that learnt from the bank, from outcomes, or from both."""
    sent = [(row, place) for row in rows for place in row.sent]
    features = np.stack([row.features[place] for row, place in sent])
    # A set's quality is that of each of its examples: rough, but of requests as they come.
    worth = np.array([row.quality for row, _ in sent])
    weight = np.array([row.weight for row, _ in sent])
    if lessons is None or not len(lessons.overlap):
        return {
            "nearest": rankers.nearest(features, worth, weight),
            "outcomes": rankers.fitted(features, worth, weight),
        }
    taught, one = lessons.features, np.ones(len(lessons.overlap))
    found = {"nearest": rankers.nearest(taught, lessons.overlap, one)}
    exact = (lessons.overlap >= 1.0).astype(np.float32)
    for name, told in (("graded", lessons.overlap), ("exact", exact)):
        if told.sum() >= LEAST_HELD_OUT:
            found[name] = rankers.fitted(taught, told, one)
    if "graded" in found:
        found["graded and outcomes"] = rankers.fitted(
            np.concatenate([taught, features]),
            np.concatenate([lessons.overlap, worth]),
            np.concatenate([LESSON_WEIGHT * one, weight]),
        )
    return found


def _error(line: Line, fit: Sequence[Row], check: Sequence[Row]) -> float:
    """Squared error of the expected quality on later rows."""
    qualities = by_scope(line, fit)
    return _mean(
        [
            ((qualities.get(row.scope) or qualities[""]).of(terms_of(line, row)) - row.quality) ** 2
            for row in check
        ],
        check,
    )


def _judges(held: Sequence[Row], rankings: Sequence[Worths]) -> tuple[Judge, Judge]:
    """Two, each fitted on what the other judges: every other row."""
    return Judge.fitted(held[1::2], rankings), Judge.fitted(held[::2], rankings)


def _worth(judges: tuple[Judge, Judge], held: Sequence[Row], chosen: Sequence[Sequence[int]]) -> float:
    """Return the mean worth of choices for these rows."""
    return _mean(_worths(judges, held, chosen), held)


def _worths(judges: tuple[Judge, Judge], held: Sequence[Row], chosen: Sequence[Sequence[int]]) -> Floats:
    """(rows,): what the choice for each of these rows is worth."""
    found = [judges[n % 2](row, places) for n, (row, places) in enumerate(zip(held, chosen, strict=True))]
    return np.array(found, dtype=np.float64)


def _nearest(near: Line, row: Row, number: int) -> list[int]:
    return np.argsort(-np.array(near(row.features)), kind="stable")[:number].tolist() if number else []


@contextmanager
def _in_use(incumbent: bytes, tell: Callable[[str], None]) -> Iterator[ScorerModel]:
    """The scorer in use, or the prior where it cannot be asked; on the way it is served, so that it is what runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scorer.onnx"
        path.write_bytes(incumbent)
        try:
            model = ScorerModel(path)
        except ScorerError as unusable:
            # Made for other features or cut short: the prior serves instead.
            tell(f"the scorer in use cannot be asked ({unusable}): compared with the prior instead")
            path.write_bytes(prior_model())
            model = ScorerModel(path)
        try:
            yield model
        finally:
            model.close()


def _split(ordered: list[Row]) -> tuple[list[Row], list[Row], list[Row]]:
    """Splits by time, never within one request. Raises TooFewOutcomes."""
    with_examples = sum(bool(row.sent) for row in ordered)
    if len(ordered) < LEAST_ROWS or with_examples < LEAST_ROWS // 2:
        raise TooFewOutcomes(
            f"{len(ordered)} outcomes to learn from, {with_examples} of them with examples; {LEAST_ROWS} are needed, "
            "half of them with examples"
        )
    first = _boundary(ordered, len(ordered) * (1 - HELD_OUT - CHECK))
    second = _boundary(ordered, len(ordered) * (1 - HELD_OUT))
    parts = ordered[:first], ordered[first:second], ordered[second:]
    if min(map(len, parts[1:])) < LEAST_HELD_OUT or not any(row.sent for row in parts[0]):
        raise TooFewOutcomes("the outcomes are of so few requests that none can be held out")
    return parts


def _boundary(ordered: list[Row], place: float) -> int:
    at = int(place)
    while at < len(ordered) and ordered[at].request_id == ordered[at - 1].request_id:
        at += 1
    return at


def _mean(values: Sequence[float] | Floats, rows: Sequence[Row]) -> float:
    return float(np.average(values, weights=[row.weight for row in rows]))
