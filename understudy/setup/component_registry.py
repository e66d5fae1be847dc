"""From what describes components to the components: the only file that names their classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from engines.components.component import ComponentSpec
from engines.components.registry import ComponentRegistry, Counted, Member, over_http, uncounted

if TYPE_CHECKING:
    from router.embedding.embedder import Embedder


def component_registry(
    specs: Mapping[str, ComponentSpec], open_embedder: Callable[[], Embedder], counted: Counted = uncounted
) -> ComponentRegistry:
    """Every component. `open_embedder`: gives the house's embedder, when `local` is first asked; its owner closes it.

    Raises ValueError, naming the component, for a URL that cannot be.
    """
    return ComponentRegistry((_member(spec, open_embedder) for spec in specs.values()), counted)


def _member(spec: ComponentSpec, open_embedder: Callable[[], Embedder]) -> Member:
    if spec.kind == "local":
        from gateway.components.local import LocalEmbedder

        return LocalEmbedder(spec.name, open_embedder).member(spec)
    if spec.kind == "simulated":
        from simulation.components import SimulatedComponent

        assert spec.pace is not None
        return SimulatedComponent(spec.name, spec.pace).member(spec)
    try:
        return over_http(spec)
    except ValueError as error:
        raise ValueError(f"components.{spec.name}: its URL {error}") from None
