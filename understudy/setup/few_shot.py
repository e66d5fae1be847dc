"""From the settings to the rule that needs no training (LOGIC), with what it looks things up in."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from engines.engine import Engine
from learning.bank.sharing import lenders
from router.dials import Dials
from router.embedding.retriever import Retriever
from router.policies.few_shot import FewShot, Knobs
from router.proving.gate import Gate
from understudy.memory import Memory
from understudy.settings.config import Config
from understudy.settings.knobs import knobs_of
from understudy.settings.models import ModelSettings
from understudy.setup.examples import standalone

_ANY = -1.0
"""The least cosine there is."""


@dataclass(frozen=True, slots=True)
class FewShotParts:
    """A policy, and what it looks things up in."""

    policy: FewShot
    retriever: Retriever
    configured: Knobs
    proves: bool
    """Whether what is proven decides, so that examples of any similarity are sent."""

    def turn(self, dials: Dials, own: Mapping[str, Dials]) -> None:
        """Decide by these settings from now on, and by `own` for these tenants; what is not set is as configured."""
        knobs = self._with(dials)
        of_tenants = {tenant: self._with(each) for tenant, each in own.items()}
        every = [knobs, *of_tenants.values()]
        # What lies below the retriever's floor the rule would never see.
        floor = _ANY if self.proves else min(each.theta for each in every)
        self.retriever.look_down_to(floor, max(map(enough, every)))
        self.policy.knobs, self.policy.knobs_of = knobs, of_tenants

    def _with(self, dials: Dials) -> Knobs:
        turned = {name: value for name, value in dials.turned().items() if name != "preference"}
        return replace(self.configured, **turned)  # type: ignore[arg-type]


def few_shot(
    settings: ModelSettings,
    config: Config,
    memory: Memory,
    engines: Mapping[str, Engine],
    executor: Executor,
    gate: Gate | None = None,
) -> FewShotParts:
    """The rule for one served model. Needs a memory with examples. `gate`: where the small engine needs proof."""
    remembered = config.memory
    assert remembered is not None and memory.embedder is not None and memory.store.indexes is not None
    groups = settings.few_shot, settings.advanced, remembered.advanced, remembered.examples
    knobs = knobs_of(Knobs, *groups, with_tools=settings.with_tools)
    retriever = Retriever(
        memory.store.indexes,
        memory.store.examples,
        floor=knobs.theta if gate is None else _ANY,
        enough=enough(knobs),
        lenders=lenders(config.sharing.grants, memory.store.keys.tenant_named),
        for_all_users=memory.store.examples.private.tenants(),
    )
    small = engines[settings.engines[0]]
    policy = FewShot(
        settings.ways,
        memory.embedder,
        retriever,
        executor,
        knobs,
        context_tokens=lambda: small.info.context_tokens,
        templates=memory.templates,
        gate=gate,
        deadline=memory.retrieval,
        standalone=standalone(remembered, memory.embedder),
    )
    return FewShotParts(policy, retriever, knobs, gate is not None)


def enough(knobs: Knobs) -> int:
    """Twice what can be used: some may name other things, or not fit the budget."""
    return 2 * max(knobs.m, knobs.max_examples)
