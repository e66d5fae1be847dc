"""Runs a request through the list of stages of its model (gateway.stages.features has the list).

Each stage is made at start, for the models that use it: what a request does not use is not on its way. One that is late or
broken is bypassed, and the request's record says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from engines.apis import Api
from engines.chat import ChatRequest
from engines.engine import Engine, Price
from gateway.send import Send
from gateway.served_model import ServedModel
from gateway.stages.stage import Next, Stage, UnderWay, chained
from router.asked import Asked
from router.finished import Finished
from router.model_names import ByModelName, plain_names

_APIS: tuple[Api, ...] = ("chat", "responses", "messages", "completions")


class Stages(Protocol):
    """Makes the list for requests of an API for a model; see gateway.stages.features.Features.stages."""

    def __call__(self, model: ServedModel, api: Api, *, keyed: bool) -> Sequence[Stage]: ...


class Pipeline:
    """Answers chat completions.

    `otherwise` serves models that `models` does not name; None refuses them. `ended` takes what came of each request,
    exactly once, also when it is cancelled; it must not block.
    """

    def __init__(
        self,
        engines: Mapping[str, Engine],
        models: Mapping[str, ServedModel],
        otherwise: ServedModel | None = None,
        *,
        stages: Stages,
        ended: Callable[[Finished], None],
    ) -> None:
        self._engines = engines
        self._models = ByModelName(models)
        self._serves_models = not all(model.workflow for model in models.values())
        self._otherwise = otherwise
        self._ended = ended
        self._ways: dict[tuple[str, Api, bool], tuple[ServedModel, Next]] = {}
        """By model, API, and whether a request has a key of the gateway's own."""
        for model in (*models.values(), *([otherwise] if otherwise is not None else [])):
            for api in _APIS:
                served = model.speaking(api, engines) or model
                for keyed in (False, True):
                    self._ways[model.name, api, keyed] = served, chained(stages(served, api, keyed=keyed))

    @property
    def serves_models(self) -> bool:
        """Whether any models are served by name, workflows apart."""
        return self._serves_models

    @property
    def model_names(self) -> Collection[str]:
        """The models that are served by name."""
        return plain_names(self._models)

    def model(self, name: str) -> ServedModel | None:
        """Who serves a model of this name; None where nobody does."""
        return self._models.get(name) or self._otherwise

    def reference(self, chat: ChatRequest) -> str:
        """The engine whose answers to this request are the standard; empty where nobody answers it, or a workflow does."""
        model = self.model(chat.model)
        if model is None or model.workflow:
            return ""
        speaking = model.speaking(chat.api, self._engines)
        return "" if speaking is None else speaking.reference

    def prices(self, name: str) -> dict[str, Price]:
        """What each engine charges that may be asked for a model, by its name."""
        model = self.model(name)
        asked = (*model.engines, *filter(None, [model.larger_context])) if model is not None else ()
        return {engine: self._engines[engine].info.price_of(name) for engine in asked}

    async def answer(self, asked: Asked, send: Send) -> Finished:
        """Answer `asked` through `send`. Raises RequestError, EngineError where no answer began, and ClientGone."""
        chat = asked.chat
        model = self.model(chat.model)
        if model is None:
            raise LookupError("the model is not served here")
        served, first = self._ways[model.name, chat.api, asked.arrival.key_id is not None]
        price = self._engines[served.reference].info.price_of(chat.model)
        request = UnderWay(asked, served, send, self._ended, price)
        try:
            step: Next | None = first
            while step is not None:
                step = await step(request)
        except BaseException as error:
            if not request.detached:
                request.failed(error)
            raise
        finally:
            if not request.detached:
                request.finish()
        return request.record
