"""The policy that learns (EchoLM): embed, retrieve, score, combine, choose. `_weigh` shows the stages in order.

A stage that is late or broken is skipped: without scores the nearest examples are sent, without neighbours none, and
without any decision the reference answers.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

from engines.engine import Engine
from router.choosing.bandit import Bandit, BanditError
from router.choosing.chooser import Chooser, Situation
from router.choosing.exploration_budget import ExplorationBudget
from router.choosing.features import Examples, Request, spread
from router.choosing.label_exploration import Explored, explored
from router.choosing.lengths import NearLengths
from router.choosing.load import EngineState, engine_state
from router.choosing.rule_choice import choice_by_rule
from router.deadline import Deadline
from router.digest import carries_tools, in_tool_loop, is_follow_up, shared_scope
from router.embedding.embedder import Embedder
from router.embedding.retriever import Retriever
from router.embedding.templates import Templates
from router.examples import features as scorer_features
from router.examples.combiner import Combination, Order, combine, room_tokens, with_worths
from router.examples.count import Count, drawn
from router.examples.count import Knobs as CountKnobs
from router.examples.features import RequestView
from router.examples.fusion import best_fused
from router.examples.scorer import Scorer, Scores
from router.plan import LATE, SHADOW, Action, Ask, Attempt, Candidate, Choice, ExampleSelection, Plan
from router.policies.late import LateDecisions
from router.policies.nearest_examples import attempt, counts, familiar, of_conversation, that_fit
from router.policies.proven import shadow, whole_is_open
from router.policies.question import EmbeddedQuestion, QuestionEmbedder, QuestionKnobs
from router.policies.stages import Stages
from router.prompt import example_tokens, most_answer_tokens, prompt_tokens, tokens_needed
from router.proving.gate import REFERENCE, Gate, key
from router.proving.standing import Proof
from router.standalone import Standalone
from store.records import Vector

_UNSCORED_QUALITY = 0.5


@dataclass(frozen=True, slots=True)
class LearnedModels:
    """Everything learnt for one tenant and served model; replaced as a whole, never changed.

    None for what is not learnt yet, or could not be loaded.
    """

    scorer: Scorer | None = None
    bandit: Bandit | None = None
    offload_cap: float = 1.0
    """Share of requests that may go to other engines than the reference, as the quality floor allows."""
    version: str = "none"
    """Identifies all of it in the log."""


@dataclass(frozen=True, slots=True)
class Knobs(QuestionKnobs):
    """Settings. theta, m, same_names: the rule until a bandit takes over (few_shot). See understudy.settings.models."""

    theta: float
    m: int
    same_names: bool
    deadline_s: float | None
    """Limit for everything after the embedding; None: the measured one (router.deadline)."""
    max_examples: int
    max_example_tokens: int
    example_order: Order
    counts: CountKnobs | None
    """None: no other numbers of examples are tried."""
    preference: float
    key_preferences: Mapping[str, float]
    least_probability: float
    """Least probability of each action that the rule does not pick."""
    max_loss: float | None
    """The loss that the quality floor promises; None: there is none."""
    opted_out_keys: Collection[str]
    label_share: float = 0.05
    """Share of offloaded requests in which an example is dropped or swapped to learn what it is worth."""
    candidates: int = 20
    """Examples that are scored: the best by vector and by words."""


@dataclass(slots=True)
class _Decision:
    """The state of one decision while its stages run."""

    ask: Ask
    question: EmbeddedQuestion
    vector: Vector
    knobs: Knobs
    models: LearnedModels
    may_explore: bool
    stages: Stages
    near: list[Candidate] = field(default_factory=list)
    """Nearest first."""
    scored: list[Candidate] = field(default_factory=list)
    """Those of them that were scored, with their worths."""
    scores: Scores | None = None
    counted: dict[int, int] = field(default_factory=dict)
    """The past answers that the rule counts as near, by the example's id."""
    proof: Proof | None = None
    """The proof of the small engines with and without the chosen examples; None if no proof is asked for."""


@dataclass(frozen=True, slots=True)
class _ChosenExamples:
    """The examples to send, with the expected quality without and with them."""

    examples: tuple[Candidate, ...] = ()
    quality_alone: float = _UNSCORED_QUALITY
    quality_with: float = _UNSCORED_QUALITY
    selection: ExampleSelection | None = None


class InContext:
    """Implements router.plan.Policy. `engines` run from small to large: the last is the reference."""

    name = "in_context"

    def __init__(
        self,
        engines: Sequence[Engine],
        embedder: Embedder,
        retriever: Retriever,
        models_of: Callable[[str], LearnedModels],
        chooser: Chooser,
        budget: ExplorationBudget,
        executor: Executor,
        knobs: Knobs,
        *,
        hot: Callable[[str], Mapping[int, int]] = lambda tenant: {},
        rng: random.Random | None = None,
        templates: Templates | None = None,
        gate: Gate | None = None,
        deadline: Deadline | None = None,
        standalone: Standalone | None = None,
    ) -> None:
        """`models_of` returns what to decide a tenant's requests with, at once: a model that is still loading is left out.
        `hot` maps a tenant to the positions of the examples that the smallest engine keeps warm (see HotExamples); it
        must not raise. `gate`: None if small engines may answer without proof."""
        self._gate = gate
        self._engines = tuple(engines)
        self._names = tuple(engine.info.name for engine in engines)
        self._questions = QuestionEmbedder(embedder, knobs, templates, standalone)
        self._retriever = retriever
        self._models_of = models_of
        self._chooser = chooser
        self._budget = budget
        self._executor = executor
        self._deadline = deadline or Deadline()
        self._late = LateDecisions()
        # Both are replaced as a whole when an operator changes a setting, from any thread.
        self.knobs = knobs
        self.knobs_of: Mapping[str, Knobs] = {}
        """By tenant, those that differ."""
        self._hot = hot
        self._rng = rng or random.Random()

    async def decide(self, ask: Ask) -> Plan:
        """See router.plan.Policy."""
        question = await self._questions.embed(ask)
        if question.bypassed and whole_is_open(self._gate, ask, question):
            question = self._questions.with_guess(question)
        if question.refused or question.vector is None:
            plan = self._to_reference(question.refused, question, question.bypassed)
            return self._going_on(plan, ask, question) if question.bypassed else plan
        # Loads are read on the event loop; everything after that runs on a thread.
        states = [engine_state(engine.info, engine.load()) for engine in self._engines]
        try:
            return await self._deadline.run(
                self._executor, self._weigh, self.knobs.deadline_s, ask, question, question.vector, states
            )
        except Exception as error:
            reason = LATE if isinstance(error, TimeoutError) else "undecided"
            plan = self._to_reference(reason, question, (*question.bypassed, f"weigh:{type(error).__name__}"))
            return self._going_on(plan, ask, question)

    def _going_on(self, plan: Plan, ask: Ask, question: EmbeddedQuestion) -> Plan:
        if self._gate is None or ask.forced:
            # Nothing is compared for it.
            return plan

        async def decide() -> Plan:
            embedded = await self._questions.embedded_later(question)
            assert embedded.vector is not None
            states = [engine_state(engine.info, engine.load()) for engine in self._engines]
            # It is answered by the reference: nothing is tried on it.
            settled = replace(ask, forced=True)
            return await asyncio.get_running_loop().run_in_executor(
                self._executor, self._weigh, settled, embedded, embedded.vector, states
            )

        return self._late.go_on(plan, decide)

    def _weigh(
        self, ask: Ask, question: EmbeddedQuestion, vector: Vector, states: Sequence[EngineState]
    ) -> Plan:
        """Everything after the embedding. Blocks: for the executor."""
        decision = self._begin(ask, question, vector)
        if not question.without_examples:
            with decision.stages.stage("nearest"):
                decision.near = self._retriever.nearest(
                    ask.tenant, question.scope, vector, self._questions.comparable(question), question.text
                )
        with decision.stages.stage("score"):
            self._score(decision)
        chosen = _ChosenExamples()
        with decision.stages.stage("combine"):
            chosen = self._combine(decision)
        if self._gate is not None:
            with decision.stages.stage("prove"):
                scope = shared_scope(question.scope)
                bank = self._retriever.size(ask.tenant)
                decision.proof = self._gate.proof(
                    ask.tenant,
                    scope,
                    None if question.guessed else vector,
                    chosen.examples,
                    bank,
                    unit=ask.unit(),
                )
        with decision.stages.stage("choose"):
            return self._choose(decision, chosen, states)
        return self._to_reference("undecided", question, decision.stages.bypassed, decision)

    def _begin(self, ask: Ask, question: EmbeddedQuestion, vector: Vector) -> _Decision:
        allowed = not ask.forced and self._may_try(ask) and ask.key_id not in self.knobs.opted_out_keys
        # Without API keys of the gateway a tenant is a credential, and shares one budget.
        allowed = allowed and not question.guessed
        may_explore = allowed and self._budget.allows(ask.key_id or ask.tenant, time.time())
        return _Decision(
            ask,
            question,
            vector,
            self.knobs_of.get(ask.tenant, self.knobs),
            self._models_of(ask.tenant),
            may_explore,
            Stages(dict(question.stages_s), list(question.bypassed)),
        )

    def _may_try(self, ask: Ask) -> bool:
        """A tool loop takes many requests, and an error in one of them is carried through all that follow."""
        if not carries_tools(ask.chat):
            return True
        messages = ask.chat.messages
        return self.knobs.with_tools == "route" and not (in_tool_loop(messages) or is_follow_up(messages))

    def _score(self, decision: _Decision) -> None:
        """Scores the candidates, if there is a scorer."""
        scorer = decision.models.scorer
        if scorer is None:
            return
        request = RequestView(decision.question.text, decision.vector, self._names[-1])
        considered = best_fused(decision.near, decision.knobs.candidates)
        scores = scorer.score(request, considered, shared_scope(decision.question.scope))
        decision.scored = with_worths(considered, scores.worths)
        decision.scores = scores

    def _combine(self, decision: _Decision) -> _ChosenExamples:
        """Chooses the examples to send; without scores, those that few_shot would send."""
        knobs, ask, scores = decision.knobs, decision.ask, decision.scores
        limit = knobs.max_examples if ask.max_examples is None else min(ask.max_examples, knobs.max_examples)
        room = room_tokens(
            ask.chat,
            max_example_tokens=knobs.max_example_tokens,
            # Read for each request: an engine may report its window only once it is up.
            context_tokens=self._engines[0].info.context_tokens,
        )
        had = of_conversation(ask, decision.question.scope, self._retriever, most=limit, room_tokens=room)
        if scores is None:
            nearest = that_fit(self._familiar(decision), most=limit, room_tokens=room)
            return _ChosenExamples(had or nearest)
        hot = self._hot(ask.tenant)

        def combined(most: int, number: int | None = None) -> Combination:
            return combine(
                decision.scored,
                quality=scores.quality,
                most=most,
                budget_tokens=room,
                order=knobs.example_order,
                hot=hot,
                number=number,
            )

        found = combined(limit)
        if had:
            return _ChosenExamples(had, scores.quality.alone, found.quality_with)
        count = Count(len(found.chosen), 1.0, explored=False)
        if knobs.counts is not None and decision.may_explore and decision.scored:
            count = drawn(len(found.chosen), limit, knobs.counts, self._rng)
        if count.explored:
            found = combined(limit, count.number)
        share = knobs.label_share if decision.may_explore and not count.explored else 0.0
        sent = explored(found, decision.scored, share, self._rng, budget_tokens=room)
        return _ChosenExamples(
            sent.chosen,
            scores.quality.alone,
            found.quality_with,
            self._selection(scores, decision.scored, found, sent, count, limit),
        )

    def _selection(
        self,
        scores: Scores,
        candidates: list[Candidate],
        combined: Combination,
        sent: Explored,
        count: Count,
        limit: int,
    ) -> ExampleSelection:
        order = sorted(range(len(candidates)), key=lambda i: -(candidates[i].gain or 0.0))
        return ExampleSelection(
            scorer=scores.scorer,
            features_version=scorer_features.VERSION,
            considered=tuple(candidates[i] for i in order),
            features=scores.features[order] if len(order) else None,
            quality_alone=scores.quality.alone,
            quality_with=combined.quality_with,
            most=count.number if count.explored else limit,
            explored=sent.kind or ("count" if count.explored else ""),
            probability=sent.probability * count.probability,
            left_out=combined.left_out,
        )

    def _familiar(self, decision: _Decision) -> list[Candidate]:
        return familiar(
            decision.near,
            decision.question.text,
            theta=decision.knobs.theta,
            same_names=decision.knobs.same_names,
        )

    def _choose(self, decision: _Decision, chosen: _ChosenExamples, states: Sequence[EngineState]) -> Plan:
        """Chooses the engine by the bandit, or by the rule if there is none, and makes the plan."""
        ask, models = decision.ask, decision.models
        situation = self._situation(decision, chosen, states)
        choice: Choice | None = None
        if models.bandit is not None:
            choice = self._by_bandit(decision, situation, models.bandit)
        reason = "learned"
        if choice is None:
            choice, reason = self._by_rule(decision, situation, chosen)
        taken = choice.weighed[choice.chosen]
        to_other = taken.action.engine != self._names[-1]
        if choice.explored or (to_other and chosen.selection is not None and chosen.selection.explored):
            # The reference is asked without examples, so a changed selection is no exploration there.
            self._budget.spent(ask.key_id or ask.tenant, time.time())
        if situation.allowed is not None and not situation.allowed:
            reason = SHADOW
        reason = "quality_floor" if choice.floored else "explored" if choice.explored else reason
        return Plan(
            self._attempts(taken.action, decision, chosen),
            self.name,
            models.version,
            reason,
            probability=taken.probability,
            embedded_text=decision.question.digest.text,
            vector=None if decision.question.guessed else decision.vector,
            neighbours=tuple(decision.near),
            stages_s=decision.stages.seconds,
            bypassed=tuple(decision.stages.bypassed),
            choice=choice,
            helped=chosen.selection,
            proof=decision.proof,
            shadow=shadow(decision.proof, attempt("", ask, chosen.examples)),
            settings=_settings(decision, situation, choice),
            familiar=decision.counted,
        )

    def _by_bandit(self, decision: _Decision, situation: Situation, bandit: Bandit) -> Choice | None:
        try:
            return self._chooser.choose(situation, bandit, self._rng)
        except BanditError as error:
            decision.stages.bypassed.append(f"bandit:{type(error).__name__}")
            return None

    def _by_rule(
        self, decision: _Decision, situation: Situation, chosen: _ChosenExamples
    ) -> tuple[Choice, str]:
        """Few-shot distillation by novelty (LOGIC), with the examples that the scorer chose; the choice and its reason."""
        # Pairs that were merged into one example (store.examples.twins) still count as that many past answers.
        decision.counted = counts(self._familiar(decision))
        novel = sum(decision.counted.values()) < decision.knobs.m
        # The only example was dropped on purpose: how the engine does without it is what is to be learnt.
        dropped = chosen.selection is not None and chosen.selection.explored == "drop"
        helped = bool(chosen.examples) or dropped
        reason = "novel" if novel else "familiar" if helped else "no_example_helps"
        to_small = reason == "familiar"
        pick = Action(self._names[0], bool(chosen.examples)) if to_small else Action(self._names[-1], False)
        if situation.allowed is not None:
            reason = "proven"
            pick = next(iter(situation.allowed), Action(self._names[-1], False))
        weighed = self._chooser.choose(situation, None, self._rng)
        choice = choice_by_rule(
            weighed,
            pick,
            reference=self._names[-1],
            available=[_may_be_taken(each.action, situation, self._names[-1]) for each in weighed.weighed],
            down=[state.name for state in situation.engines if not state.healthy],
            least_probability=decision.knobs.least_probability if decision.may_explore else 0.0,
            offload_cap=situation.offload_cap,
            rng=self._rng,
        )
        return replace(choice, wanted=pick.engine != self._names[-1]), reason

    def _situation(
        self, decision: _Decision, chosen: _ChosenExamples, states: Sequence[EngineState]
    ) -> Situation:
        ask, knobs, examples = decision.ask, decision.knobs, chosen.examples
        similarities = [c.similarity for c in examples]
        preference = ask.preference
        if preference is None:
            preference = knobs.key_preferences.get(ask.key_id or "", knobs.preference)
        return Situation(
            request=Request(
                decision.question.text,
                turns=sum(m.get("role") in ("user", "assistant") for m in ask.chat.messages),
                prompt_tokens=tokens_needed(ask.chat),
                nearest=decision.near[0].similarity if decision.near else 0.0,
            ),
            engines=states,
            vector=decision.vector,
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
            may_explore=decision.may_explore,
            offload_cap=decision.models.offload_cap,
            allowed=self._allowed(decision.proof),
            max_loss=knobs.max_loss,
            prompt_tokens=prompt_tokens(ask.chat),
            near_lengths=NearLengths.of((c.similarity, c.example.completion_tokens) for c in decision.near),
            most_answer_tokens=most_answer_tokens(ask.chat),
            seconds=self._seconds(decision.proof),
            turn=ask.turn,
        )

    def _seconds(self, proof: Proof | None) -> dict[Action, float]:
        """Return each way's seconds in comparisons lately; none unless the reference's are known, too."""
        if proof is None or REFERENCE not in proof.seconds:
            return {}
        ways = {one.action: key(one.action) for one in proof.standings}
        ways[Action(self._names[-1], with_examples=False)] = REFERENCE
        return {action: proof.seconds[way] for action, way in ways.items() if way in proof.seconds}

    def _allowed(self, proof: Proof | None) -> tuple[Action, ...] | None:
        """The proven actions: none if the gate could not tell, and None if no proof is asked for."""
        if proof is not None:
            return proof.open_actions()
        return None if self._gate is None else ()

    def _attempts(self, taken: Action, decision: _Decision, chosen: _ChosenExamples) -> tuple[Attempt, ...]:
        """The chosen action, then the fallbacks: the reference first, then the others from large to small."""
        best = (
            attempt(taken.engine, decision.ask, chosen.examples)
            if taken.with_examples
            else Attempt(taken.engine)
        )
        others = [name for name in reversed(self._names) if name != taken.engine]
        reference = self._names[-1]
        return (
            best,
            *(
                Attempt(name) if name == reference else attempt(name, decision.ask, chosen.examples)
                for name in others
            ),
        )

    def _to_reference(
        self,
        reason: str,
        question: EmbeddedQuestion,
        bypassed: Sequence[str],
        decision: _Decision | None = None,
    ) -> Plan:
        return Plan(
            tuple(Attempt(name) for name in reversed(self._names)),
            self.name,
            "none",
            reason,
            embedded_text=question.digest.text,
            vector=None if question.guessed else question.vector,
            neighbours=tuple(decision.near) if decision else (),
            stages_s=decision.stages.seconds if decision else question.stages_s,
            bypassed=tuple(bypassed),
        )


def _settings(decision: _Decision, situation: Situation, choice: Choice) -> dict[str, float]:
    """See Plan.settings."""
    knobs, bandit = decision.knobs, decision.models.bandit
    own = decision.ask.preference is not None or decision.ask.key_id in knobs.key_preferences
    return {
        "theta": knobs.theta,
        "m": float(knobs.m),
        "max_examples": float(knobs.max_examples),
        "preference": situation.preference,
        "own_preference": float(own),
        "may_explore": float(situation.may_explore),
        "offload_cap": situation.offload_cap,
        "learned": float(bandit.learned if bandit is not None else 0),
        "picked": float(choice.picked),
        "by_proof": float(decision.proof is not None),
    }


def _may_be_taken(action: Action, situation: Situation, reference: str) -> bool:
    """Tell if an action needs no proof, or is proven, and suits the conversation."""
    if situation.turn is not None and action.engine in situation.turn.kept_out:
        return False
    return situation.allowed is None or action.engine == reference or action in situation.allowed
