"""The endpoints that a model is asked by, and the list of models."""

from __future__ import annotations

from engines.codecs.chat import CHAT
from engines.codecs.codec import Codec
from engines.codecs.responses import RESPONSES
from engines.codecs.table import CODECS
from gateway.endpoints.by_model import PATHS, ByModel
from gateway.endpoints.by_pipeline import ByPipeline
from gateway.endpoints.model_endpoint import ModelEndpoint, Serving
from gateway.endpoints.models import Models
from gateway.endpoints.responses import StoredAnswers
from gateway.endpoints.steps import WithoutMemory
from understudy.built import Built
from understudy.setup.pipeline import stand_ins


def add_to(built: Built) -> None:
    """Serve every API that the gateway reads."""
    models = built.config.models
    for codec in CODECS.values():
        if built.pipeline is not None or codec is not RESPONSES:
            built.endpoints["POST", codec.path] = _of_codec(built, codec)
    if models:
        served = {name: stand_ins(model) for name, model in models.items()}
        built.by_model = ByModel(built.engines, served, limiter=built.limiter)
        serving = endpoint(built, None, built.by_model)
        built.endpoints |= {("POST", path): serving for path in PATHS}
    if models or built.runs is not None:
        known = built.catalogue.known if built.catalogue is not None else None
        listed = Models(models, built.upstream, built.keys, known, built.passthrough)
        built.endpoints["GET", "/models"] = listed
        if built.otherwise is not None:
            built.otherwise = listed.before(built.otherwise)


def endpoint(built: Built, codec: Codec | None, serving: Serving | None) -> ModelEndpoint:
    """Serve one path: by `serving`, else by passing on."""
    return ModelEndpoint(
        codec,
        serving,
        built.passthrough,
        built.keys,
        max_json_bytes=built.max_json_bytes,
        instead=(built.steps or WithoutMemory()) if codec is CHAT else None,
    )


def _of_codec(built: Built, codec: Codec) -> ModelEndpoint:
    if built.pipeline is None:
        return endpoint(built, codec, None)
    stored = StoredAnswers(built.pipeline, built.engines, built.owners) if codec is RESPONSES else None
    serving = ByPipeline(
        codec.path,
        built.pipeline,
        built.end_users,
        max_kept_bytes=built.kept_bytes,
        stored=stored,
    )
    return endpoint(built, codec, serving)
