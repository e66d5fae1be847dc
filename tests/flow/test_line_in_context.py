"""The learning policy over real sockets, with the real embedder and scorer: what is chosen, gone without, whose it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from learning.training.artifact_follower import ArtifactFollower
from router.choosing import features
from router.choosing.bandit import Lesson, Option, Scene
from router.choosing.bandit_vw import BanditSettings, VowpalBandit
from store import Store
from store.learned.artifacts import Artifacts
from store.records import Vector
from tests.flow.line import Got, Line, Upstream, line, upstream
from tests.router.examples.scoring import features_model

QUESTION = "How do I list all files in a directory on Linux, including hidden ones?"
ALIKE = "How can I list all files in a Linux directory, including the hidden ones?"
OTHER = "How do I count all files in a directory on Windows, including hidden ones?"
SCALARS = 'understudy_artifacts_broken_total{kind="scorer"}'


@dataclass
class Stage:
    """A gateway that learns, with a small and a large upstream behind it."""

    gate: Line
    small: Upstream
    large: Upstream

    @property
    def store(self) -> Store:
        memory = self.gate.gateway.memory
        assert memory is not None
        return memory.store

    @property
    def artifacts(self) -> Artifacts:
        return self.store.artifacts

    async def ready(self, tenant: str = "default") -> None:
        """Until the worker decides this tenant's requests with what is published."""
        (follower,) = self.gate.gateway.parts.owned(ArtifactFollower)
        assert await asyncio.to_thread(follower.ready, tenant, "gpt-4o")

    async def publish(self, kind: str, data: bytes, tenant: str = "default") -> None:
        publish = self.artifacts.publish
        await asyncio.to_thread(publish, kind, tenant, "gpt-4o", data, metrics={})
        await self.ready(tenant)

    def vector(self, tenant: str = "default") -> Vector:
        """Of the tenant's first request."""
        vector = self.store.decisions.choices.after(0, 1, tenant=tenant)[0][1].vector
        assert vector is not None
        return vector

    async def metrics(self) -> str:
        async with self.gate.session.get(self.gate.url.removesuffix("/v1") + "/metrics") as response:
            return await response.text()


@asynccontextmanager
async def stage(data: Path, **advanced: Any) -> AsyncIterator[Stage]:
    async with upstream() as small, upstream() as large:
        small.says, large.says = "From the small one.", "Use ls -a."
        still = {"epsilon": 0, "key_share": 0, "scorer_deadline_ms": 10_000}
        config = {
            "engines": {
                "small": {
                    "base_url": small.url,
                    "price": {"input_usd_per_mtok": 0, "output_usd_per_mtok": 1},
                },
                "large": {
                    "base_url": large.url,
                    "price": {"input_usd_per_mtok": 0, "output_usd_per_mtok": 10},
                },
            },
            "models": {
                "gpt-4o": {
                    "engines": ["small", "large"],
                    "policy": "in_context",
                    "few_shot": {"theta": 0.8, "m": 1},
                    "advanced": still | advanced,
                }
            },
            "memory": {
                "data_dir": str(data),
                "exact": {"enabled": False},
            },
        }
        async with line(config) as gate:
            yield Stage(gate, small, large)


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage(tmp_path / "data") as made:
        await made.ready()
        yield made


def told(got: Got) -> tuple[str, str]:
    """Who answered, with how many examples."""
    assert got.status == 200, got.body
    return got.headers["x-understudy-engine"], got.headers["x-understudy-examples"]


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer sk-{name}"}


def bandit(vector: Vector, *, small: float, large: float) -> bytes:
    """One that was taught these qualities for requests like that of the vector."""
    context = features.context_features(
        features.Request(QUESTION),
        features.Examples(count=1, tokens=20, gain=0.1, best_similarity=0.9),
        quality_alone=0.5,
        quality_with=0.6,
        weights=(1.0, 0.0, 0.0),
    )
    ways = (("small", False), ("small", True), ("large", False))
    options = [
        Option(
            engine,
            examples,
            features.action_features(
                is_reference=engine == "large",
                rank=float(engine == "large"),
                with_examples=examples,
                relative_cost=1.0 if engine == "large" else 0.1,
                relative_latency=1.0,
                utilisation=0.0,
                healthy=True,
            ),
        )
        for engine, examples in ways
    ]
    qualities = {n: large if engine == "large" else small for n, (engine, _) in enumerate(ways)}
    made = VowpalBandit(BanditSettings(dimensions=len(vector)))
    made.learn([Lesson(Scene(vector, context, options), qualities)] * 100)
    return made.save()


async def test_what_an_engine_is_expected_to_cost_follows_the_length_of_its_own_answers(here: Stage) -> None:
    for question in (QUESTION, "What is the capital of Peru?"):
        await here.gate.chat(question)
        await here.gate.settled()
    first, second = (choice for _, choice in here.store.decisions.choices.after(0, 10))
    # Nothing is known of either engine at first; then of the large one, whose answer had three tokens, and what the
    # small one would say is taken to be as long.
    small, large = (f["cost_usd"] for f in (first.actions[0], first.actions[-1]))
    assert (small, large) == (pytest.approx(256 * 1 / 1e6), pytest.approx(256 * 10 / 1e6))
    small, large = (f["cost_usd"] for f in (second.actions[0], second.actions[-1]))
    assert (small, large) == (pytest.approx(3 * 1 / 1e6), pytest.approx(3 * 10 / 1e6))


async def test_the_example_that_the_scorer_expects_to_help_is_sent_and_everything_is_logged(
    here: Stage,
) -> None:
    first = await here.gate.chat(QUESTION)
    assert told(first) == ("large", "0") and here.large.asked[0].json["messages"][0]["content"] == QUESTION
    got = await here.gate.chat(ALIKE)
    assert told(got) == ("small", "1")
    sent = here.small.asked[-1].json["messages"]
    assert [m["content"] for m in sent] == [QUESTION, "Use ls -a.", ALIKE]
    choice = here.store.decisions.choices.get("default", got.headers["x-understudy-decision-id"])
    assert choice is not None and choice.engine == "small" and len(choice.example_ids) == 1
    assert choice.scorer == "prior" and choice.candidate_features is not None
    assert choice.candidates[0]["id"] == choice.example_ids[0] and choice.candidates[0]["sent"]
    assert [(a["engine"], a["with_examples"]) for a in choice.actions] == [
        ("small", False), ("small", True), ("large", False),
    ]  # fmt: skip
    assert (choice.probability, choice.explored, choice.policy_version) == (1.0, False, "prior")


async def test_feedback_becomes_an_outcome_of_the_decision_it_names(here: Stage) -> None:
    await here.gate.chat(QUESTION)
    got = await here.gate.chat(ALIKE)
    id = got.headers["x-understudy-decision-id"]
    assert (await here.gate.post("/feedback", {"decision_id": id, "score": 0.25})).status in (200, 201)
    (outcome,) = here.store.outcomes.of("default", id)
    assert (outcome.quality, outcome.engine, outcome.served, outcome.source) == (0.25, "small", True, "user")
    (experience,) = here.store.outcomes.experiences("default", "gpt-4o")
    assert experience.choice.request_id == id and experience.outcomes == (outcome,)


@pytest.mark.parametrize("how", ["not a model", "wrong shape", "missing"])
async def test_a_broken_scorer_is_gone_without_and_an_operator_sees_it(
    here: Stage, tmp_path: Path, how: str
) -> None:
    await here.gate.chat(QUESTION)
    assert SCALARS not in await here.metrics()
    if how == "missing":
        record = await asyncio.to_thread(
            here.artifacts.publish, "scorer", "", "gpt-4o", b"gone in a moment", metrics={}, state="retired"
        )
        here.artifacts.path(record).unlink()
        await asyncio.to_thread(here.artifacts.activate, record.id)
        await here.ready()
    else:
        # A whole model, of three features.
        wrong = features_model(tmp_path / "wrong.onnx", width=3).read_bytes()
        await here.publish("scorer", b"not a model" if how == "not a model" else wrong)
    assert told(await here.gate.chat(ALIKE)) == ("small", "1"), "with the prior's scores"
    assert f"{SCALARS} 1.0" in await here.metrics()


async def test_without_even_a_prior_the_nearest_examples_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from learning.training.artifact_openers import ArtifactOpeners
    from router.examples.scorer import ScorerBroken

    def broken(self: ArtifactOpeners) -> None:
        raise ScorerBroken("it could not be written")

    monkeypatch.setattr(ArtifactOpeners, "prior", broken)
    async with stage(tmp_path / "data") as here:
        await here.ready()
        await here.gate.chat(QUESTION)
        got = await here.gate.chat(ALIKE)
        assert told(got) == ("small", "1")
        choice = here.store.decisions.choices.get("default", got.headers["x-understudy-decision-id"])
        assert choice is not None and (choice.scorer, choice.policy_version) == ("", "none")
        assert f"{SCALARS} 1.0" in await here.metrics()


async def test_what_two_tenants_taught_never_meets(here: Stage) -> None:
    """A's bandit says that small is good, B's that it is bad; C has none. Nor does one see the other's examples."""
    tenants = {}
    for name in "abc":
        got = await here.gate.chat(QUESTION, bearer(name))
        assert told(got) == ("large", "0"), "nobody's examples but one's own"
        tenants[name] = next(t for t, _ in here.store.decisions.choices.slots() if t not in tenants.values())
    await here.publish("bandit", bandit(here.vector(tenants["a"]), small=1.0, large=0.3), tenants["a"])
    await here.publish("bandit", bandit(here.vector(tenants["b"]), small=0.0, large=1.0), tenants["b"])
    for tenant in tenants.values():
        await here.ready(tenant)
    seen = {}
    for name in "abc":
        got = await here.gate.chat(ALIKE, bearer(name))
        choice = here.store.decisions.choices.get(tenants[name], got.headers["x-understudy-decision-id"])
        assert choice is not None
        seen[name] = (told(got)[0], choice.policy_version.split("-")[0])
    assert seen == {"a": ("small", "bandit"), "b": ("large", "bandit"), "c": ("small", "prior")}


async def test_the_dial_of_a_request_moves_the_choice(here: Stage) -> None:
    await here.gate.chat(QUESTION)
    await here.publish("bandit", bandit(here.vector(), small=0.85, large=1.0))
    asked: Callable[[str], Any] = lambda dial: here.gate.chat(OTHER, {"x-understudy-preference": dial})  # noqa: E731
    assert told(await asked("1"))[0] == "large"
    assert told(await asked("0"))[0] == "small"
    refused = await asked("cheap")
    assert refused.status == 400 and "x-understudy-preference" in refused.json["error"]["message"]


async def test_a_forced_engine_and_forbidden_examples_are_honoured(here: Stage) -> None:
    await here.gate.chat(QUESTION)
    forced = await here.gate.chat(ALIKE, {"x-understudy-engine": "large"})
    assert told(forced) == ("large", "0")
    bare = await here.gate.chat(ALIKE, {"x-understudy-examples": "0", "x-understudy-engine": "small"})
    assert told(bare) == ("small", "0")
    assert here.small.asked[-1].json["messages"] == [{"role": "user", "content": ALIKE}]
