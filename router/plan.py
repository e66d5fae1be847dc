"""The nouns of deciding: what is asked, what could be sent along, and what was decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engines.chat import ChatRequest
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
    """The key it came by: exploration is budgeted per key."""
    preference: float | None = None
    """The client's dial, 0 (cheapest) to 1 (best); None: the key's, or the model's."""
    forced: bool = False
    """The client named its engine: nothing is explored."""


# Twenty are made for every request that is scored: nobody writes to one, but frozen ones take three times as long to make.
@dataclass(slots=True)
class Candidate:
    """An example that might help, and how near its question is."""

    example: Example
    similarity: float
    """Cosine, -1 to 1."""
    vector: Vector | None = None
    """Of the example's question, where the scorer asked for it."""
    answer_vector: Vector | None = None
    """Of the example's answer, where it is known."""
    gain: float | None = None
    """By how much it is expected to raise the small engine's quality here, -1 to 1; None: not scored."""
    effect: tuple[float, float] | None = None
    """Shares, 0 to 1, of what goes wrong without it that it mends and of what goes right that it spoils, where the scorer
    tells them apart; None: `gain` is all that is known."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One engine to ask, and what to ask it. None for `messages` sends the request as it came."""

    engine: str
    messages: Sequence[Mapping[str, Any]] | None = None
    examples: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class Action:
    """One way to answer: an engine, with the chosen examples or without any."""

    engine: str
    with_examples: bool


@dataclass(frozen=True, slots=True)
class Weighed:
    """An action as it was weighed. What any other policy is evaluated with, so nothing here may be known only afterwards."""

    action: Action
    probability: float
    """With which it was taken, everything considered."""
    probability_without_load: float
    """The same, had every engine been idle."""
    quality: float
    """Expected, 0 to 1."""
    cost_usd: float
    """Expected."""
    latency_s: float
    """Expected to the last token, at the present load."""
    reward: float
    """Expected, by router.choosing.reward, load included."""
    features: Mapping[str, float]
    """Action-dependent features by name (router.choosing.features)."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the router weighed when it chose an engine: kept with the decision (store.decisions.choices)."""

    weighed: tuple[Weighed, ...]
    chosen: int
    """Index into `weighed`: what was drawn."""
    chosen_without_load: int
    """What the same draw gives when every engine is idle."""
    features_version: str
    context: Mapping[str, float]
    """Features of the request, its examples and the dials, by name."""
    explored: bool
    """Whether another action than the best was drawn for learning's sake."""
    floored: bool = False
    """Whether the quality floor sent it to the reference."""


@dataclass(frozen=True, slots=True)
class Helped:
    """How the examples were chosen: kept with the decision, so that their helpfulness can be learnt."""

    scorer: str
    """Version of the scorer; "prior" before any training, "" when it was bypassed."""
    features_version: str
    considered: tuple[Candidate, ...]
    """Scored candidates, best first."""
    features: npt.NDArray[np.float32] | None
    """Scalars of `considered`, [candidates, router.examples.features.NAMES]."""
    quality_alone: float
    """Expected quality of the small engine without examples, 0 to 1."""
    quality_with: float
    """Expected with the chosen ones."""
    most: int
    """The cap on their number that was in force: 0, 1, 2, 3, 5 or 8."""
    explored: str = ""
    """"drop", "swap" or "count" where the choice was changed to learn from it; else ""."""
    probability: float = 1.0
    """Of what was sent, given that examples were sent at all."""
    left_out: Mapping[int, str] = field(default_factory=dict)
    """Why candidates were not chosen, by the example's id: router.examples.combiner.LeftOut."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A decision. Its first attempt is what was chosen; the others stand in should an engine fail before its first chunk."""

    attempts: tuple[Attempt, ...]
    policy: str
    policy_version: str
    reason: str
    """A short code, stable across versions: why this engine."""
    probability: float = 1.0
    """With which this choice was made; what off-policy evaluation needs."""
    embedded_text: str = ""
    vector: Vector | None = None
    """The request's embedding, when there was time for one."""
    neighbours: tuple[Candidate, ...] = ()
    """Nearest candidates, best first, chosen or not."""
    stages_s: dict[str, float] = field(default_factory=dict)
    """Seconds by stage of deciding."""
    bypassed: tuple[str, ...] = ()
    """Stages that were late or broken and were gone without."""
    choice: Choice | None = None
    """Of a policy that weighs; None for one that follows a rule."""
    helped: Helped | None = None
    """Of a policy that scores examples."""
