"""The learning policy: whatever part is late or broken is gone without and named, and what was weighed is what is logged."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from engines.chat import ChatRequest
from engines.engine import EngineInfo, EngineLoad, Price
from router.choosing import chooser
from router.choosing.bandit import BanditBroken, Estimate, Scene
from router.choosing.chooser import Chooser
from router.choosing.exploration_budget import ExplorationBudget
from router.examples.count import Knobs as CountKnobs
from router.examples.features import NAMES, RequestView
from router.examples.scorer import ScorerBroken, ScorerLate, Scores
from router.examples.set_quality import UNLEARNT, SetQuality
from router.plan import Action, Ask, Candidate, Plan
from router.policies.in_context import InContext, LearnedModels
from store.records import Example, Vector
from tests.knobs import chooser_knobs, in_context_knobs, load_knobs

SMALL, LARGE = "small", "large"
ONE_IS_ENOUGH = SetQuality(alone=0.5, one=0.5, vote=0.0, displaced=0.0, each=0.001)
PRICES = {SMALL: Price(0.1, 0.4), "middle": Price(1.0, 4.0), LARGE: Price(2.5, 10.0)}


@dataclass
class Engine:
    """What a policy sees of one."""

    name: str
    now: EngineLoad = field(default_factory=lambda: EngineLoad(capacity=8))
    context_tokens: int | None = None

    @property
    def info(self) -> EngineInfo:
        return EngineInfo(self.name, price=PRICES[self.name], context_tokens=self.context_tokens)

    def load(self) -> EngineLoad:
        return self.now


class GivenEmbedder:
    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure

    async def embed(self, text: str) -> Vector:
        if self.failure is not None:
            raise self.failure
        return np.ones(4, np.float32) / 2


@dataclass
class GivenNeighbours:
    """Candidates at the given similarities, best first."""

    similarities: Sequence[float] = (0.95, 0.9, 0.85)
    failure: Exception | None = None
    merged: int = 0
    wait: threading.Event | None = None

    def size(self, tenant: str) -> int:
        return len(self.similarities)

    def nearest(
        self, tenant: str, scope: str, vector: Vector, comparable: object, text: str
    ) -> list[Candidate]:
        if self.wait is not None:
            self.wait.wait(60)
        if self.failure is not None:
            raise self.failure
        return [
            Candidate(
                Example(
                    n, n, tenant, scope, f"question {n}?", f"answer {n}.", LARGE, 0.0, merged=self.merged
                ),
                similarity,
            )
            for n, similarity in enumerate(self.similarities)
        ]


@dataclass
class GivenScorer:
    """Worths by the id of an example; the others have none."""

    worths: dict[int, float] = field(default_factory=lambda: {0: 0.1, 1: 0.3, 2: 0.2})
    failure: Exception | None = None
    quality: SetQuality = ONE_IS_ENOUGH
    version: str = "scorer-1"

    def score(self, request: RequestView, candidates: Sequence[Candidate], scope: str = "") -> Scores:
        if self.failure is not None:
            raise self.failure
        rows = np.zeros((len(candidates), len(NAMES)), np.float32)
        rows[:, 0] = [c.similarity for c in candidates]
        worths = [self.worths.get(c.example.id, 0.0) for c in candidates]
        return Scores(worths, rows, self.version, self.quality)

    def close(self) -> None: ...


@dataclass
class GivenBandit:
    """The same quality for an engine whatever is asked."""

    qualities: dict[str, float]
    deviation: float = 0.0
    failure: Exception | None = None
    learned: int = 10_000
    version: str = "bandit-1"

    def estimate(self, scene: Scene) -> Estimate:
        if self.failure is not None:
            raise self.failure
        qualities = tuple(self.qualities[option.engine] for option in scene.options)
        return Estimate(qualities, (self.deviation,) * len(qualities))


@dataclass
class Given:
    """Everything a decision depends on, each replaceable."""

    embedder: GivenEmbedder = field(default_factory=GivenEmbedder)
    near: GivenNeighbours = field(default_factory=GivenNeighbours)
    learned: LearnedModels = field(
        default_factory=lambda: LearnedModels(scorer=GivenScorer(), version="scorer-1")
    )
    engines: Sequence[Engine] = field(default_factory=lambda: [Engine(SMALL), Engine(LARGE)])
    knobs: dict[str, Any] = field(default_factory=dict)
    chooser: chooser.Knobs = field(default_factory=chooser_knobs)
    share: float = 1.0
    """Of a key's decisions that may explore."""
    seed: int = 1

    def of(self, tenant: str) -> LearnedModels:
        return self.learned

    def policy(self, threads: ThreadPoolExecutor) -> InContext:
        # Nothing is explored unless a test asks for it: then a decision has one right outcome.
        still = {"least_probability": 0.0, "label_share": 0.0, "counts": None, "m": 1, "deadline_s": 20.0}
        return InContext(
            self.engines,
            self.embedder,
            self.near,
            self.of,
            Chooser(self.chooser),
            ExplorationBudget(self.share),
            threads,
            in_context_knobs(**(still | self.knobs)),
            rng=random.Random(self.seed),
        )


Decide = Callable[..., Any]


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


@pytest.fixture
def decide(threads: ThreadPoolExecutor) -> Decide:
    async def decided(given: Given | None = None, ask: Ask | None = None) -> Plan:
        return await (given or Given()).policy(threads).decide(ask or asked())

    return decided


def asked(text: str = "Q?", *, fields: dict[str, Any] | None = None, **more: Any) -> Ask:
    messages = [{"role": "user", "content": text}]
    chat = ChatRequest(b"", fields or {}, "m", messages, stream=False, include_usage=False)
    return Ask(chat, **({"tenant": "t", "key_id": "key_1"} | more))


def ids(plan: Plan) -> list[int]:
    return [c.example.id for c in plan.attempts[0].examples]


def taken(plan: Plan) -> Action:
    assert plan.choice is not None
    return plan.choice.weighed[plan.choice.chosen].action


def with_bandit(small: float, large: float, **more: Any) -> LearnedModels:
    return LearnedModels(scorer=GivenScorer(), bandit=GivenBandit({SMALL: small, LARGE: large}), **more)


# ---- the way of a request


async def test_the_examples_that_help_most_are_sent_the_most_helpful_next_to_the_question(
    decide: Decide,
) -> None:
    plan = await decide(Given(knobs={"max_examples": 2}))
    assert (plan.attempts[0].engine, plan.reason, ids(plan)) == (SMALL, "familiar", [2, 1])
    sent = plan.attempts[0].messages
    assert [m["content"] for m in sent] == ["question 2?", "answer 2.", "question 1?", "answer 1.", "Q?"]
    assert list(plan.stages_s) == ["embed", "nearest", "score", "combine", "choose"]
    assert not plan.bypassed


async def test_what_was_scored_is_logged_best_first_with_the_scalars_of_each(decide: Decide) -> None:
    helped = (await decide()).helped
    assert [c.example.id for c in helped.considered] == [1, 2, 0]
    assert [c.gain for c in helped.considered] == pytest.approx([0.3, 0.2, 0.1])
    assert helped.features[:, 0] == pytest.approx([0.9, 0.85, 0.95]), "each row is its candidate's"
    assert (helped.scorer, helped.quality_alone) == ("scorer-1", 0.5)
    assert helped.quality_with > helped.quality_alone


async def test_where_no_example_helps_none_is_sent_and_the_reference_answers(decide: Decide) -> None:
    plan = await decide(Given(learned=LearnedModels(scorer=GivenScorer({0: 0.001}))))
    assert (plan.attempts[0].engine, plan.reason) == (LARGE, "no_example_helps")
    assert plan.attempts[0].messages is None, "what stays with the large engine goes as it came"
    assert len(plan.neighbours) == 3 and plan.vector is not None


async def test_where_too_little_is_promised_no_example_is_sent_and_the_log_says_why(decide: Decide) -> None:
    plan = await decide(Given(learned=LearnedModels(scorer=GivenScorer({0: 0.0012, 1: 0.001}))))
    assert (plan.attempts[0].engine, plan.reason) == (LARGE, "no_example_helps")
    assert plan.helped is not None and set(plan.helped.left_out.values()) == {"adds_too_little"}


async def test_before_anything_is_learnt_the_five_best_are_sent(decide: Decide) -> None:
    near = GivenNeighbours([0.95 - 0.01 * n for n in range(9)])
    scorer = GivenScorer({n: 0.1 * n for n in range(9)}, quality=UNLEARNT)
    plan = await decide(Given(near=near, learned=LearnedModels(scorer=scorer)))
    assert ids(plan) == [4, 5, 6, 7, 8]


async def test_fewer_than_m_familiar_neighbours_go_to_the_reference(decide: Decide) -> None:
    knobs = {"m": 3, "theta": 0.86}
    assert (await decide(Given(knobs=knobs))).reason == "novel"
    assert (await decide(Given(near=GivenNeighbours(merged=1), knobs=knobs))).reason == "familiar"


async def test_the_bandit_decides_as_soon_as_there_is_one(decide: Decide) -> None:
    bad = await decide(Given(learned=with_bandit(0.1, 0.9, version="bandit-1")))
    assert (bad.attempts[0].engine, bad.reason, bad.policy_version) == (LARGE, "learned", "bandit-1")
    good = await decide(Given(learned=with_bandit(0.9, 0.9)))
    assert (good.attempts[0].engine, good.reason) == (SMALL, "learned")


async def test_the_dial_of_the_request_goes_before_the_keys_and_that_before_the_models(
    decide: Decide,
) -> None:
    given = Given(learned=with_bandit(0.8, 1.0), knobs={"preference": 0.0, "key_preferences": {"key_1": 1.0}})
    assert (await decide(given)).attempts[0].engine == LARGE
    assert (await decide(given, asked(key_id="key_2"))).attempts[0].engine == SMALL
    assert (await decide(given, asked(preference=0.0))).attempts[0].engine == SMALL


async def test_a_tenant_may_have_settings_of_its_own(decide: Decide, threads: ThreadPoolExecutor) -> None:
    policy = Given(learned=with_bandit(0.8, 1.0), knobs={"preference": 0.0}).policy(threads)
    policy.knobs_of = {"careful": replace(policy.knobs, preference=1.0)}
    assert (await policy.decide(asked())).attempts[0].engine == SMALL
    assert (await policy.decide(asked(tenant="careful"))).attempts[0].engine == LARGE


async def test_the_plan_says_what_the_draw_depended_on(decide: Decide) -> None:
    learnt = await decide(Given(learned=with_bandit(0.8, 1.0, offload_cap=0.25)), asked(preference=0.25))
    assert learnt.settings == {
        "theta": 0.8,
        "m": 1.0,
        "max_examples": 8.0,
        "preference": 0.25,
        "own_preference": 1.0,
        "may_explore": 1.0,
        "offload_cap": 0.25,
        "learned": 10_000.0,
        "picked": -1.0,
        "by_proof": 0.0,
    }
    ruled = await decide()
    assert (ruled.settings["own_preference"], ruled.settings["learned"]) == (0.0, 0.0)
    assert ruled.choice.weighed[int(ruled.settings["picked"])].action == Action(SMALL, True)
    assert ruled.familiar == {0: 1, 1: 1, 2: 1} and not learnt.familiar


async def test_load_moves_the_choice_and_the_log_keeps_what_it_would_have_been(decide: Decide) -> None:
    busy = [Engine(SMALL), Engine(LARGE, EngineLoad(in_flight=16, capacity=8))]
    still = chooser_knobs(least_probability=0.0, gamma_scale=1e6, load=load_knobs(strength=1.0))
    given = Given(engines=busy, learned=with_bandit(0.8, 1.0), knobs={"preference": 1.0}, chooser=still)
    plan = await decide(given)
    assert plan.attempts[0].engine == SMALL
    assert plan.choice.weighed[plan.choice.chosen_without_load].action.engine == LARGE


async def test_an_engine_that_would_not_be_asked_is_not_chosen(decide: Decide) -> None:
    down = [Engine(SMALL, EngineLoad(open=False)), Engine(LARGE)]
    for learned in (with_bandit(1.0, 0.1), LearnedModels(scorer=GivenScorer())):
        assert (await decide(Given(engines=down, learned=learned))).attempts[0].engine == LARGE


async def test_whoever_stands_in_comes_behind_the_choice_the_largest_first(decide: Decide) -> None:
    three = [Engine(SMALL), Engine("middle"), Engine(LARGE)]
    learned = LearnedModels(
        scorer=GivenScorer(), bandit=GivenBandit({SMALL: 1.0, "middle": 0.1, LARGE: 1.0}), version="b"
    )
    plan = await decide(Given(engines=three, learned=learned))
    assert [(a.engine, bool(a.examples)) for a in plan.attempts] == [
        (SMALL, taken(plan).with_examples),
        (LARGE, False),
        ("middle", True),
    ]
    assert plan.attempts[1].messages is None


# ---- what is late or broken


async def test_a_broken_embedder_leaves_the_reference_with_the_others_behind_it(decide: Decide) -> None:
    plan = await decide(Given(embedder=GivenEmbedder(RuntimeError("no"))))
    assert [a.engine for a in plan.attempts] == [LARGE, SMALL]
    assert (plan.reason, plan.bypassed) == ("no_embedding", ("embed:RuntimeError",))
    assert plan.choice is None and plan.vector is None


async def test_a_broken_index_is_gone_without(decide: Decide) -> None:
    plan = await decide(Given(near=GivenNeighbours(failure=OSError())))
    assert (plan.attempts[0].engine, plan.reason, plan.bypassed) == (LARGE, "novel", ("nearest:OSError",))
    assert plan.vector is not None, "the embedding is kept: the answer will be remembered with it"


@pytest.mark.parametrize("error", [ScorerLate("late"), ScorerBroken("nan"), ZeroDivisionError()])
async def test_without_scores_the_nearest_examples_are_sent(decide: Decide, error: Exception) -> None:
    plan = await decide(
        Given(
            learned=LearnedModels(scorer=GivenScorer(failure=error)), knobs={"max_examples": 2, "theta": 0.8}
        )
    )
    assert (plan.attempts[0].engine, plan.reason) == (SMALL, "familiar")
    assert ids(plan) == [1, 0], "the nearest next to the question"
    assert plan.bypassed == (f"score:{type(error).__name__}",)
    assert plan.helped is None and plan.choice is not None


async def test_without_any_scorer_the_nearest_examples_are_sent_and_nothing_is_called_broken(
    decide: Decide,
) -> None:
    plan = await decide(Given(learned=LearnedModels(), knobs={"max_examples": 2}))
    assert (ids(plan), plan.bypassed, plan.policy_version) == ([1, 0], (), "none")


async def test_scores_of_the_wrong_number_are_gone_without(decide: Decide) -> None:
    class Short(GivenScorer):
        def score(self, request: RequestView, candidates: Sequence[Candidate], scope: str = "") -> Scores:
            scores = super().score(request, candidates, scope)
            return replace(scores, worths=scores.worths[:1])

    plan = await decide(Given(learned=LearnedModels(scorer=Short())))
    assert plan.bypassed == ("score:ValueError",) and plan.attempts[0].engine == SMALL
    assert all(c.gain is None for c in plan.neighbours)


async def test_a_broken_bandit_leaves_the_decision_to_the_rule(decide: Decide) -> None:
    learned = LearnedModels(scorer=GivenScorer(), bandit=GivenBandit({}, failure=BanditBroken("truncated")))
    plan = await decide(Given(learned=learned))
    assert (plan.attempts[0].engine, plan.reason) == (SMALL, "familiar")
    assert plan.bypassed == ("bandit:BanditBroken",)


async def test_a_bandit_that_fails_in_an_unheard_of_way_leaves_the_reference(decide: Decide) -> None:
    learned = LearnedModels(scorer=GivenScorer(), bandit=GivenBandit({}))
    plan = await decide(Given(learned=learned))
    assert [a.engine for a in plan.attempts] == [LARGE, SMALL]
    assert (plan.reason, plan.bypassed) == ("undecided", ("choose:KeyError",))
    assert len(plan.neighbours) == 3, "what was found is still known"


async def test_what_takes_too_long_is_not_waited_for(threads: ThreadPoolExecutor) -> None:
    hang = threading.Event()
    given = Given(near=GivenNeighbours(wait=hang), knobs={"deadline_s": 0.05})
    try:
        plan = await given.policy(threads).decide(asked())
        assert (plan.attempts[0].engine, plan.reason) == (LARGE, "late")
        assert plan.bypassed == ("weigh:TimeoutError",)
    finally:
        hang.set()


async def test_models_that_cannot_be_read_leave_the_reference(decide: Decide) -> None:
    class Closed(Given):
        def of(self, tenant: str) -> LearnedModels:
            raise OSError("gone")

    plan = await decide(Closed())
    assert (plan.attempts[0].engine, plan.bypassed) == (LARGE, ("weigh:OSError",))


# ---- what may not be tried


ALWAYS = {"least_probability": 0.3, "label_share": 1.0, "counts": CountKnobs(explore_share=1.0)}


@pytest.mark.parametrize(
    ("given", "ask"),
    [
        (Given(knobs=ALWAYS), asked(forced=True)),
        (Given(knobs=ALWAYS | {"with_tools": "examples"}), asked(fields={"tools": [{"type": "function"}]})),
        (Given(knobs=ALWAYS | {"opted_out_keys": ("key_1",)}), asked()),
        (Given(knobs=ALWAYS, share=0.0), asked()),
    ],
    ids=["forced", "tools", "opted out", "no budget"],
)
async def test_nothing_is_tried_on_a_request_that_must_not_be(decide: Decide, given: Given, ask: Ask) -> None:
    given = replace(
        given,
        learned=LearnedModels(scorer=GivenScorer({0: 0.1, 1: 0.3}), version="v"),
    )
    for seed in range(30):
        plan = await decide(replace(given, seed=seed), ask)
        assert plan.reason == "familiar" and plan.probability == 1.0
        assert (plan.helped.explored, plan.helped.probability) == ("", 1.0)
        assert not plan.choice.explored


async def test_a_bandit_is_not_explored_with_either(decide: Decide) -> None:
    careless = chooser_knobs(least_probability=0.3, gamma_scale=0.01)
    for seed in range(30):
        plan = await decide(
            Given(learned=with_bandit(0.1, 0.9), chooser=careless, seed=seed), asked(forced=True)
        )
        assert plan.attempts[0].engine == LARGE and plan.probability == 1.0


TOOLS = {"tools": [{"type": "function"}]}
LOOP = [
    {"role": "user", "content": "Q?"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
    {"role": "tool", "tool_call_id": "1", "content": "4"},
]


async def test_a_routed_request_with_tools_is_explored_but_no_later_step_of_its_loop(decide: Decide) -> None:
    careless = chooser_knobs(least_probability=0.3, gamma_scale=0.01)
    unsure = GivenBandit({SMALL: 0.7, LARGE: 0.9}, deviation=0.3, learned=10)
    learned = LearnedModels(scorer=GivenScorer(), bandit=unsure)
    given = Given(learned=learned, chooser=careless, knobs={"with_tools": "route"})
    later = replace(asked(), chat=ChatRequest(b"", TOOLS, "m", LOOP, stream=False, include_usage=False))
    first = [await decide(replace(given, seed=seed), asked(fields=TOOLS)) for seed in range(30)]
    then = [await decide(replace(given, seed=seed), later) for seed in range(30)]
    assert {plan.attempts[0].engine for plan in first} == {SMALL, LARGE}
    assert all(plan.attempts[0].engine == LARGE and plan.probability == 1.0 for plan in then)


@pytest.mark.parametrize(
    ("messages", "fields", "reason"),
    [
        ([{"role": "user", "content": [{"type": "image_url"}]}], {}, "not_plain_text"),
        ([{"role": "user", "content": "2+2?"}], {"tools": [{}]}, "tools"),
    ],
)
async def test_tools_and_pictures_go_to_the_reference_as_they_came(
    decide: Decide, messages: list[dict[str, Any]], fields: dict[str, Any], reason: str
) -> None:
    chat = ChatRequest(b"", fields, "m", messages, stream=False, include_usage=False)
    plan = await decide(Given(knobs=ALWAYS), Ask(chat, "t"))
    assert (plan.attempts[0].engine, plan.attempts[0].messages) == (LARGE, None)
    assert (plan.reason, plan.choice, plan.probability) == (reason, None, 1.0)


async def test_a_client_that_wants_no_examples_gets_none(decide: Decide) -> None:
    for learned in (LearnedModels(scorer=GivenScorer()), LearnedModels(), with_bandit(0.9, 0.9)):
        plan = await decide(Given(learned=learned, knobs=ALWAYS), asked(max_examples=0))
        assert not any(a.examples or a.messages for a in plan.attempts)
        assert not any(w.action.with_examples for w in plan.choice.weighed)


async def test_a_clients_own_limit_holds_while_examples_are_tried_out(decide: Decide) -> None:
    knobs = {"label_share": 0.5, "counts": CountKnobs(explore_share=0.5)}
    learned = LearnedModels(scorer=GivenScorer())
    for seed in range(40):
        plan = await decide(Given(learned=learned, knobs=knobs, seed=seed), asked(max_examples=1))
        assert all(len(a.examples) <= 1 for a in plan.attempts)


async def test_examples_stay_within_the_small_engines_context(decide: Decide) -> None:
    plan = await decide(Given(engines=[Engine(SMALL, context_tokens=10), Engine(LARGE)]))
    assert (plan.attempts[0].engine, plan.attempts[0].examples) == (LARGE, ())


# ---- what is tried, and logged


async def test_an_example_left_out_or_exchanged_is_logged_with_its_probability(decide: Decide) -> None:
    seen: Counter[str] = Counter()
    for seed in range(300):
        plan = await decide(Given(knobs={"label_share": 0.5, "max_examples": 2}, seed=seed))
        kind, sent = plan.helped.explored, ids(plan)
        seen[kind] += 1
        if kind == "":
            assert sent == [2, 1] and plan.helped.probability == pytest.approx(0.5)
        elif kind == "drop":
            assert len(sent) == 1 and plan.helped.probability == pytest.approx(0.125)
        else:
            assert kind == "swap" and 0 in sent and plan.helped.probability == pytest.approx(0.125)
    assert seen[""] / 300 == pytest.approx(0.5, abs=0.1)
    assert seen["drop"] / 300 == pytest.approx(0.25, abs=0.1)


async def test_a_number_of_examples_that_was_tried_is_logged(decide: Decide) -> None:
    seen = set()
    for seed in range(20):
        plan = await decide(Given(knobs={"counts": CountKnobs(explore_share=1.0)}, seed=seed))
        assert plan.helped.explored == "count" and plan.helped.probability == pytest.approx(0.5)
        seen.add((plan.helped.most, len(ids(plan))))
    assert seen == {(2, 2), (5, 3)}, "of three that help, fewer are sent, or all there are"


async def test_logged_probabilities_are_the_frequencies(decide: Decide) -> None:
    careless = chooser_knobs(least_probability=0.1, gamma_scale=0.05)
    for learned, knobs in (
        (with_bandit(0.7, 0.9), {}),
        (LearnedModels(scorer=GivenScorer()), {"least_probability": 0.15}),
    ):
        plans = [
            await decide(Given(learned=learned, knobs=knobs, chooser=careless, seed=seed))
            for seed in range(600)
        ]
        drawn = Counter(taken(plan) for plan in plans)
        for each in plans[0].choice.weighed:
            assert drawn[each.action] / len(plans) == pytest.approx(each.probability, abs=0.07)
        for plan in plans:
            assert plan.probability == plan.choice.weighed[plan.choice.chosen].probability
            assert taken(plan) == Action(plan.attempts[0].engine, bool(plan.attempts[0].examples))


async def test_a_key_whose_budget_is_spent_is_decided_without_trying(threads: ThreadPoolExecutor) -> None:
    policy = Given(share=0.1, knobs={"least_probability": 0.3}).policy(threads)
    plans = [await policy.decide(asked()) for _ in range(300)]
    tried = sum(plan.choice.explored for plan in plans)
    assert 10 <= tried <= 40
    assert {p.probability for p in plans if p.reason == "familiar"} > {1.0}, "certain while nothing is tried"


async def test_examples_tried_on_a_request_that_goes_to_the_reference_cost_no_budget(
    threads: ThreadPoolExecutor,
) -> None:
    given = Given(share=0.1, knobs={"label_share": 1.0}, learned=with_bandit(0.0, 1.0))
    given = replace(given, chooser=chooser_knobs(least_probability=0.0, gamma_scale=1e9))
    policy = given.policy(threads)
    plans = [await policy.decide(asked()) for _ in range(30)]
    assert {plan.attempts[0].engine for plan in plans} == {LARGE}
    assert all(plan.helped.explored for plan in plans)


# ---- the quality floor


@pytest.mark.parametrize("learned", [with_bandit(1.0, 1.0), LearnedModels(scorer=GivenScorer())])
async def test_no_more_than_the_floor_leaves_is_offloaded(decide: Decide, learned: LearnedModels) -> None:
    given = Given(learned=replace(learned, offload_cap=0.2))
    plans = [await decide(replace(given, seed=seed)) for seed in range(400)]
    offloaded = sum(plan.attempts[0].engine != LARGE for plan in plans)
    assert offloaded / len(plans) == pytest.approx(0.2, abs=0.06)
    for plan in plans:
        small = sum(w.probability for w in plan.choice.weighed if w.action.engine == SMALL)
        assert small <= 0.2 + 1e-9
        assert (plan.reason == "quality_floor") == plan.choice.floored
        if plan.attempts[0].engine == LARGE and plan.choice.floored:
            assert plan.attempts[0].messages is None


async def test_a_floor_that_leaves_nothing_sends_everything_to_the_reference(decide: Decide) -> None:
    for seed in range(30):
        learned = replace(with_bandit(1.0, 1.0), offload_cap=0.0)
        plan = await decide(Given(learned=learned, knobs=ALWAYS, seed=seed))
        assert plan.attempts[0].engine == LARGE
