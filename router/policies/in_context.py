"""The policy that learns (EchoLM): embed, nearest, score, combine, choose. Read `_weigh` as a sentence.

Each stage is gone without when it is late or broken: without scores the nearest examples are sent, without neighbours none,
and without any of it the reference answers, as if we were not there.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from engines.engine import EngineInfo, EngineLoad
from router.choosing.bandit import Bandit, BanditError
from router.choosing.chooser import Chooser, Situation
from router.choosing.engine_state import engine_state
from router.choosing.exploration_budget import ExplorationBudget
from router.choosing.features import Examples, Request, spread
from router.choosing.label_exploration import Explored, explored
from router.choosing.learned import Learned, LearnedBooks
from router.choosing.load import EngineState
from router.choosing.rule_choice import following
from router.digest import carries_tools, scope
from router.examples import features as scorer_features
from router.examples.combiner import Combination, combine, room_tokens, with_gains
from router.examples.combiner import Knobs as CombinerKnobs
from router.examples.count import Knobs as CountKnobs
from router.examples.features import RequestView
from router.examples.help_rates import HelpRates
from router.examples.scorer import Scores
from router.plan import Action, Ask, Attempt, Candidate, Choice, Helped, Plan
from router.policies.nearest_examples import familiar, that_fit
from router.policies.question import Embed, Looked, Looker
from router.prompt import example_tokens, tokens_needed, with_examples
from store.admission.cutting import EMBEDDED_CHARACTERS
from store.records import Vector

_UNSCORED_QUALITY = 0.5


class Retrieve(Protocol):
    """What is needed of router.embedding.retriever.Retriever."""

    def nearest(self, tenant: str, scope: str, vector: Vector) -> list[Candidate]: ...


class LoadedEngine(Protocol):
    """What is needed of an engine to weigh it."""

    @property
    def info(self) -> EngineInfo: ...

    def load(self) -> EngineLoad: ...


@dataclass(frozen=True, slots=True)
class Knobs:
    """theta, m, same_names: the rule until a bandit takes over (few_shot). The rest: see understudy.settings.models."""

    theta: float
    m: int
    same_names: bool
    with_tools: bool
    deadline_s: float
    """For everything after the embedding."""
    max_examples: int
    max_example_tokens: int
    combiner: CombinerKnobs
    counts: CountKnobs | None
    """None: the number of examples is not learnt."""
    label_share: float
    preference: float
    key_preferences: Mapping[str, float]
    least_probability: float
    """Of each action the rule does not pick."""
    opted_out_keys: Collection[str]
    max_characters: int = EMBEDDED_CHARACTERS
    candidates: int = 20
    """Nearest examples that are scored."""


@dataclass(slots=True)
class _Thinking:
    """One decision in the making."""

    ask: Ask
    text: str
    vector: Vector
    learned: Learned
    may_explore: bool
    stages_s: dict[str, float]
    bypassed: list[str] = field(default_factory=list)
    near: list[Candidate] = field(default_factory=list)
    """Nearest first; scored where there was a scorer."""
    scores: Scores | None = None

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Times a stage; what fails inside is gone without, and named."""
        began = time.perf_counter()
        try:
            yield
        except Exception as error:
            self.bypassed.append(f"{name}:{type(error).__name__}")
        finally:
            self.stages_s[name] = time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Examples to send, and what led to them."""

    examples: tuple[Candidate, ...] = ()
    quality_alone: float = _UNSCORED_QUALITY
    quality_with: float = _UNSCORED_QUALITY
    helped: Helped | None = None


class InContext:
    """`engines` run from small to large: the last is the reference."""

    name = "in_context"

    def __init__(
        self,
        engines: Sequence[LoadedEngine],
        embedder: Embed,
        retriever: Retrieve,
        learned: LearnedBooks,
        chooser: Chooser,
        budget: ExplorationBudget,
        executor: Executor,
        knobs: Knobs,
        *,
        hot: Callable[[str], Mapping[int, int]] = lambda tenant: {},
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`hot`: places of a tenant's examples that the smallest engine keeps warm (see HotExamples); must not raise."""
        self._engines = tuple(engines)
        self._names = tuple(engine.info.name for engine in engines)
        self._looker = Looker(embedder, with_tools=knobs.with_tools, max_characters=knobs.max_characters)
        self._retriever = retriever
        self._learned = learned
        self._chooser = chooser
        self._budget = budget
        self._executor = executor
        self.knobs = knobs  # Replaced as a whole when an operator turns a dial; any thread may.
        self._hot = hot
        self._rates = HelpRates()
        self._rng = rng or random.Random()
        self._clock = clock
        small, large = (e.info.price.both_usd_per_mtok for e in (engines[0], engines[-1]))
        self._relative_price = min(1.0, small / large) if large else 1.0

    async def decide(self, ask: Ask) -> Plan:
        """See router.policy.Policy."""
        looked = await self._looker.look(ask)
        if looked.refused or looked.vector is None:
            return self._to_reference(looked.refused, looked, looked.bypassed)
        # Loads are the event loop's to read; everything after that is a thread's.
        states = [engine_state(engine.info, engine.load()) for engine in self._engines]
        try:
            async with asyncio.timeout(self.knobs.deadline_s):
                return await asyncio.get_running_loop().run_in_executor(
                    self._executor, self._weigh, ask, looked, looked.vector, states
                )
        except Exception as error:
            return self._to_reference("undecided", looked, (f"weigh:{type(error).__name__}",))

    def _weigh(self, ask: Ask, looked: Looked, vector: Vector, states: Sequence[EngineState]) -> Plan:
        thinking = self._begin(ask, looked, vector)
        with thinking.stage("nearest"):
            thinking.near = self._retriever.nearest(ask.tenant, scope(ask.chat), vector)
        with thinking.stage("score"):
            self._score(thinking)
        chosen = _Chosen()
        with thinking.stage("combine"):
            chosen = self._combine(thinking)
        with thinking.stage("choose"):
            return self._chosen_plan(thinking, chosen, states)
        return self._to_reference("undecided", looked, thinking.bypassed, thinking)

    def _begin(self, ask: Ask, looked: Looked, vector: Vector) -> _Thinking:
        # A tool loop takes many requests: what goes wrong in one of them is carried through all that follow.
        steered = ask.forced or carries_tools(ask.chat)
        allowed = not steered and ask.key_id not in self.knobs.opted_out_keys
        # Without keys of ours a tenant is a credential, and shares one budget.
        may_explore = allowed and self._budget.allows(ask.key_id or ask.tenant, self._clock())
        return _Thinking(
            ask, looked.text, vector, self._learned.of(ask.tenant), may_explore, dict(looked.stages_s)
        )

    def _score(self, thinking: _Thinking) -> None:
        scorer = thinking.learned.scorer
        if scorer is None:
            return
        request = RequestView(thinking.text, thinking.vector, self._names[-1], self._relative_price)
        considered = thinking.near[: self.knobs.candidates]
        scores = scorer.score(request, considered)
        effects = self._rates.corrected(
            thinking.ask.tenant,
            scores.scorer,
            scores.effects,
            familiar=scorer_features.names_met(scores.features),
        )
        thinking.near[: len(considered)] = with_gains(considered, scores.gains.tolist(), effects)
        thinking.scores = scores

    def _combine(self, thinking: _Thinking) -> _Chosen:
        knobs, ask = self.knobs, thinking.ask
        limit = knobs.max_examples if ask.max_examples is None else min(ask.max_examples, knobs.max_examples)
        room = room_tokens(
            ask.chat,
            max_example_tokens=knobs.max_example_tokens,
            # Asked for each time: an engine may tell its window only once it is up.
            context_tokens=self._engines[0].info.context_tokens,
        )
        if thinking.scores is None:
            # Without scores: what few_shot would send.
            return _Chosen(that_fit(self._familiar(thinking), most=limit, room_tokens=room))
        scores, most, count_probability, count_explored = thinking.scores, limit, 1.0, False
        if knobs.counts is not None and thinking.learned.counts is not None:
            counts = knobs.counts if thinking.may_explore else replace(knobs.counts, explore_share=0.0)
            drawn = thinking.learned.counts.ladder(self._names[0], counts).drawn(self._rng, limit)
            most, count_probability, count_explored = drawn.most, drawn.probability, drawn.explored
        combined = combine(
            candidates := thinking.near[: knobs.candidates],
            quality_alone=scores.quality_alone,
            most=most,
            budget_tokens=room,
            knobs=knobs.combiner,
            familiar=scorer_features.names_met(scores.features),
            hot=self._hot(ask.tenant),
        )
        share = knobs.label_share if thinking.may_explore else 0.0
        sent = explored(combined, candidates, share, self._rng, budget_tokens=room)
        return _Chosen(
            sent.chosen,
            scores.quality_alone,
            combined.quality_with,
            self._helped(scores, candidates, combined, sent, most, count_probability, count_explored),
        )

    def _helped(
        self,
        scores: Scores,
        candidates: list[Candidate],
        combined: Combination,
        sent: Explored,
        most: int,
        count_probability: float,
        count_explored: bool,
    ) -> Helped:
        order = sorted(range(len(candidates)), key=lambda i: -(candidates[i].gain or 0.0))
        return Helped(
            scorer=scores.scorer,
            features_version=scorer_features.VERSION,
            considered=tuple(candidates[i] for i in order),
            features=scores.features[order] if len(order) else None,
            quality_alone=scores.quality_alone,
            quality_with=combined.quality_with,
            most=most,
            explored=sent.kind or ("count" if count_explored else ""),
            probability=sent.probability * count_probability,
            left_out=combined.left_out,
        )

    def _familiar(self, thinking: _Thinking) -> list[Candidate]:
        return familiar(
            thinking.near, thinking.text, theta=self.knobs.theta, same_names=self.knobs.same_names
        )

    def _chosen_plan(self, thinking: _Thinking, chosen: _Chosen, states: Sequence[EngineState]) -> Plan:
        ask, learned = thinking.ask, thinking.learned
        situation = self._situation(thinking, chosen, states)
        choice: Choice | None = None
        if learned.bandit is not None:
            choice = self._by_bandit(thinking, situation, learned.bandit)
        reason = "learned"
        if choice is None:
            choice, reason = self._by_rule(thinking, situation, chosen)
        to_other = choice.weighed[choice.chosen].action.engine != self._names[-1]
        if choice.explored or (to_other and chosen.helped is not None and chosen.helped.explored):
            # Examples that went nowhere tried nothing: the reference is asked without.
            self._budget.spent(ask.key_id or ask.tenant, self._clock())
        reason = "quality_floor" if choice.floored else "explored" if choice.explored else reason
        taken = choice.weighed[choice.chosen].action
        return Plan(
            self._attempts(taken, thinking, chosen),
            self.name,
            learned.version,
            reason,
            probability=choice.weighed[choice.chosen].probability,
            embedded_text=thinking.text,
            vector=thinking.vector,
            neighbours=tuple(thinking.near),
            stages_s=thinking.stages_s,
            bypassed=tuple(thinking.bypassed),
            choice=choice,
            helped=chosen.helped,
        )

    def _by_bandit(self, thinking: _Thinking, situation: Situation, bandit: Bandit) -> Choice | None:
        try:
            return self._chooser.choose(situation, bandit, self._rng)
        except BanditError as error:
            thinking.bypassed.append(f"bandit:{type(error).__name__}")
            return None

    def _by_rule(self, thinking: _Thinking, situation: Situation, chosen: _Chosen) -> tuple[Choice, str]:
        """Few-shot distillation by novelty (LOGIC), with the examples that the scorer chose."""
        # Pairs that were merged into one example (store.examples.twins) are still that many past answers.
        novel = sum(1 + c.example.merged for c in self._familiar(thinking)) < self.knobs.m
        # The only example was left out on purpose: what the engine does without it is what is to be learnt.
        dropped = chosen.helped is not None and chosen.helped.explored == "drop"
        helped = bool(chosen.examples) or dropped
        reason = "novel" if novel else "familiar" if helped else "no_example_helps"
        to_small = reason == "familiar"
        pick = Action(self._names[0], bool(chosen.examples)) if to_small else Action(self._names[-1], False)
        weighed = self._chooser.choose(situation, None, self._rng)
        healthy = {state.name: state.healthy for state in situation.engines}
        choice = following(
            weighed,
            pick,
            reference=self._names[-1],
            available=[healthy[each.action.engine] for each in weighed.weighed],
            least_probability=self.knobs.least_probability if thinking.may_explore else 0.0,
            offload_cap=situation.offload_cap,
            rng=self._rng,
        )
        return choice, reason

    def _situation(self, thinking: _Thinking, chosen: _Chosen, states: Sequence[EngineState]) -> Situation:
        ask, knobs, examples = thinking.ask, self.knobs, chosen.examples
        similarities = [c.similarity for c in examples]
        preference = ask.preference
        if preference is None:
            preference = knobs.key_preferences.get(ask.key_id or "", knobs.preference)
        return Situation(
            request=Request(
                thinking.text,
                turns=sum(m.get("role") in ("user", "assistant") for m in ask.chat.messages),
                prompt_tokens=tokens_needed(ask.chat),
                nearest=thinking.near[0].similarity if thinking.near else 0.0,
            ),
            engines=states,
            vector=thinking.vector,
            examples=Examples(
                count=len(examples),
                tokens=sum(map(example_tokens, examples)),
                gain=chosen.quality_with - chosen.quality_alone,
                best_similarity=max(similarities, default=0.0),
                spread=spread(similarities),
            ),
            quality_alone=chosen.quality_alone,
            quality_with=chosen.quality_with,
            preference=preference,
            may_explore=thinking.may_explore,
            offload_cap=thinking.learned.offload_cap,
        )

    def _attempts(self, taken: Action, thinking: _Thinking, chosen: _Chosen) -> tuple[Attempt, ...]:
        """What was chosen, and behind it who stands in: the reference first, then the others from large to small."""
        with_them = with_examples(thinking.ask.chat.messages, chosen.examples) if chosen.examples else None

        def attempt(engine: str, *, examples: bool) -> Attempt:
            return Attempt(engine, with_them, chosen.examples) if examples and with_them else Attempt(engine)

        others = [name for name in reversed(self._names) if name != taken.engine]
        return (
            attempt(taken.engine, examples=taken.with_examples),
            *(attempt(name, examples=name != self._names[-1]) for name in others),
        )

    def _to_reference(
        self,
        reason: str,
        looked: Looked,
        bypassed: Sequence[str],
        thinking: _Thinking | None = None,
    ) -> Plan:
        return Plan(
            tuple(Attempt(name) for name in reversed(self._names)),
            self.name,
            "none",
            reason,
            embedded_text=looked.text,
            vector=looked.vector,
            neighbours=tuple(thinking.near) if thinking else (),
            stages_s=thinking.stages_s if thinking else looked.stages_s,
            bypassed=tuple(bypassed),
        )
