"""Trains the bandits and scorers that requests are routed with, from outcomes: tenant by tenant, model by model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from learning.learned.learner import Due, Incumbent, IsDue, Learner, Place, Trained, Tried
from store.decisions.outcomes import Experience, Outcomes
from store.learned.artifacts import Artifacts
from store.records import ArtifactRecord


class Trainer(Protocol):
    """Trains one kind of artifact from experiences. Blocks for seconds or minutes."""

    @property
    def kind(self) -> str:
        """The kind of artifact, as it is published."""
        ...

    @property
    def needed(self) -> int:
        """Least number of outcomes to train on."""
        ...

    def train(self, experiences: Sequence[Experience], incumbent: Incumbent | None) -> Trained | None:
        """Trains an artifact; None if the experiences hold nothing for this kind."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of training, and the number of outcomes it is based on."""

    min_new_outcomes: int
    max_outcomes: int
    """Latest outcomes trained on, per tenant and model."""


class RouterLearner(Learner):
    """See Learner."""

    def __init__(
        self,
        outcomes: Outcomes,
        artifacts: Artifacts,
        trainers: Callable[[str], Sequence[Trainer]],
        pace: Pace,
        *,
        lenders: Callable[[str], Sequence[str]] = lambda tenant: (),
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """`trainers` returns those of a served model, none for a model that does not learn. `lenders` returns the tenants
        whose outcomes a tenant may use; nothing else is learnt across tenants."""
        super().__init__(artifacts, stopping)
        self._outcomes = outcomes
        self._trainers = trainers
        self._pace = pace
        self._lenders = lenders

    def news(self) -> int:
        """See Learner."""
        return self._outcomes.last_id()

    def places(self) -> Iterator[tuple[Place, IsDue]]:
        """See Learner."""
        known: dict[tuple[str, str], int] = {}
        for (tenant, model, _), count in self._outcomes.counts().items():
            known[tenant, model] = known.get((tenant, model), 0) + count
        for (tenant, model), own in known.items():
            count = own + sum(known.get((lender, model), 0) for lender in self._lenders(tenant))
            for trainer in self._trainers(model):
                place = (trainer.kind, tenant, model)
                yield place, partial(self._due, trainer, place, count)

    def _due(
        self, trainer: Trainer, place: Place, count: int, active: ArtifactRecord | None, tried: Tried | None
    ) -> Due | None:
        if count < trainer.needed:
            return None
        before: int | None = None
        if tried is not None:
            before = tried.known
        elif active is not None:
            before = int(active.metrics.get("outcomes", 0))
        # Beyond 200 outcomes a tenth more is needed: training on 20,000 for the sake of 20 is a waste.
        few = before is not None and abs(count - before) < max(self._pace.min_new_outcomes, before // 10)
        # A version that is gone (its outcomes were deleted, say) is trained again from what is left; one that a person took
        # out of use is not.
        was_active = tried is not None and tried.active
        gone = active is None and was_active and not self._artifacts.versions(*place)
        if few and not gone:
            return None
        # A tenant's first version must be better than the operator's version for all tenants.
        rival = active or self._artifacts.best(*place)
        _, tenant, model = place

        def train(incumbent: Incumbent | None) -> Trained | None:
            return trainer.train(self._experiences(tenant, model), incumbent)

        return Due(train, count, count, rival)

    def _experiences(self, tenant: str, model: str) -> list[Experience]:
        found: list[Experience] = []
        for whose in (tenant, *self._lenders(tenant)):
            found += self._outcomes.experiences(whose, model, limit=self._pace.max_outcomes, latest=True)
        return sorted(found, key=lambda e: e.choice.at_s)[-self._pace.max_outcomes :]
