"""All components of a process: by name, counted, and closed together."""

from __future__ import annotations

import pytest

from engines.components.component import ABILITIES, Ability
from engines.components.counting import Uncounted
from engines.components.registry import ComponentRegistry, over_http
from engines.errors import Kind
from simulation.components import SimulatedComponent
from tests.engines.components.asking import spec, work
from tests.flow.upstream import Upstream, waits
from tests.simulation.simulated import PACE


class Counts(Uncounted):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def queued(self, change: int) -> None:
        self.seen.append(f"queued {change:+}")

    def begun(self) -> None:
        self.seen.append("begun")

    def ended(self) -> None:
        self.seen.append("ended")

    def answered(self, items: int, seconds: float) -> None:
        self.seen.append(f"answered {items}")

    def failed(self, kind: Kind) -> None:
        self.seen.append(f"failed {kind}")


async def test_a_component_does_what_its_kind_can(upstream: Upstream) -> None:
    counts: dict[tuple[str, Ability], Counts] = {}

    def counted(name: str, ability: Ability) -> Counts:
        return counts.setdefault((name, ability), Counts())

    made = spec("simulated", pace=PACE)
    components = ComponentRegistry([SimulatedComponent("c", PACE).member(made)], counted)
    assert set(counts) == {("c", ability) for ability in ABILITIES["simulated"]}
    await components.embed("c", ["a", "b"], work())
    assert counts["c", "embed"].seen[:2] == ["queued +2", "queued -2"]
    assert counts["c", "embed"].seen.count("answered 1") == 2
    assert components.load()["c", "embed"] == (0, 0, 1)
    assert "c" in components and list(components) == ["c"] and components.effective_batch("c") == 1
    for wrong in (components.identity, components.effective_batch):
        with pytest.raises(KeyError):
            wrong("nobody")
    with pytest.raises(KeyError):
        await components.search("nobody", "q", 1, work())
    await components.aclose()


async def test_what_fails_is_counted_and_what_is_closed_leaves_nothing(upstream: Upstream) -> None:
    counts = Counts()
    components = ComponentRegistry([over_http(spec("openai", upstream.url))], lambda name, ability: counts)
    upstream.plays(lambda call: call.answer(b"", 401))
    with pytest.raises(Exception, match="status 401"):
        await components.embed("c", ["a"], work())
    assert counts.seen == ["queued +1", "queued -1", "begun", "failed refused", "ended"]
    assert components.probed == components.probed and len(components.probed) == 1
    upstream.plays(waits)
    await components.aclose()


def test_a_component_of_another_kind_is_not_asked_over_http() -> None:
    with pytest.raises(ValueError, match="kind local"):
        over_http(spec("local"))
