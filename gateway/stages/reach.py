"""The stage of requests whose key or tenant may not reach everything: only engines that they may reach are asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from engines.engine import Engine
from engines.errors import RequestError
from gateway.served_model import ServedModel
from gateway.stages.stage import Next, UnderWay
from router.asked import EVERYTHING, Reach
from router.policies.fixed import Fixed


class ReachStage:
    """See gateway.stages.stage.Stage."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._engines = engines

    async def answer(self, request: UnderWay, next: Next) -> Next | None:
        """See Stage. Raises RequestError (403)."""
        record = request.record
        reach = record.asked.arrival.reach
        if reach is not EVERYTHING:
            model = self._within(reach, request.model, record.model)
            if model is not request.model:
                request.model = model
                record.reference_price = self._engines[model.reference].info.price_of(record.model)
        return next

    def _within(self, reach: Reach, model: ServedModel, name: str) -> ServedModel:
        """The model with engines of this region only."""
        if not reach.allows_model(name):
            raise _refusal(
                f"The model '{name[:100]}' is not among those that this key may use.", "model_not_allowed"
            )
        everyone = (*model.engines, *((model.larger_context,) if model.larger_context else ()))
        infos = {one: self._engines[one].info for one in everyone}
        if reach.priced_only and not all(info.price_of(name).known for info in infos.values()):
            raise _refusal(
                f"What this key may spend is limited, and not every engine of '{name[:100]}' has a price.",
                "unpriced",
            )
        if all(reach.allows_region(info.region) for info in infos.values()):
            return model
        there = tuple(one for one in model.engines if reach.allows_region(infos[one].region))
        if not there:
            raise _refusal(
                f"This tenant's requests are answered in the region '{reach.region}' only, where no engine serves"
                f" '{name[:100]}'.",
                "region_not_allowed",
            )
        larger = model.larger_context
        return replace(
            model,
            engines=there,
            # What was learnt chooses among all of them, and would ask the others.
            policy=Fixed(tuple(reversed(there)), reason="region"),
            larger_context=larger if larger and reach.allows_region(infos[larger].region) else None,
        )


def _refusal(message: str, code: str) -> RequestError:
    return RequestError(message, status=403, code=code, param="model")
