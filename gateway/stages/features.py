"""The list of stages: which of them a served model's requests pass, outermost first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engines.engine import Engine
from gateway.in_flight import InFlight
from gateway.same_request import SameRequest
from gateway.stages.engines import EngineStage
from gateway.stages.policy import PolicyStage, TooDear, UnitOf

if TYPE_CHECKING:
    from engines.apis import Api
    from engines.chat import ChatRequest
    from engines.engine import Price
    from gateway.guardrails.stage import Guardrails
    from gateway.limits.limiter import Limiter
    from gateway.reuse.stage import SemanticAnswers
    from gateway.served_model import ServedModel
    from gateway.stages.exact import Stands
    from gateway.stages.stage import Stage
    from router.asked import Asked
    from store.answers.exact_cache import ExactCache
    from store.records import ExactAnswer


async def stands_always(asked: Asked, answer: ExactAnswer) -> bool:
    """What a remembered answer names is taken to be there."""
    return True


def stands_alone(asked: object) -> float:
    """The unit of a request that is its own: see UnitOf."""
    return 0.0


def never_too_dear(model: str, tenant: str, proof: object) -> bool:
    """Proving is never held back."""
    return False


@dataclass(frozen=True, slots=True)
class Features:
    """What is configured for all served models of a gateway, and so which stages there are."""

    engines: Mapping[str, Engine]
    exact: ExactCache | None = None
    in_flight: InFlight | None = None
    """The same request, asked while it is being answered, gets that answer; None: it does not."""
    similar: SemanticAnswers | None = None
    sampled: bool = False
    """Also requests that want another answer each time are answered from memory."""
    limiter: Limiter | None = None
    guardrails: Guardrails | None = None
    too_dear: TooDear = never_too_dear
    unit_of: UnitOf = stands_alone
    stands: Stands = stands_always
    same: SameRequest = field(default_factory=SameRequest)
    workflow: Stage | None = None
    """Begins the runs of models that are workflows; None where there are none."""
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    """By drained engine, who is asked where no other of the model answers; it changes while requests are answered."""

    def stages(self, model: ServedModel, api: Api, *, keyed: bool) -> Sequence[Stage]:
        """Those that requests of this API for this model pass, outermost first. `keyed`: with a key of the gateway's own."""
        stages: list[Stage] = []
        if self.guardrails is not None:
            from gateway.stages.guardrails import GuardrailStage

            stages.append(GuardrailStage(self.guardrails))
        if model.workflow and self.workflow is not None:
            # Who may be asked, in which region, and what that may take: each of its steps is a request of its own.
            return [*stages, self.workflow, *self._from_memory(model, api), EngineStage(self.engines)]
        if keyed:
            from gateway.stages.reach import ReachStage

            stages.append(ReachStage(self.engines))
        if not any(self.engines[name].info.speaks(api) for name in model.engines):
            # After who may ask: what a key may not reach is refused for that.
            from gateway.stages.unspoken import UnspokenStage

            return [*stages, UnspokenStage()]
        if keyed and self.limiter is not None:
            from gateway.stages.limits import LimitStage

            stages.append(LimitStage(self.limiter))
        stages += self._from_memory(model, api)
        translated = [name for name in model.engines if api in self.engines[name].info.translated]
        translates = bool(translated) and len(model.engines) > 1
        stages.append(PolicyStage(self.engines, self.too_dear, self.unit_of, translates=translates))
        stages.append(EngineStage(self.engines, self.stand_ins))
        return stages

    def _from_memory(self, model: ServedModel, api: Api) -> list[Stage]:
        stages: list[Stage] = []
        if self.exact is not None:
            from gateway.stages.exact import ExactStage

            exact = ExactStage(self.exact, self.same, self.stands, sampled=self.sampled)
            stages.append(exact)
            if self.in_flight is not None:
                from gateway.stages.single_flight import SingleFlightStage

                stages.append(SingleFlightStage(self.in_flight, exact))
        if self.similar is not None and model.remember and api == "chat":
            from gateway.stages.similar import SimilarStage

            stages.append(SimilarStage(self.similar, self.same, sampled=self.sampled))
        return stages

    def most(self, chat: ChatRequest, prices: Collection[Price]) -> tuple[float, int]:
        """(dollars, tokens) that a request may take at engines of these prices; 0 where nothing is limited, or has a
        price."""
        return (0.0, 0) if self.limiter is None else self.limiter.most(chat, list(prices))
