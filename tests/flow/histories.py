"""Runs histories, one after another, in a world that a fixture keeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st


class World(Protocol):
    """What the fixture `world` gives, with the loop that it lives on."""

    @property
    def live(self) -> Callable[[Any], Coroutine[Any, Any, None]]: ...


def property_of(histories: st.SearchStrategy[Any], examples: int) -> Any:
    """A test that lives through so many histories, and fails where the world does."""
    quick = settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        # Every history leaves its traces for the next ones: a shorter one would not be the same test.
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )

    def test(world: tuple[World, asyncio.Runner], history: Any) -> None:
        made, runner = world
        runner.run(made.live(history))

    return quick(given(history=histories)(test))
