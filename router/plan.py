"""The values of routing: the request as a policy sees it, the examples, the decision, and the policy's interface."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from engines.chat import ChatRequest
from engines.prediction import Prediction
from engines.run_call import RunCall
from router.proving.standing import Action as Action
from router.proving.standing import Proof
from router.tasks.task import Posed
from router.turns.turn import Turn
from store.records import Example, Vector

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Ask:
    """A request as a policy sees it."""

    chat: ChatRequest
    tenant: str
    max_examples: int | None = None
    """The client's own limit; 0 forbids examples."""
    key_id: str | None = None
    """The client's API key; exploration is budgeted per key."""
    preference: float | None = None
    """The client's preference, 0 (cheapest) to 1 (best quality); None: that of the key or the model."""
    forced: bool = False
    """True if the client named the engine; then nothing is explored."""
    named_scope: str | None = None
    """The client's own name for its instructions."""
    end_user: str = ""
    """The end user whose examples alone may be used, as a digest; empty: those that the tenant shares."""
    anonymous: bool = False
    """True if no credential came with it: then nothing remembered is used."""
    task: str | None = None
    """The client's own name for the task that it belongs to."""
    named_session: str | None = None
    """The client's own name for its conversation, where a header says it."""
    turn: Turn | None = None
    """Its place in its conversation, and what engines hold of it; None where nobody looked."""
    examples: tuple[Candidate, ...] = ()
    """Those that earlier turns of its conversation were sent with: what stays the same stays cached."""


# About twenty are made per scored request: nothing changes one, but frozen ones take three times as long to make.
@dataclass(slots=True)
class Candidate:
    """An example that might help, and how near its question is to the request."""

    example: Example
    similarity: float
    """Cosine, -1 to 1."""
    vector: Vector | None = None
    """Embedding of the example's question, if the retriever was asked for it."""
    answer_vector: Vector | None = None
    """Embedding of the example's answer, if known."""
    gain: float | None = None
    """Expected worth, 0 to 1: how far it holds what is needed (router.examples.scorer); None: not scored."""
    words: float = 0.0
    """BM25 of the two questions; 0: it was not found by words."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One engine to ask, and the messages to send; None sends those of the request unchanged."""

    engine: str
    messages: Sequence[Mapping[str, Any]] | None = None
    examples: tuple[Candidate, ...] = ()
    prediction: Prediction | None = None
    """The student's answer; only for the engine `student`."""
    call: RunCall | None = None
    """The call of a workflow's run; only for the engine `workflow`."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """An action with its probability and expected outcome. Holds nothing known only afterwards: other policies are
    evaluated with it."""

    action: Action
    probability: float
    """Probability that it was taken."""
    probability_without_load: float
    """Probability that it would have been taken had every engine been idle."""
    quality: float
    """Expected quality, 0 to 1."""
    cost_usd: float
    """Expected cost."""
    latency_s: float
    """Expected time to the last token, at the present load."""
    reward: float
    """Expected reward (router.choosing.reward), load bias included."""
    features: Mapping[str, float]
    """Action features by name (router.choosing.features)."""
    deviation: float = 0.0
    """Standard deviation of the expected quality."""
    sure: float = 0.0
    """Expected quality, less what is not known of it (router.choosing.bandit.Estimate.surely)."""
    allowed: bool = True
    """True if it could be taken: its engine was healthy, and proven if a proof is asked for."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The actions that were weighed and the one that was drawn; logged with the decision (store.decisions.choices)."""

    weighed: tuple[Weighed, ...]
    chosen: int
    """Index into `weighed` of the action that was drawn."""
    chosen_without_load: int
    """Index of the action that the same draw gives when every engine is idle."""
    features_version: str
    context: Mapping[str, float]
    """Features of the request, its examples and the preference, by name."""
    explored: bool
    """True if another action than the best was drawn, to learn from it."""
    floored: bool = False
    """True if the quality floor moved the request to the reference."""
    picked: int = -1
    """Index of the action that the rule picked, before exploration and the quality floor; -1 if a bandit decided."""
    instead_of: str = ""
    """The engine that the same draw would have given had it not been down; empty if nothing else was drawn for that."""
    wanted: bool = False
    """True if another engine than the reference were the best, had the turn stood alone: nothing cached, nothing ahead."""


@dataclass(frozen=True, slots=True)
class ExampleSelection:
    """The selection of examples: logged with the decision, so that their helpfulness can be learnt."""

    scorer: str
    """Version of the scorer; "prior" before any training, "" when it was bypassed."""
    features_version: str
    considered: tuple[Candidate, ...]
    """Scored candidates, best first."""
    features: npt.NDArray[np.float32] | None
    """Features of `considered`, [candidates, router.examples.features.NAMES]."""
    quality_alone: float
    """Expected quality of the small engine without examples, 0 to 1."""
    quality_with: float
    """Expected quality of the small engine with the chosen examples, 0 to 1."""
    most: int
    """Largest number of examples allowed: 0, 1, 2, 3, 5 or 8."""
    explored: str = ""
    """"drop", "swap" or "count" where the selection was changed to learn from it; else ""."""
    probability: float = 1.0
    """Probability of the set that was sent, given that examples were sent at all."""
    left_out: Mapping[int, str] = field(default_factory=dict)
    """Why each other candidate was not chosen, by the example's id: router.examples.combiner.LeftOut."""


SHADOW, PROOF_TOO_DEAR, STUDENT_FAILED = "shadow", "proof_too_dear", "student_failed"
"""Reasons: no smaller engine is proven yet; ... and proving one would cost more than it can save; the task's student had no
answer after all."""
AGREED, DISAGREED = "agreed", "disagreed"
"""Reasons where a cascade was to answer: its small engines gave the same answer; they did not, and who is next answers."""
STAYS, TOOL_LOOP = "stays", "tool_loop"
"""Reasons: to change the engine would cost more than the rest of the conversation is expected to save; a tool's result goes
to the engine that called the tool."""
NO_EMBEDDING, LATE, POLICY_FAILED = "no_embedding", "late", "policy_failed"
"""Reasons of requests that went on without their decision: there was no embedding in time; all after it took too long; the
policy failed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A decision: the first attempt is the choice; the others are tried if an engine fails before its first chunk."""

    attempts: tuple[Attempt, ...]
    policy: str
    policy_version: str
    reason: str
    """Why this engine: a short code, stable across versions."""
    probability: float = 1.0
    """Probability of this choice, as off-policy evaluation needs it."""
    embedded_text: str = ""
    vector: Vector | None = None
    """The request's embedding, if it was ready in time."""
    neighbours: tuple[Candidate, ...] = ()
    """Nearest candidates, best first, chosen or not."""
    stages_s: dict[str, float] = field(default_factory=dict)
    """Seconds by stage of the decision."""
    bypassed: tuple[str, ...] = ()
    """Stages that were skipped because they were late or broken, as "stage:error"."""
    choice: Choice | None = None
    """None for a policy that weighs no actions."""
    helped: ExampleSelection | None = None
    """None for a policy that scores no examples."""
    proof: Proof | None = None
    """The proof of the smaller engines here; None if no proof is asked for."""
    shadow: tuple[Attempt, ...] = ()
    """The ways in which a comparison in the background asks smaller engines, without and with examples."""
    found: Attempt | None = None
    """A smaller engine with the examples found, drawn for a comparison or not: what people say of the answer tells of it."""
    posed: Posed | None = None
    """The task that the request belongs to, and its input; None if it belongs to none."""
    prediction: Prediction | None = None
    """The prediction of the task's student, whoever answers; None if there is no student, or it may not tell."""
    checked: int = 0
    """Why what the teacher says is a fair comparison with the student (store.records.TaskAnswer.checked)."""
    settings: Mapping[str, float] = field(default_factory=dict)
    """The routing settings in force for this request and what else the draw depended on, by name
    (store.records.ChoiceRecord.settings)."""
    familiar: Mapping[int, int] = field(default_factory=dict)
    """The past answers that counted as near, by the example's id: how many each stands for."""
    turn: Turn | None = None
    """See Ask."""
    late: asyncio.Task[Plan] | None = None
    """Comes to what would have been decided with more time, where the decision was late for its client."""

    def without_small(self) -> Plan:
        """The same where the small engine that was to answer had no answer, and the reference's is served: there is nothing
        to compare, and nothing is to be learnt of the draw."""
        proof = self.proof
        if proof is not None:
            proof.take_back()
            proof = replace(proof, share=0.0, wished=(), noted={})
        return replace(self, proof=proof, shadow=(), choice=None)

    def with_late(self) -> Plan:
        """The same answer to the client, with what was found since for comparisons. What is still going on is ended."""
        late = self.late
        if late is None:
            return self
        plan = replace(self, late=None)
        if not late.done():
            late.cancel()
            return plan
        if late.cancelled() or late.exception() is not None or self.reason not in _LATE:
            return plan
        found, may_be_asked = late.result(), {attempt.engine for attempt in self.attempts}
        return replace(
            plan,
            **{name: getattr(found, name) for name in _FOUND_LATE},
            shadow=tuple(way for way in found.shadow if way.engine in may_be_asked),
        )


WITHOUT_DECISION = frozenset({NO_EMBEDDING, LATE, "no_neighbours_known", "undecided", POLICY_FAILED})
"""Reasons of requests that went on without their decision."""
_LATE = WITHOUT_DECISION - {POLICY_FAILED}
"""Reasons of late decisions. Where another one stands, as for an engine that the client named, nothing is compared."""
_FOUND_LATE = ("embedded_text", "vector", "neighbours", "proof", "found", "settings", "familiar")


class Policy(Protocol):
    """Decides which engine answers a request, and with which examples."""

    @property
    def name(self) -> str: ...

    async def decide(self, ask: Ask) -> Plan:
        """Returns a plan and never raises: a stage that is late or broken is skipped and named in Plan.bypassed."""
        ...
