"""A variable's value as bytes, and back; how large it is; what of a failure is no text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from store.workflows.records import Failure, Limits, NewRun, NewStep, NewVariable, TooManyBytes, Value

_UNPAIRED = "surrogatepass"
"""JSON may hold half a surrogate pair, which UTF-8 has no bytes for."""


def as_bytes(value: Value) -> bytes:
    """UTF-8; a list is a JSON array."""
    return value.encode("utf-8", _UNPAIRED) if isinstance(value, str) else json.dumps(value).encode()


def as_value(data: bytes, is_list: bool) -> Value:
    """What `as_bytes` was given."""
    return tuple(json.loads(data)) if is_list else as_text(data)


def as_text(data: bytes) -> str:
    """What `as_bytes` was given, of a text."""
    return data.decode("utf-8", _UNPAIRED)


def size_of(value: Value | None) -> int:
    """Bytes that a value counts with."""
    return 0 if value is None else len(as_bytes(value))


def context_of(run: NewRun) -> bytes:
    """A run's context as JSON; empty where there is none, or nothing may be stored."""
    return json.dumps(run.context).encode() if run.context and not run.no_store else b""


def added_bytes(steps: Sequence[NewStep], variables: Sequence[NewVariable]) -> int:
    """What steps and variables that are about to be added count with."""
    return sum(step.size_bytes for step in steps) + sum(size_of(variable.value) for variable in variables)


def hold_room(total: int, added: int, limits: Limits) -> None:
    """Raise TooManyBytes where a tenant would have more than it may."""
    if limits.max_total_bytes is not None and added and total + added > limits.max_total_bytes:
        raise TooManyBytes(f"values, requests and texts of a tenant may take {limits.max_total_bytes} bytes")


def without_texts(failure: Failure | None) -> Failure | None:
    """A failure without what may quote a client's texts."""
    return None if failure is None else replace(failure, message="")


def strictest(known: str | None, asked: str) -> str:
    """The stricter of two criteria: latency, then ttft, then throughput, then anything else."""
    return min((one for one in (known, asked) if one is not None), key=_strictness)


def _strictness(criteria: str) -> int:
    order = ("latency", "ttft", "throughput")
    return order.index(criteria) if criteria in order else len(order)
