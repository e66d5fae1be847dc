"""Remembers whether an engine's streams may be asked for their usage (`stream_options.include_usage`)."""

from __future__ import annotations

import time

_REFUSED_S = 3600.0
"""So long an engine that refused is not asked for its usage."""


class TellsUsage:
    """Whether an engine's streams are asked for their usage (`stream_options.include_usage`)."""

    def __init__(self, tells: bool = True) -> None:
        self._tells = tells
        self._refused_at = -_REFUSED_S

    @property
    def asked(self) -> bool:
        """Whether to ask."""
        return self._tells and time.monotonic() - self._refused_at >= _REFUSED_S

    def refused(self) -> None:
        """It answered only once it was not asked."""
        self._refused_at = time.monotonic()
