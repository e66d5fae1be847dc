"""Rows for the store's tests: every field different, so that a swapped column shows."""

from __future__ import annotations

from typing import Any

import numpy as np

from store.records import ExactAnswer, NewExample, RequestRecord, Vector


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
    return ExactAnswer(body, "application/json", engine, stored_at_s, usage_estimated=True)


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
