"""A scripted upstream for engines that speak HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines.asking import Clock
from tests.flow.upstream import Upstream


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """Echoes bodies until a test gives it a script."""
    upstream = Upstream()
    yield upstream
    upstream.forget()
    upstream.close()
