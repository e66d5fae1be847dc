"""The features of a gateway, as one list in the order in which they are added.

A feature is a file in understudy/setup/ with `add_to(built)`: it makes its objects, and adds its endpoints, stages,
followers and background work. Its file is imported only where the feature is wanted, so that a gateway without memory
starts in a fraction of the time and space.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from understudy.built import Built


class Feature(NamedTuple):
    """A feature, and when it is there."""

    name: str
    """Of its file in understudy/setup/."""
    wanted: Callable[[Built], object] = lambda built: True


def add_features(built: Built) -> None:
    """Add each that is wanted. Blocks. Raises CannotStart."""
    for feature in FEATURES:
        if feature.wanted(built):
            import_module(f"understudy.setup.{feature.name}").add_to(built)


def _remembers(built: Built) -> object:
    return built.memory


def _has_pipeline(built: Built) -> object:
    return built.has_pipeline


def _finds_examples(built: Built) -> object:
    memory = built.memory
    return (
        built.config.models
        and memory is not None
        and memory.embedder is not None
        and memory.store.indexes is not None
    )


def _reuses(built: Built) -> object:
    settings = built.config.memory
    return built.memory and settings is not None and settings.semantic_reuse.deltas


def _judges(built: Built) -> object:
    config = built.config
    learns = any(model.policy != "fixed" for model in config.models.values())
    return built.memory and (config.judging or learns)


FEATURES = (
    # First of the parts, so that it is the last to end: the recorder reports while it finishes.
    Feature("telemetry", lambda built: built.config.otel.endpoint),
    Feature("load"),
    Feature("keys", _remembers),
    Feature("access"),
    Feature("registry"),
    Feature("semantic", _reuses),
    Feature("engine_watch", lambda built: built.memory and built.config.engines),
    Feature("limits", _remembers),
    Feature("recorder"),
    Feature("policies", _finds_examples),
    Feature("tasks", _finds_examples),
    Feature("webhooks", lambda built: built.memory and built.config.webhooks),
    Feature("quality_watch", lambda built: built.memory and built.config.references()),
    Feature("guardrails", lambda built: built.config.guardrails),
    Feature("health"),
    Feature("judging", _judges),
    Feature("workflows", _remembers),
    Feature("pipeline", _has_pipeline),
    Feature("admission"),
    Feature("passthrough", lambda built: built.upstream),
    # Before those that serve paths: whoever is added later is asked first.
    Feature("example_endpoints", lambda built: built.memory or not built.passthrough),
    Feature("stored_responses", _has_pipeline),
    Feature("runs", _remembers),
    Feature("model_endpoints"),
    Feature("responses_socket", _has_pipeline),
    Feature("embeddings", lambda built: built.memory and built.memory.exact),
    Feature("feedback", lambda built: built.memory and built.config.models and built.config.feedback.enabled),
)
