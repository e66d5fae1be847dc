"""Lists what a definition may refer to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal

from workflows.definition import PASSES, Pass

Does = Literal["embed", "rerank", "search", "tool"]
"""The work that a component does."""
LOCAL = "local"
"""The component that is there without being configured: the house's embedder, and its reranker by vectors and words."""
_LOCAL_DOES: frozenset[Does] = frozenset({"embed", "rerank"})


@dataclass(frozen=True, slots=True)
class World:
    """The components and models that a definition may refer to, and its bounds."""

    components: Mapping[str, AbstractSet[Does]]
    """The configured components, with what each does; `local` is there in any case."""
    is_model: Callable[[str], bool]
    """Tells if a chat step may ask a model of this name."""
    taken: Callable[[str], bool]
    """Tells if a workflow may not have this name: a model of the configuration has it."""
    max_steps: int = 1000
    max_depth: int = 100
    """Most steps on a way from an input to the end of a workflow."""
    max_items: int = 1000
    passes: frozenset[Pass] = frozenset(PASSES)
    """The passes of a definition that does not say."""

    def does(self, component: str) -> AbstractSet[Does]:
        """Return what a component does; empty if there is none of this name."""
        return self.components.get(component, _LOCAL_DOES if component == LOCAL else frozenset())

    def who(self, does: Does) -> tuple[str, ...]:
        """The components that do it, `local` last."""
        configured = [name for name, each in self.components.items() if does in each and name != LOCAL]
        return (*configured, LOCAL) if does in self.does(LOCAL) else tuple(configured)

    def default(self, does: Does) -> str | None:
        """Return who does it if a step names nobody: the only component configured for it, else `local`. None: say which."""
        several = [name for name in self.who(does) if name != LOCAL]
        if len(several) == 1:
            return several[0]
        return LOCAL if not several and does in self.does(LOCAL) else None
