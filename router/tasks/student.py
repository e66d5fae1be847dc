"""A student: predicts the label of an input from its embedding and its words, and knows what it was never trained on.

One ONNX model that runs on the caller's thread in some tens of microseconds; it declares in its own metadata what it was
made for. It decides nothing: whether its label is good enough is a policy's business.
"""

from __future__ import annotations

import base64
import math
import time
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import orjson

from engines.prediction import Prediction
from router.embedding.onnx_session import load
from router.tasks import features
from router.tasks.features import Hashed, hashed
from router.tasks.form import Form, normalised

if TYPE_CHECKING:
    import numpy.typing as npt

    from router.tasks.task import Task
    from store.records import Vector

_FORMAT = "1"
_PROPERTY = "understudy.student"
_QUICK_S = 0.001
"""CPU of a prediction up to which a change of threads would take longer than it saves."""
_TIMED_TEXT = "which of these labels is right? " * 20
_TIMED_RUNS = 3
_LENGTH_SLACK = 1.5
"""The factor by which an input may be longer than the longest, or shorter than the shortest, and still be like them."""


class StudentBroken(Exception):
    """The bytes are no student, one for other features or embeddings, or it gives what is no probability."""


@dataclass(frozen=True, slots=True)
class Declared:
    """The student's declaration of itself, as ONNX metadata."""

    labels: tuple[str, ...]
    """As the teacher writes them; the order of the model's output."""
    form: Form = field(default_factory=Form)
    embedding_version: str = ""
    """The version of the vectors it was trained on; empty: any."""
    features_version: str = features.VERSION
    kind: str = "logistic"
    """Or "centroid", or "mlp"."""
    temperature: float = 1.0
    """By which its logits were divided."""
    shortest: int = 0
    longest: int = 0
    """Lengths of the inputs it was trained on, in characters."""
    farthest: float = 2.0
    """Cosine distance to the nearest trained input beyond which an input is not like them."""
    least_met: float = 0.0
    """Share of runs of three characters that were met in training, below which an input is not like them."""
    met: bytes = b""
    """A bit per place of router.tasks.features.TRIGRAMS, compressed: whether it was met."""

    def metadata(self) -> dict[str, str]:
        """As ONNX metadata_props."""
        said = {**asdict(self), "format": _FORMAT, "form": self.form.encoded()}
        said["met"] = base64.b64encode(self.met).decode()
        return {_PROPERTY: orjson.dumps(said).decode()}

    @classmethod
    def read(cls, metadata: dict[str, str]) -> Declared:
        """Reads what `metadata` returned. Raises ValueError with the reason."""
        said: dict[str, Any] = orjson.loads(metadata.get(_PROPERTY, "{}"))
        if said.pop("format", None) != _FORMAT:
            raise ValueError("it is no student, or one of another format")
        said["form"], said["met"] = Form.decoded(said["form"]), base64.b64decode(said["met"])
        found = cls(**{**said, "labels": tuple(said["labels"])})
        if found.features_version != features.VERSION:
            raise ValueError(f"it was made for features {found.features_version}, not {features.VERSION}")
        return found


def met_bits(trigrams: Sequence[npt.NDArray[np.int32]]) -> bytes:
    """Pack the runs of three characters of these inputs into what `Declared.met` holds."""
    bits = np.zeros(features.TRIGRAMS, np.bool_)
    for places in trigrams:
        bits[places] = True
    return zlib.compress(np.packbits(bits).tobytes())


class Student:
    """An opened student. Thread-safe."""

    def __init__(self, session: Any, declared: Declared) -> None:
        self.declared = declared
        self.labels = declared.labels
        self._session = session
        self._places = {normalised(label): place for place, label in enumerate(declared.labels)}
        self._answers = tuple(declared.form.write(label) for label in declared.labels)
        self._shortest = declared.shortest / _LENGTH_SLACK
        self._longest = declared.longest * _LENGTH_SLACK
        bits = np.frombuffer(zlib.decompress(declared.met), np.uint8) if declared.met else None
        self._met = np.unpackbits(bits).view(np.bool_) if bits is not None else None
        self.quick = False
        """True if a prediction takes so little that it may be made on an event loop: measured when it was opened."""

    @classmethod
    def open(cls, data: bytes, *, embedding_version: str = "") -> Student:
        """Opens a published student (a few milliseconds) and runs it a few times. Raises StudentBroken with the reason.

        `embedding_version` is the embedder's: a student trained on other embeddings is refused.
        """
        try:
            session = load(data)
            declared = Declared.read(dict(session.get_modelmeta().custom_metadata_map))
            student = cls(session, declared)
            (dimensions,) = (port.shape[1] for port in session.get_inputs() if port.name == "vector")
            student._warm_up(np.full(dimensions, dimensions**-0.5, np.float32))
        except StudentBroken:
            raise
        except Exception as wrong:
            # onnxruntime raises a dozen exception types for what is truncated, or no model at all.
            raise StudentBroken(str(wrong)) from wrong
        made_for = declared.embedding_version
        if made_for and embedding_version and made_for != embedding_version:
            raise StudentBroken(f"it was trained on embeddings {made_for}, not {embedding_version}")
        return student

    def _warm_up(self, vector: Vector) -> None:
        took_s = []
        for _ in range(1 + _TIMED_RUNS):
            began_s = time.thread_time()
            self.predict(_TIMED_TEXT, vector, 0)
            took_s.append(time.thread_time() - began_s)
        self.quick = min(took_s) <= _QUICK_S

    def predict(self, input: str, vector: Vector, version: int, seen: Hashed | None = None) -> Prediction:
        """Predict the label of an input with the embedding `vector`, (dimensions,). Blocks for a tenth of a millisecond.

        `seen`: the input's columns, where they were computed already. Raises StudentBroken.
        """
        seen = seen or hashed(input)
        logs, similarity = self._run(seen, vector)
        top = int(logs.argmax())
        values = logs.tolist()
        # NaN is the largest to argmax, and fails every comparison.
        if not (-2.0 < similarity < 2.0 and -math.log(len(values)) - 1e-3 < values[top] < 1e-3):
            raise StudentBroken(f"it gave log-probabilities {values[:5]} and a similarity of {similarity}")
        distance = 1.0 - similarity
        return Prediction(
            version=version,
            labels=self.labels,
            log_probabilities=tuple(values),
            top=top,
            answer=self._answers[top],
            in_domain=self._in_domain(input, seen, distance),
            committee=(top,),
            distance=distance,
        )

    def vote(self, seen: Hashed, vector: Vector, labels: Student) -> int:
        """The place of its likeliest label among those of another student; -1 if that one does not know it."""
        top = int(self._run(seen, vector)[0].argmax())
        return labels._places.get(normalised(self.labels[top]), -1)

    def _run(self, seen: Hashed, vector: Vector) -> tuple[npt.NDArray[np.float32], float]:
        feeds = {"columns": seen.columns, "values": seen.values[None], "vector": vector[None]}
        try:
            logs, similarity = self._session.run(None, feeds)
        except Exception as failed:
            raise StudentBroken(str(failed)) from failed
        return logs[0], float(similarity[0])

    def _in_domain(self, input: str, seen: Hashed, distance: float) -> bool:
        said = self.declared
        if not self._shortest <= len(input) <= self._longest or distance > said.farthest:
            return False
        return self._met is None or float(self._met[seen.trigrams].mean()) >= said.least_met


class Students(Protocol):
    """The versions of every task's student."""

    def of(self, task: Task) -> Sequence[tuple[int, Student]]:
        """(version, student), the one in use first, at most 4; empty if there is none. Never waits."""
        ...


def predicted(members: Sequence[tuple[int, Student]], input: str, vector: Vector) -> Prediction:
    """Return the first member's prediction of an input, with the votes of all: a committee, if there are several.

    A member that fails has no vote. Raises StudentBroken if the first one fails.
    """
    (version, student), *others = members
    seen = hashed(input)
    prediction = student.predict(input, vector, version, seen)
    if not others:
        return prediction
    votes = [prediction.top]
    for _, other in others:
        try:
            votes.append(other.vote(seen, vector, student))
        except StudentBroken:
            continue
    return replace(prediction, committee=tuple(votes))
