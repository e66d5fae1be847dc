"""Times the stages of a decision. A stage that is late or broken is skipped, and noted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Stages:
    """The seconds of one decision's stages, and those that it was made without."""

    seconds: dict[str, float] = field(default_factory=dict)
    bypassed: list[str] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Times a stage; an exception inside skips the stage and is recorded in `bypassed`."""
        began = time.perf_counter()
        try:
            yield
        except Exception as error:
            self.bypassed.append(f"{name}:{type(error).__name__}")
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began
