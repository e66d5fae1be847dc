"""Texts, vectors and decisions for the log of `benchmarks.admin_pages`: what requests, examples and the router show."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any
from urllib.parse import quote

import numpy as np

from store import Store
from store.decisions.kept_details import KeptDetails, KeptJson
from store.decisions.texts import RequestTexts
from store.records import ChoiceRecord, NewExample, OutcomeRecord, RequestRecord

_WORDS = (
    *("list", "hidden", "files", "directory", "lake", "opera", "bees", "honey", "tower", "python"),
    *("water", "boiling", "recipe", "eggs", "moon", "capital", "river", "engine", "storm", "garden"),
    *("letter", "bridge"),
)
_AT_ONCE = 4_000
_TOOL = {"type": "function", "function": {"name": "look_up", "description": "Finds an order by its number."}}
_DIMENSIONS = 384
VERSION = "bench"


class Writing:
    """What was handed to the store and is not written yet; never much of it."""

    def __init__(self) -> None:
        self._waiting: list[Future[Any]] = []

    def add(self, written: Future[Any]) -> None:
        """One more."""
        self._waiting.append(written)
        if len(self._waiting) >= _AT_ONCE:
            self.wait()

    def wait(self) -> None:
        """Until all of it is written."""
        for one in self._waiting:
            one.result(60)
        self._waiting.clear()


def fill_content(store: Store, *, decisions: int, examples: int, seed: int = 7) -> None:
    """A text for every request that is there, the decision of the latest `decisions` that were answered, and for the
    busiest tenant examples with vectors."""
    rng = np.random.default_rng(seed)
    writing = Writing()

    def words(count: int) -> str:
        return " ".join(_WORDS[n] for n in rng.integers(len(_WORDS), size=count))

    latest = store.decisions.requests.recent(10**7)
    for record in latest:
        question = f"{words(9)}, {record.id[-6:]}?"
        texts = RequestTexts(
            *(record.tenant, record.id, "", record.started_at_s, question, words(20)),
            messages=({"role": "user", "text": question},),
            details=_details(question),
        )
        writing.add(store.decisions.texts.keep(texts))
    tenant = latest[0].tenant
    vectors = rng.normal(size=(examples, _DIMENSIONS)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for n in range(examples):
        question, answer = words(8), words(20)
        example = NewExample(
            *(tenant, "scope", question, answer, question, vectors[n], VERSION, "large", f"content-{n}")
        )
        writing.add(store.examples.add(example))
    answered = [record for record in latest if record.outcome == "answered"]
    for record in answered[:decisions]:
        writing.add(store.decisions.choices.record(choice(record, rng)))
        if rng.random() < 0.3:
            judged = OutcomeRecord(
                *(record.id, record.tenant, record.started_at_s, "judge", "content", record.engine, (), True),
                quality=float(rng.random() < 0.8),
                probability=0.3,
            )
            writing.add(store.outcomes.note(judged))
    writing.wait()


def _details(question: str) -> KeptDetails:
    messages = [{"role": "user", "content": question}]
    body = {"model": "gpt-4o", "messages": messages, "temperature": 0.2, "tools": [_TOOL] * 5}
    return KeptDetails(user="ann", session="a trip", came=KeptJson(body), back=KeptJson({"choices": []}))


def choice(record: RequestRecord, rng: np.random.Generator) -> ChoiceRecord:
    """How the engine of a request might have been chosen."""
    taken = int(rng.integers(3))
    actions = tuple(
        {
            "engine": engine,
            "with_examples": with_examples,
            "probability": 1 / 3,
            "probability_without_load": 1 / 3,
            "quality": quality,
            "cost_usd": cost_usd,
            "latency_s": 1.0,
            "reward": quality - 10 * cost_usd,
            "features": {"price": cost_usd},
        }
        for engine, with_examples, quality, cost_usd in (
            ("small", False, 0.5, 0.001),
            ("small", True, 0.8, 0.002),
            ("large", False, 1.0, 0.02),
        )
    )
    return ChoiceRecord(
        request_id=record.id,
        tenant=record.tenant,
        contributor="",
        at_s=record.started_at_s,
        model=record.model,
        completion_id="",
        engine=actions[taken]["engine"],
        example_ids=(1, 2, 3) if actions[taken]["with_examples"] else (),
        policy="in_context",
        policy_version="1",
        probability=1 / 3,
        vector=None,
        embedding_version="",
        context={f"feature_{n}": float(rng.random()) for n in range(12)},
        features_version="bench",
        actions=actions,
        chosen=taken,
        chosen_without_load=taken,
        explored=False,
        floored=False,
        scorer="prior",
        scorer_features_version="1",
        candidates=tuple(
            {"id": n + 1, "similarity": 0.9 - n / 100, "gain": 0.1, "sent": n < 3} for n in range(20)
        ),
        candidate_features=None,
        quality_alone=0.5,
        quality_with=0.8,
        most_examples=3,
        examples_explored="",
        examples_probability=1.0,
        cost_usd=record.cost_usd,
        total_ms=record.total_ms,
        first_chunk_ms=None,
        settings={
            "theta": 0.8,
            "m": 3.0,
            "max_examples": 8.0,
            "preference": 0.5,
            "own_preference": 0.0,
            "may_explore": 1.0,
            "offload_cap": 1.0,
            "learned": 300.0,
            "picked": -1.0,
            "by_proof": 0.0,
        },
    )


def content_paths(store: Store) -> list[str]:
    """Pages that search: by words that many texts have, by one that a single text has, and for what no request is like."""
    tenant = store.decisions.requests.recent(1)[0].tenant
    own = store.examples.page(tenant, limit=1)
    of_one = [f"/examples/{own[0].id}"] if own else []
    return [
        "/requests?q=hidden+files",
        "/requests?q=" + store.decisions.requests.recent(1)[0].id[-6:],
        "/requests?way=failed",
        "/requests?engine=nobody",
        f"/requests?tenant={quote(tenant)}&status=5",
        "/requests?example=1",
        *(
            f"/examples?tenant={quote(tenant)}{more}"
            for more in ("", "&sort=gain", "&sort=uses", "&q=bees+honey")
        ),
        *of_one,
        f"/examples-map?tenant={quote(tenant)}",
        "/router?span=week",
    ]
