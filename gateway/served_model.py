"""A model name, and who may answer it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from engines.apis import Api
from engines.engine import Engine
from router.plan import Policy
from router.policies.fixed import Fixed
from router.stand_ins import ANYBODY, StandIns


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model name and who may answer it."""

    name: str
    engines: tuple[str, ...]
    policy: Policy
    remember: bool = True
    continue_broken: bool = True
    larger_context: str | None = None
    digest: str = ""
    """Of what the configuration says of these engines: where they are, which model, which headers are added."""
    ignored_fields: frozenset[str] = frozenset()
    """Further fields of a body that change no answer of theirs."""
    unknown_servers: bool = False
    """Whether some of them may heed headers that nobody here knows."""
    stand_ins: StandIns = ANYBODY
    workflow: bool = False
    """Each request is a run of a workflow."""
    repeatable: bool = True
    """Whether an answer may be given to who asks the same again."""
    key_dials: Mapping[str, float] = field(default_factory=dict)
    """Dials of single keys, by key id: what one key is answered need not suit another."""

    @property
    def reference(self) -> str:
        """The engine whose answers are the standard, and become examples."""
        return self.engines[-1]

    def served_by(self, key_id: str | None) -> str:
        """Who answers, and by which dial, for keys of remembered answers: none is replayed under another configuration."""
        dial = self.key_dials.get(key_id or "")
        return "\n".join(
            [self.policy.name, ",".join(self.engines), self.digest, "" if dial is None else f"{dial}"]
        )

    def speaking(self, api: Api, engines: Mapping[str, Engine]) -> ServedModel | None:
        """The same with those engines only that speak this API; None where none does."""
        speaking = tuple(name for name in self.engines if engines[name].info.speaks(api))
        larger = self.larger_context
        if larger is not None and not engines[larger].info.speaks(api):
            larger = None
        if not speaking:
            return None
        if api == "completions":
            # A prompt is no conversation: nothing was learnt about it, and examples have no place in it.
            by_size = Fixed(speaking[::-1], reason="api")
            return replace(self, engines=speaking, larger_context=larger, policy=by_size)
        if len(speaking) == len(self.engines) and larger == self.larger_context:
            return self
        return replace(self, engines=speaking, larger_context=larger)
