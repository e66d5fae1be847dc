"""The bandit that learns: Vowpal Wabbit corrects what similar past requests predict.

Landmarks (router.choosing.landmarks) predict quality from the outcomes of similar requests. Vowpal Wabbit runs as a
contextual bandit with action-dependent features (`--cb_adf`, `--cb_type mtr`: Bietti, Agarwal & Langford 2021, "A
Contextual Bandit Bake-off") on the error that remains; its scores per action are read, not a draw. Both learn online,
one outcome at a time, and both are stored in the artifact.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import threading
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from router.choosing import features
from router.choosing.bandit import (
    BanditBroken,
    BanditInput,
    BanditMissing,
    BanditOutdated,
    Estimate,
    Lesson,
    Option,
    Scene,
    check_lesson,
    check_scene,
)
from router.choosing.example_fit import ExampleFit
from router.choosing.landmarks import LandmarkKnobs, Landmarks

if TYPE_CHECKING:
    import vowpal_wabbit_next as vw


MAGIC = b"understudy-bandit-1\n"
FORMAT = 2


@dataclass(frozen=True, slots=True)
class BanditSettings:
    """How a bandit is built. Stored in its artifact: a model is only used with the settings it was trained with."""

    dimensions: int = 384
    """Length of the request's embedding."""
    embedding_version: str = ""
    """Version of the embedder whose vectors it was trained with; empty where that does not matter (tests)."""
    projected: int = 0
    """Dimensions of the seeded random projection of the embedding that Vowpal Wabbit sees; 0 for none."""
    seed: int = 20_261_121
    bits: int = 18
    learning_rate: float = 0.03
    power_t: float = 0.5
    """Exponent of the learning rate's decay; 0 keeps it constant, which follows drift and never converges."""
    l2: float = 0.0
    landmarks: LandmarkKnobs = field(default_factory=LandmarkKnobs)


class VowpalBandit:
    """Implements router.choosing.bandit.Bandit with Vowpal Wabbit, landmarks and one regression per action."""

    def __init__(self, settings: BanditSettings | None = None, *, version: str = "untrained") -> None:
        """Creates an untrained bandit, which expects what the scorer expects. Raises BanditMissing."""
        self.settings = settings or BanditSettings()
        self._version = version
        self._learned = 0
        self.taught_until_s = 0.0
        """Unix seconds up to which outcomes were learnt, if the caller sets it: earlier ones need not be learnt again."""
        self._lock = threading.Lock()
        self._landmarks = Landmarks(
            self.settings.dimensions, len(features.TEXT_NAMES), self.settings.landmarks
        )
        self._fit = ExampleFit(self.settings.landmarks.half_life_lessons)
        self._projection = _projection(self.settings)
        self._open(None)

    def _open(self, model: bytes | None) -> None:
        try:
            import vowpal_wabbit_next as vw
        except ImportError as error:
            raise BanditMissing("vowpal-wabbit-next is not installed") from error
        self._vw = vw
        try:
            self._workspace = vw.Workspace(_arguments(self.settings), model_data=model)
        except Exception as error:
            raise BanditBroken(f"Vowpal Wabbit refused the model: {type(error).__name__}") from None
        self._label = {
            "shared": vw.CBLabel(shared=True),
            "none": vw.CBLabel(),
        }
        self._pool: list[vw.Example] = [vw.Example()]
        self._pool[0].set_label(self._label["shared"])
        self._indices: dict[tuple[str, tuple[str, ...]], npt.NDArray[np.uint64]] = {}
        self._seen: dict[
            tuple[str, tuple[str, ...]], tuple[npt.NDArray[np.intp], npt.NDArray[np.uint64]]
        ] = {}

    @property
    def version(self) -> str:
        return self._version

    @property
    def learned(self) -> int:
        return self._learned

    def estimate(self, scene: Scene) -> Estimate:
        """See router.choosing.bandit.Bandit."""
        check_scene(scene, self.settings.dimensions)
        with self._lock:
            reach, familiarity = self._near(scene)
            base = self._base(scene, reach)
            change = self._scores(self._examples(scene))
        found = (min(1.0, max(0.0, b - c)) for b, c in zip(base, change, strict=True))
        return Estimate(tuple(found), familiarity)

    def learn(self, lessons: Sequence[Lesson]) -> int:
        """See router.choosing.bandit.Bandit."""
        for lesson in lessons:
            check_lesson(lesson, self.settings.dimensions)
        for lesson in lessons:
            # The lock is taken per lesson: a batch must not hold up threads that decide.
            with self._lock:
                self._take_in(lesson)
        return len(lessons)

    def train(self, lessons: Sequence[Lesson], *, passes: int) -> int:
        """Learns as `learn` does, then teaches Vowpal Wabbit the same lessons `passes` - 1 more times: one pass underfits.

        The landmarks count each lesson once. Holds the lock throughout, so call it only on a bandit that serves nobody.
        """
        for lesson in lessons:
            check_lesson(lesson, self.settings.dimensions)
        if not self._learned and len(lessons) >= _ENOUGH_TO_SCALE:
            self._landmarks.scaling.fit(np.stack([_looks(lesson.scene) for lesson in lessons]))
        count = self.learn(lessons)
        with self._lock:
            for _ in range(passes - 1):
                for lesson in lessons:
                    self._teach(lesson, self._near(lesson.scene)[0])
        return count

    def save(self) -> bytes:
        """See router.choosing.bandit.Bandit."""
        with self._lock:
            arrays, actions = self._landmarks.arrays()
            arrays |= self._fit.arrays(actions)
            model: bytes = self._workspace.serialize()
            learned = self._learned
        packed = io.BytesIO()
        np.savez(packed, allow_pickle=False, **arrays)
        payload = packed.getvalue() + model
        header = json.dumps(
            {
                "format": FORMAT,
                "features": features.VERSION,
                "settings": asdict(self.settings),
                "arguments": _arguments(self.settings),
                "actions": actions,
                "learned": learned,
                "taught_until_s": self.taught_until_s,
                "arrays_bytes": packed.tell(),
                "sha256": hashlib.sha256(payload).hexdigest(),
            }
        ).encode()
        return MAGIC + struct.pack("<I", len(header)) + header + payload

    @classmethod
    def load(cls, data: bytes) -> Self:
        """See router.choosing.bandit.Bandit. The loaded version is the first 12 digits of the bytes' SHA-256."""
        header, payload = _unframed(data)
        if header.get("features") != features.VERSION:
            raise BanditOutdated(f"features {header.get('features')!r}; {features.VERSION!r} is needed")
        try:
            plain = dict(header["settings"])
            settings = BanditSettings(**{**plain, "landmarks": LandmarkKnobs(**plain["landmarks"])})
            if header["arguments"] != _arguments(settings):
                raise BanditOutdated("made with other arguments of Vowpal Wabbit")
            split = int(header["arrays_bytes"])
            bandit = cls(settings, version=hashlib.sha256(data).hexdigest()[:12])
            with np.load(io.BytesIO(payload[:split]), allow_pickle=False) as kept:
                found = {name: kept[name] for name in kept.files}
            bandit._fit.restore({n: found.pop(n) for n in ("fit_squares", "fit_products")}, header["actions"])
            bandit._landmarks.restore(found, header["actions"])
            bandit._open(payload[split:])
            bandit._learned = int(header["learned"])
            bandit.taught_until_s = float(header["taught_until_s"])
        except (KeyError, TypeError, ValueError, OSError, zipfile.BadZipFile) as error:
            raise BanditBroken(f"a bandit's parts do not fit: {type(error).__name__}") from None
        return bandit

    def _take_in(self, lesson: Lesson) -> None:
        # The landmarks estimate before they learn: Vowpal Wabbit learns the error of that estimate.
        scene = lesson.scene
        place = self._place(scene)
        self._teach(lesson, self._landmarks.near(place)[0])
        observed: dict[str, float] = {}
        for index, quality in lesson.qualities.items():
            option = scene.options[index]
            if option.with_examples:
                # Landmarks store qualities, 0..1, so an error of -1..1 is mapped to that range.
                observed[_error_key(option)] = 0.5 + 0.5 * (quality - self._line(scene, option))
            else:
                observed[action_key(option)] = quality
        self._landmarks.learn(place, observed, lesson.weight)
        for index, quality in lesson.qualities.items():
            option = scene.options[index]
            if option.with_examples:
                prior = _prior(scene.context, option)
                self._fit.learn(_error_key(option), scene.context, prior, quality, lesson.weight)
        self._learned += 1

    def _teach(self, lesson: Lesson, reach: npt.NDArray[np.float32]) -> None:
        scene = lesson.scene
        if not lesson.qualities or lesson.weight <= 0.0:
            return
        base = self._base(scene, reach)
        lines = self._examples(scene)
        for index, quality in lesson.qualities.items():
            # A probability of 1: each action's quality is regressed on what the draw depended on, so importance weights
            # would correct nothing, and they make the model worse (docs/explanation/routing.md).
            label = self._vw.CBLabel(label=(0, base[index] - quality, 1.0), weight=lesson.weight)
            lines[1 + index].set_label(label)
            self._workspace.learn_one(lines)
            lines[1 + index].set_label(self._label["none"])

    def _near(self, scene: Scene) -> tuple[npt.NDArray[np.float32], float]:
        return self._landmarks.near(self._place(scene))

    def _place(self, scene: Scene) -> npt.NDArray[np.float32]:
        return self._landmarks.scaling.place(scene.vector, _looks(scene))

    def _base(self, scene: Scene, reach: npt.NDArray[np.float32]) -> list[float]:
        return [
            self._with_examples(scene, option, reach)
            if option.with_examples
            else self._landmarks.expected(reach, action_key(option), _prior(scene.context, option))
            for option in scene.options
        ]

    def _with_examples(self, scene: Scene, option: Option, reach: npt.NDArray[np.float32]) -> float:
        """Quality predicted from how well the examples fit, plus the mean error of that prediction on similar requests."""
        line = self._line(scene, option)
        error = self._landmarks.expected(reach, _error_key(option), 0.5)
        return min(1.0, max(0.0, line + 2.0 * (error - 0.5)))

    def _line(self, scene: Scene, option: Option) -> float:
        return self._fit.expected(_error_key(option), scene.context, _prior(scene.context, option))

    def _scores(self, lines: list[vw.Example]) -> list[float]:
        """Predicted cost per option, in the order of the options."""
        # vowpal-wabbit-next returns pairs sorted by score.
        found: Any = self._workspace.predict_one(lines)
        scores = [0.0] * (len(lines) - 1)
        for index, score in found:
            scores[index] = score
        if not all(abs(s) < 1e6 for s in scores):
            raise BanditInput("the model's scores are not finite")
        return scores

    def _examples(self, scene: Scene) -> list[vw.Example]:
        """The scene as Vowpal Wabbit's example lines. The lines are reused: freed ones never return to the system."""
        while len(self._pool) < 1 + len(scene.options):
            line = self._vw.Example()
            line.set_label(self._label["none"])
            self._pool.append(line)
        shared = self._pool[0]
        self._fill(shared, "C", scene.context)
        dense = shared["E"]
        dense.truncate_to(0)
        if scene.vector is not None and len(self._projection):
            dense.push_many_features(self._dense_indices(), self._projection @ scene.vector)
        for line, option in zip(self._pool[1:], scene.options, strict=False):
            identity = line["A"]
            identity.truncate_to(0)
            identity.push_many_features(self._named("A", (action_key(option),)), _ONE)
            self._fill(line, "S", option.features)
        return self._pool[: 1 + len(scene.options)]

    def _fill(self, line: vw.Example, namespace: str, numbers: Mapping[str, float]) -> None:
        group = line[namespace]
        group.truncate_to(0)
        kept, indices = self._named_of(namespace, tuple(numbers))
        group.push_many_features(indices, np.fromiter(numbers.values(), np.float32, len(numbers))[kept])

    def _named_of(
        self, namespace: str, names: tuple[str, ...]
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.uint64]]:
        """Which of `names` a model of quality may see, and their indices in Vowpal Wabbit."""
        found = self._seen.get((namespace, names))
        if found is None:
            kept = [i for i, name in enumerate(names) if name not in features.NOT_FOR_QUALITY]
            if len(self._seen) > 4096:
                self._seen.clear()
            indices = self._named(namespace, tuple(names[i] for i in kept))
            found = self._seen[namespace, names] = (np.array(kept, np.intp), indices)
        return found

    def _named(self, namespace: str, names: tuple[str, ...]) -> npt.NDArray[np.uint64]:
        found = self._indices.get((namespace, names))
        if found is None:
            index = self._workspace.get_index_for_scalar_feature
            found = np.array([index(n, namespace_name=namespace) for n in names], np.uint64)
            if len(self._indices) > 4096:
                self._indices.clear()
            self._indices[namespace, names] = found
        return found

    def _dense_indices(self) -> npt.NDArray[np.uint64]:
        return self._named("E", tuple(map(str, range(len(self._projection)))))


_ONE = np.ones(1, np.float32)
_ENOUGH_TO_SCALE = 50


def _looks(scene: Scene) -> npt.NDArray[np.float32]:
    """Text features of the scene, [numbers], in the order of router.choosing.features.TEXT_NAMES."""
    context = scene.context
    return np.array([context.get(name, 0.0) for name in features.TEXT_NAMES], np.float32)


def action_key(option: Option) -> str:
    """The name of an action in what is learnt; it stays valid when the list of engines changes."""
    return f"{option.engine}+examples" if option.with_examples else option.engine


def _error_key(option: Option) -> str:
    """The key of this option's regression on example fit, and of its error in the landmarks."""
    return action_key(option) + "~"


def _prior(context: Mapping[str, float], option: Option) -> float:
    """Expected before anything is learnt: the scorer's value for the smallest engine, 1 for the reference, by rank
    between."""
    small = context.get("quality_with" if option.with_examples else "quality_alone", 0.5)
    return small + (1.0 - small) * option.features.get("rank", 0.0)


def _projection(settings: BanditSettings) -> npt.NDArray[np.float32]:
    """A seeded random matrix, [projected, dimensions]. Rows are scaled so that a projected unit vector has components
    of about 0.1 to 1."""
    rng = np.random.default_rng(settings.seed)
    drawn = rng.standard_normal((settings.projected, settings.dimensions))
    return drawn.astype(np.float32)


def _arguments(settings: BanditSettings) -> list[str]:
    return [
        "--cb_adf",
        "--cb_type",
        "mtr",
        "--quadratic",
        "AC",
        "--quadratic",
        "AE",
        "--bit_precision",
        str(settings.bits),
        "--learning_rate",
        str(settings.learning_rate),
        "--power_t",
        str(settings.power_t),
        "--l2",
        str(settings.l2),
        "--quiet",
    ]


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
