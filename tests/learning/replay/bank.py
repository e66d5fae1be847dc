"""A bank of the simulated world with wrong answers in it, and a replay over it. Everything but the engines is real."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from learning.replay.run import Replay
from router.digest import NO_INSTRUCTIONS, scope_of
from router.embedding.embedder import Embedder
from simulation.topics import Fact
from simulation.world import World, seeded
from store.records import Example, NewExample
from tests.flow.line import MODELS
from tests.patience import PATIENCE_S
from understudy.settings.config import Config
from understudy.settings.file import parse_config
from understudy.setup.replay import opened

SEED, FACTS = 7, 400
WORLD = World(SEED, FACTS)
TENANT = "default"
PRICES = {"small": (0.15, 0.6), "large": (2.5, 10.0), "judge": (2.5, 10.0), "writer": (2.5, 10.0)}
ROLES = {"small": "understudy", "large": "lead", "judge": "judge", "writer": "generator"}


def settings(folder: Path, **advanced: Any) -> dict[str, Any]:
    """A gateway with the four simulated roles, as data. `advanced`: of replay."""
    return {
        "engines": {
            name: {
                "kind": "simulated",
                "role": role,
                "seed": SEED,
                "facts": FACTS,
                "pace": 0,
                "price": dict(zip(("input_usd_per_mtok", "output_usd_per_mtok"), PRICES[name], strict=True)),
            }
            for name, role in ROLES.items()
        },
        "models": {"m": {"engines": ["small", "large"], "policy": "few_shot"}},
        "memory": {
            "data_dir": str(folder),
            "advanced": {"embedding_cache_dir": str(MODELS), "embedding_deadline_ms": 60_000},
        },
        "replay": {"judge": "judge", "advanced": {"generator": "writer"} | advanced},
    }


def config(folder: Path, **advanced: Any) -> Config:
    """The same, checked."""
    return parse_config(settings(folder, **advanced))


def right(fact: Fact) -> str:
    return f"It is {fact.value}."


def wrong(fact: Fact) -> str:
    return f"It is {WORLD.plausible_error(fact, seeded('wrong', fact.id))}."


def asked(fact: Fact) -> str:
    return fact.relation.forms[0].format(e=fact.entity)


def pair(fact: Fact, answer: str, embedder: Embedder, **changes: Any) -> NewExample:
    """A fact's question with an answer, as an import would have it."""
    fields: dict[str, Any] = {
        "tenant": TENANT,
        "scope": scope_of(NO_INSTRUCTIONS),
        "question": asked(fact),
        "answer": answer,
        "embedded_text": asked(fact),
        "vector": embedder.embed_blocking(asked(fact)),
        "embedding_version": embedder.version,
        "source_engine": "large",
        "request_id": f"r{fact.id} {answer}",
        "prompt_tokens": 20,
        "completion_tokens": 12,
    }
    return NewExample(**(fields | changes))


def facts(count: int) -> list[Fact]:
    """Facts of names that are asked one thing each here, far from each other."""
    found: dict[str, Fact] = {}
    for fact in WORLD.facts:
        found.setdefault(fact.entity, fact)
    return list(found.values())[:: max(1, len(found) // count)][:count]


def kin(count: int) -> list[Fact]:
    """Facts of one relation, of different names: near each other, and not the same."""
    first = next(f for f in WORLD.facts if sum(o.relation is f.relation for o in WORLD.facts) >= count)
    return [f for f in WORLD.facts if f.relation is first.relation][:count]


@asynccontextmanager
async def bank_of(
    folder: Path,
    pairs: Sequence[tuple[Fact, str]],
    *,
    used: float = 1.0,
    samples: int = 3,
    tenant_of: Callable[[int], str] = lambda number: TENANT,
    **replay: Any,
) -> AsyncIterator[tuple[Replay, list[Example]]]:
    """An open replay over a bank with these pairs, each of which was used so often. `samples`: answers asked for at most."""
    async with opened(config(folder, **replay), CollectorRegistry()) as made:
        made.planner = dataclasses.replace(made.planner, samples=samples)
        work: dict[str, Any] = made._runner._work  # type: ignore[assignment]
        work["distil"] = dataclasses.replace(work["distil"], samples=samples, fields={"temperature": 0})
        embedder = Embedder.open("package", MODELS, deadline_ms=60_000)
        try:
            store = made.store
            examples = [
                store.examples.add(pair(f, answer, embedder, tenant=tenant_of(n))).result()
                for n, (f, answer) in enumerate(pairs)
            ]
        finally:
            embedder.close()
        for number, example in enumerate(examples):
            # The earlier the more: a plan has an order then.
            store.examples.ledger.note_use([example.id])
            store.examples.ledger.note_gain([example.id], used * (1.0 - number / (2 * len(examples))))
        written = store.examples.flush_uses()
        assert written is not None
        written.result()
        assert store.follower is not None and store.follower.wait_for(store.examples.last_seq(), PATIENCE_S)
        yield made, examples


def quality(example: Example) -> float:
    """How right an example's answer is."""
    return WORLD.grade(example.question, example.answer)
