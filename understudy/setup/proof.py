"""From the settings to the gates that small engines need proof to pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from learning.rehearsal.kept import qualities
from router.proving.gate import Gate
from understudy.settings.models import ModelSettings


def gates(models: Mapping[str, ModelSettings], rehearsal: Mapping[str, Any] | None = None) -> dict[str, Gate]:
    """One per served model that needs proof; few_shot never asks engines between the first and the last. `rehearsal`: the
    latest one's report."""
    return {
        name: Gate(
            model.engines[:1] if model.policy == "few_shot" else model.engines[:-1],
            max_loss=model.max_loss,
            rehearsed=qualities(rehearsal, name, model.engines[0]) if rehearsal is not None else {},
        )
        for name, model in models.items()
        if model.proves
    }
