"""Rows for the store's tests: every field different, so that a swapped column shows."""

from __future__ import annotations

from typing import Any

import numpy as np

from store.records import ChoiceRecord, ExactAnswer, NewExample, OutcomeRecord, RequestRecord, Vector


def new_example(number: int, tenant: str = "a1", **changes: Any) -> NewExample:
    fields: dict[str, Any] = {
        "tenant": tenant,
        "scope": "scope",
        "question": f"question {number}",
        "answer": f"answer {number}",
        "embedded_text": f"embedded {number}",
        "vector": unit_vector(number),
        "embedding_version": "v1",
        "source_engine": "large",
        "request_id": f"req-{number}",
        "prompt_tokens": 11,
        "completion_tokens": 22,
    }
    return NewExample(**(fields | changes))


def unit_vector(number: int, dimensions: int = 8) -> Vector:
    vector = np.random.default_rng(number).normal(size=dimensions).astype(np.float32)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def answer(
    body: bytes = b'{"answer": 42}', stored_at_s: float = 1000.0, engine: str = "large"
) -> ExactAnswer:
    return ExactAnswer(body, "application/json", engine, stored_at_s, usage_estimated=True, ttl_s=100.0)


def request_record(number: int, **changes: Any) -> RequestRecord:
    fields: dict[str, Any] = {
        "id": f"req-{number}",
        "tenant": "a1",
        "started_at_s": 1000.0 + number,
        "endpoint": "/v1/chat/completions",
        "model": "gpt-4o",
        "engine": "small",
        "outcome": "answered",
        "status": 200,
        "policy": "few_shot",
        "policy_version": "1",
        "probability": 0.75,
        "reason": "enough neighbours",
        "example_ids": (3, 1, 2),
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "usage_estimated": False,
        "cost_usd": 0.25,
        "total_ms": 120.0,
        "first_chunk_ms": 30.0,
        "overhead_ms": 1.5,
        "stages_ms": '{"embed": 3.5}',
    }
    return RequestRecord(**(fields | changes))


def choice_record(number: int, **changes: Any) -> ChoiceRecord:
    actions = [("small", False), ("small", True), ("large", False)]
    features = {f"feature_{n}": round(0.1 * n + number, 3) for n in range(12)}
    fields: dict[str, Any] = {
        "request_id": f"req-{number}",
        "tenant": "a1",
        "contributor": "key_1/ann",
        "at_s": 1000.0 + number,
        "model": "gpt-4o",
        "completion_id": f"chatcmpl-{number}",
        "engine": "small",
        "example_ids": (3, 1, 2),
        "policy": "in_context",
        "policy_version": "1",
        "probability": 0.1 + 0.2,
        "vector": unit_vector(number, 384),
        "embedding_version": "v1",
        "context": features | {"length": 120.0},
        "features_version": "f1",
        "actions": tuple(
            {
                "engine": engine,
                "with_examples": with_examples,
                "probability": 1 / 3,
                "probability_without_load": 0.25,
                "quality": 0.8,
                "cost_usd": 0.001,
                "latency_s": 1.5,
                "reward": 0.5,
                "features": features,
            }
            for engine, with_examples in actions
        ),
        "chosen": 1,
        "chosen_without_load": 2,
        "explored": True,
        "floored": False,
        "scorer": "prior",
        "scorer_features_version": "s1",
        "candidates": tuple(
            {"id": n, "similarity": 0.9 - n / 100, "gain": 0.1, "sent": n < 3} for n in range(20)
        ),
        "candidate_features": np.random.default_rng(number).normal(size=(20, 24)).astype(np.float32),
        "quality_alone": 0.4,
        "quality_with": 0.7,
        "most_examples": 5,
        "examples_explored": "drop",
        "examples_probability": 0.05,
        "cost_usd": 0.0005,
        "total_ms": 120.0,
        "first_chunk_ms": 30.0,
        "noted": {"small/with": 0.5},
        "settings": {"theta": 0.8, "m": 3.0},
    }
    return ChoiceRecord(**(fields | changes))


def outcome_record(number: int, **changes: Any) -> OutcomeRecord:
    fields: dict[str, Any] = {
        "request_id": f"req-{number}",
        "tenant": "a1",
        "at_s": 2000.0 + number,
        "source": "user",
        "key": "score",
        "engine": "small",
        "example_ids": (3, 1, 2),
        "served": True,
        "quality": 0.75,
        "probability": 0.5,
        "cost_usd": 0.002,
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "latency_s": 1.25,
        "detail": '{"judge":"large"}',
    }
    return OutcomeRecord(**(fields | changes))
