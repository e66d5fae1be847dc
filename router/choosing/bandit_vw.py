"""The bandit that learns: the average of outcomes near by (router.choosing.neighbours) and a linear model
(router.choosing.linear). How far each moves an estimate from the action's mean is fitted by cross-validation in
learning.training.bandit: where neither tells more than the mean, the mean is what is expected.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import struct
import threading
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from router.choosing import features
from router.choosing.bandit import (
    UNKNOWN,
    BanditBroken,
    BanditOutdated,
    Estimate,
    Lesson,
    Option,
    Scene,
    check_lesson,
    check_scene,
)
from router.choosing.linear import LEARNERS, PASSES, VOWPAL, Floats, Linear, usual_learner
from router.choosing.neighbours import Near, Neighbours

MAGIC = b"understudy-bandit-1\n"
FORMAT = 4
_BELIEF = 5.0
"""Outcomes' worth that the expectation before any outcome counts."""


@dataclass(frozen=True, slots=True)
class BanditSettings:
    """The settings that a bandit was made for. Stored in its artifact."""

    dimensions: int = 384
    """Length of the request's embedding."""
    embedding_version: str = ""
    """Version of the embedder whose vectors it was trained with; empty if that does not matter (tests)."""
    learner: str = field(default_factory=usual_learner)
    """What computes the linear model: a name of router.choosing.linear.LEARNERS. No other reads its artifact."""


class Shares(NamedTuple):
    """How far to follow the parts of an action's estimate (stacking: Wolpert 1992; not negative: Breiman 1996)."""

    near: float = 0.5
    """Share of what outcomes near by differ from the action's mean."""
    linear: float = 0.5
    """Share of what the linear model expects it to differ."""
    apart: float = 0.1
    """Standard deviation of the action's quality among requests, before any outcome near by is counted."""


class Parts(NamedTuple):
    """The parts of one option's estimate."""

    near: Near
    local: float
    """How much better than the action's mean the outcomes near by are; less for a request that is unlike them."""
    linear: float
    """How much better than the action's mean the linear model expects it to be."""


_EVEN = Shares()


class VowpalBandit:
    """Implements router.choosing.bandit.Bandit."""

    def __init__(self, settings: BanditSettings | None = None, *, version: str = "untrained") -> None:
        """Creates an untrained bandit, which expects what the scorer expects."""
        self.settings = settings or BanditSettings()
        self.shares: dict[str, Shares] = {}
        """By action."""
        self._version = version
        self._learned = 0
        self._lock = threading.Lock()
        self._neighbours = Neighbours(self.settings.dimensions)
        self._linear: Linear | None = None

    @property
    def version(self) -> str:
        return self._version

    @property
    def learned(self) -> int:
        return self._learned

    def estimate(self, scene: Scene) -> Estimate:
        """See router.choosing.bandit.Bandit."""
        parts = self.parts(scene)
        qualities, deviations = [], []
        for option, each in zip(scene.options, parts, strict=True):
            shares = self.shares.get(action_key(option), _EVEN)
            expected = each.near.overall + shares.near * each.local + shares.linear * each.linear
            qualities.append(min(1.0, max(0.0, expected)))
            deviations.append(_deviation(each.near, shares.apart))
        strangeness = 1.0 - _likeness(each.near for each in parts) if self._learned else 0.0
        return Estimate(tuple(qualities), tuple(deviations), strangeness)

    def parts(self, scene: Scene) -> list[Parts]:
        """Return the parts of each option's estimate. Raises BanditInput."""
        check_scene(scene, self.settings.dimensions)
        with self._lock:
            # The scorer says what share of the reference's quality to expect, not what is expected of the reference.
            best = self._neighbours.overall(action_key(scene.options[-1]), 1.0, _BELIEF)
            expected = {action_key(option): best * _prior(scene.context, option) for option in scene.options}
            nears = self._neighbours.estimate(scene.vector, expected, belief=_BELIEF)
            row = None
            if self._linear is not None:
                row = self._linear.row(scene.vector, scene.context, _likeness(nears.values()))
            found = []
            for action, prior in expected.items():
                near = nears.get(action, Near(prior, 0.0, prior, 0.0))
                linear = 0.0 if row is None or self._linear is None else self._linear.correction(action, row)
                found.append(Parts(near, near.likeness * (near.mean - near.overall), linear))
        return found

    def learn(self, lessons: Sequence[Lesson]) -> int:
        """Learns from the lessons in order and returns their number. Raises BanditInput before learning from any.

        What the features look like is taken from the first lessons it is given.
        """
        for lesson in lessons:
            check_lesson(lesson, self.settings.dimensions)
        if not lessons:
            return 0
        with self._lock:
            if self._linear is None:
                contexts = [lesson.scene.context for lesson in lessons]
                self._linear = self._untaught(contexts)
            self._meet(lessons)
            self._fit(self._linear, lessons)
            self._learned += len(lessons)
        return len(lessons)

    def _untaught(self, contexts: Sequence[Mapping[str, float]]) -> Linear:
        return Linear.scaled_to(self.settings.dimensions, contexts, self.settings.learner)

    def _meet(self, lessons: Sequence[Lesson]) -> None:
        """Keeps the outcomes of lessons with an embedding, by action."""
        found: dict[str, list[tuple[Any, float, float]]] = {}
        for lesson in lessons:
            if lesson.scene.vector is not None:
                for action, quality in _outcomes(lesson):
                    found.setdefault(action, []).append((lesson.scene.vector, quality, lesson.weight))
        for action, outcomes in found.items():
            vectors, qualities, weights = zip(*outcomes, strict=True)
            self._neighbours.add(action, np.stack(vectors), qualities, weights)

    def _fit(self, linear: Linear, lessons: Sequence[Lesson]) -> None:
        overall = {action: near.overall for action, near in self._neighbours.estimate(None).items()}
        rows: list[tuple[Lesson, Floats]] = [
            (e, linear.row(e.scene.vector, e.scene.context)) for e in lessons
        ]
        for _ in range(PASSES):
            for lesson, row in rows:
                for action, quality in _outcomes(lesson):
                    difference = quality - overall.get(action, quality)
                    linear.learn(action, row, difference, lesson.weight)

    def save(self) -> bytes:
        """Returns everything learnt as bytes, with a header that names the features and settings they need."""
        with self._lock:
            linear = self._linear or self._untaught([])
            arrays: dict[str, Any] = {
                "neighbours": np.frombuffer(self._neighbours.save(), np.uint8),
                "model": np.frombuffer(linear.model(), np.uint8),
                "mean": linear.mean,
                "deviation": linear.deviation,
            }
        packed = io.BytesIO()
        np.savez(packed, allow_pickle=False, **arrays)
        payload = packed.getvalue()
        header = json.dumps(
            {
                "format": FORMAT,
                "features": features.VERSION,
                "settings": asdict(self.settings),
                "names": linear.names,
                "actions": linear.actions,
                "shares": self.shares,
                "learned": self._learned,
                "sha256": hashlib.sha256(payload).hexdigest(),
            }
        ).encode()
        return MAGIC + struct.pack("<I", len(header)) + header + payload

    @classmethod
    def load(cls, data: bytes) -> Self:
        """Reads what `save` returned; its version is the first 12 digits of the bytes' SHA-256.

        Raises BanditBroken, BanditOutdated, BanditMissing.
        """
        header, payload = _unframed(data)
        if header.get("features") != features.VERSION:
            raise BanditOutdated(f"features {header.get('features')!r}; {features.VERSION!r} is needed")
        try:
            # An artifact that names no learner is of the time when there was one.
            settings = BanditSettings(**{"learner": VOWPAL} | header["settings"])
            if settings.learner not in LEARNERS:
                raise BanditOutdated(f"it learns with {settings.learner!r}, which this version has not")
            bandit = cls(settings, version=hashlib.sha256(data).hexdigest()[:12])
            with np.load(io.BytesIO(payload), allow_pickle=False) as kept:
                bandit._neighbours = Neighbours.load(kept["neighbours"].tobytes(), settings.dimensions)
                scaling = kept["mean"], kept["deviation"]
                model = kept["model"].tobytes()
            if {len(header["names"])} != {len(each) for each in scaling}:
                raise ValueError("the scaling has another shape")
            bandit._linear = Linear(
                settings.dimensions, header["names"], *scaling, header["actions"], model, settings.learner
            )
            bandit.shares = {action: Shares(*map(float, each)) for action, each in header["shares"].items()}
            bandit._learned = int(header["learned"])
        except (KeyError, TypeError, ValueError, OSError, RuntimeError, zipfile.BadZipFile) as error:
            raise BanditBroken(f"a bandit's parts do not fit: {type(error).__name__}") from None
        return bandit


def action_key(option: Option) -> str:
    """The name of an action in what is learnt; it stays valid when the list of engines changes."""
    return f"{option.engine}+examples" if option.with_examples else option.engine


def _likeness(nears: Iterable[Near]) -> float:
    """Return how like any past request a request is, 0 to 1, whichever action was taken then."""
    return max((near.likeness for near in nears), default=0.0)


def _deviation(near: Near, apart: float) -> float:
    """Standard deviation of an action's quality: of its mean over all requests, and of how far `apart` quality may be here.

    Many outcomes far away tell that an action is poor throughout: it need not be tried in every corner.
    """
    if not near.known:
        return UNKNOWN
    overall = UNKNOWN**2 / (1.0 + _BELIEF + near.known)
    return math.sqrt(overall + 1.0 / (1.0 / apart**2 + 4.0 * near.evidence))


def _outcomes(lesson: Lesson) -> list[tuple[str, float]]:
    """Each known quality with its action; none for a lesson that counts nothing."""
    if lesson.weight <= 0.0:
        return []
    return [(action_key(lesson.scene.options[i]), quality) for i, quality in lesson.qualities.items()]


def _prior(context: Mapping[str, float], option: Option) -> float:
    """Expected before anything is learnt: the scorer's value for the smallest engine, 1 for the reference, by rank
    between."""
    small = context.get("quality_with" if option.with_examples else "quality_alone", 0.5)
    return small + (1.0 - small) * option.features.get("rank", 0.0)


def _unframed(data: bytes) -> tuple[dict[str, Any], bytes]:
    start = len(MAGIC) + 4
    if not data.startswith(MAGIC) or len(data) < start:
        raise BanditBroken("these bytes are no bandit")
    (length,) = struct.unpack("<I", data[len(MAGIC) : start])
    try:
        header = json.loads(data[start : start + length])
    except ValueError:
        raise BanditBroken("a bandit's header cannot be read") from None
    payload = data[start + length :]
    # Vowpal Wabbit loads a truncated model without an error.
    if not isinstance(header, dict) or header.get("sha256") != hashlib.sha256(payload).hexdigest():
        raise BanditBroken("a bandit's bytes are not those that were saved")
    if header.get("format") != FORMAT:
        raise BanditOutdated(f"format {header.get('format')!r}; {FORMAT} is needed")
    return header, payload
