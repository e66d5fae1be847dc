"""Notices that a task is no longer what its student was trained on: answers that differ, or inputs that lie farther off.

An e-detector each (Shin, Ramdas and Rinaldo, "E-detectors"): while an event is no likelier than expected, an alarm comes
after `FALSE_ALARM_AFTER` observations or more in expectation. An alarm asks the teacher more often, so that what changed
is learnt and the promise, which alone stops a student, is soon known to hold or not. It ends with the next version.
"""

from __future__ import annotations

from router.guarantee.evidence import Detector

FALSE_ALARM_AFTER = 1000.0
_LIKELIEST, _LEAST_LIKELY = 0.9, 0.02
_MISCALIBRATED = 1.5
"""By how much confidences may be wrong before that is called a change."""
_REFERENCE = 200
"""First distances of a version, which say what is usual."""
_FAR, _FAR_EXPECTED = 0.9, 0.2
"""Which quantile of them is far, and how many may be farther."""


class Drift:
    """Both signs of one task, since the version in use came."""

    def __init__(self) -> None:
        self._version = -1
        self._begin()

    def _begin(self) -> None:
        self.disagreement, self.distance = Detector(FALSE_ALARM_AFTER), Detector(FALSE_ALARM_AFTER)
        self._usual: list[float] = []
        self._far: float | None = None

    @property
    def found(self) -> bool:
        """Tell if either has risen."""
        return self.disagreement.found or self.distance.found

    def seen(self, version: int, distance: float) -> None:
        """An input came. `distance`: of its embedding to the nearest input that the version was trained on, cosine."""
        self._of(version)
        if self._far is None:
            self._usual.append(distance)
            if len(self._usual) == _REFERENCE:
                self._far = sorted(self._usual)[int(_FAR * _REFERENCE)]
            return
        self.distance.add(float(distance <= self._far), 1 - _FAR_EXPECTED)

    def told(self, version: int, confidence: float, *, agreed: bool) -> None:
        """The teacher answered as the student would have, or not; `confidence`: the student's, 0 to 1."""
        self._of(version)
        expected = min(_LIKELIEST, max(_LEAST_LIKELY, _MISCALIBRATED * (1 - confidence)))
        self.disagreement.add(float(agreed), 1 - expected)

    def _of(self, version: int) -> None:
        if version > self._version:
            self._version = version
            self._begin()
