"""From the settings to the gates that small engines need proof to pass."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from learning.rehearsal.kept import qualities
from router.proving.gate import Gate
from router.shedding import NEVER, Loaded
from understudy.settings.config import AnyEngine
from understudy.settings.models import ModelSettings


def gates(
    models: Mapping[str, ModelSettings],
    engines: Mapping[str, AnyEngine],
    rehearsal: Mapping[str, Any] | None = None,
    load: Loaded = NEVER,
) -> dict[str, Gate]:
    """One per served model that needs proof; few_shot never asks engines between the first and the last. `rehearsal`: the
    latest one's report."""
    return {
        name: Gate(
            _small(model),
            max_loss=model.max_loss,
            version=_version(model, engines),
            load=load,
            rehearsed=qualities(rehearsal, name, model.engines[0]) if rehearsal is not None else {},
        )
        for name, model in models.items()
        if model.proves
    }


def _small(model: ModelSettings) -> tuple[str, ...]:
    """The engines that need proof."""
    if model.policy == "in_context":
        return model.ways[:-1]
    return (model.engines[0], model.agreement) if model.cascade else model.engines[:1]


def _version(model: ModelSettings, engines: Mapping[str, AnyEngine]) -> float:
    """Another number where another model answers behind an engine's name, or another policy chooses the examples."""
    upstream = [
        [name, getattr(engines.get(name), "model", None)] for name in (*model.engines, *model.cascade)
    ]
    told = json.dumps([model.policy, upstream]).encode()
    return float(int.from_bytes(hashlib.blake2b(told, digest_size=6).digest()))
