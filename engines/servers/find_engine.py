"""A step goes to the server that costs least: its wait, the prompt that is not cached there, and the harm to others.

All costs are told in the time that one prompt token takes to be computed. What decoding costs in it is a property of GPUs
more than of models: weights are read once for a step of all requests, and a token's keys and values once for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from engines.placement import Rank
from engines.servers.caps import Held

STEP = 200.0
"""One decoding step: the operations a GPU does while it reads a byte (100 to 300, H100 and A100 data sheets) by the two
operations and two bytes of a parameter."""
KV_TOKEN = 0.002
"""One token of keys and values in a step: by the same sheets 0.0013 (Llama 3.1 8B) to 0.0034 (LLaMA 13B)."""
_OWN = (1.0, 0.2, 0.1)
"""What its own delay matters to a step, by class: of a group only the last to end matters, in bulk work hardly any."""
_OTHERS = (1.0, 0.05, 0.01)
"""What the same delay of another request matters: the many of a group that are delayed together are delayed once."""
_BOUND = 1.25
_BOUND_STEPS = 4
"""A cold prefix goes to its home unless that holds so many times the mean (Mirrokni et al., "Consistent Hashing with Bounded
Loads", SODA 2018), and so many of its kind above that."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step is to be placed. Its tokens are estimates."""

    rank: Rank
    prompt_tokens: int
    answer_tokens: int

    @property
    def tokens(self) -> int:
        """It holds so many at its end."""
        return self.prompt_tokens + self.answer_tokens


@dataclass(frozen=True, slots=True)
class Candidate:
    """A replica that may be asked."""

    name: str
    held: Held
    cached_tokens: int
    """Of the step's prompt, believed to be in its cache."""
    full: bool = False
    """No place is free there, whatever the caps."""
    queued: int = 0
    """Requests that wait inside the server."""
    weight: float = 1.0
    """How fast it is beside the others."""


def find_engine(
    step: Step, candidates: Sequence[Candidate], home: Callable[[Mapping[str, float]], str] | None = None
) -> Candidate:
    """The candidate that costs the least; of equals the one with the fewest tokens, and then the first.

    `home`: where a prefix hashes to, of replicas with these weights; None where there is none worth it. A prefix that no
    candidate holds counts as held there, so that workers which do not talk send it to the same place.
    """
    cold = home is not None and not any(one.cached_tokens for one in candidates)
    at = _bounded_home(step, home, candidates) if home is not None and cold else ""

    def key(one: Candidate) -> tuple[float, int]:
        cached = step.prompt_tokens if one.name == at else one.cached_tokens
        return cost(step, one, cached), one.held.tokens

    return min(candidates, key=key)


def cost(step: Step, one: Candidate, cached_tokens: int) -> float:
    """The step costs at a replica its own delay and that of the others there, each by what a delay matters to its class."""
    to_compute = max(0, step.prompt_tokens - cached_tokens)
    decoding = step.answer_tokens * _step_cost(one.held.tokens + step.tokens)
    own = _wait(step, one) + to_compute + decoding
    return (_OWN[step.rank] * own + _harm(step, one.held, to_compute)) / (one.weight or 1.0)


def _step_cost(kv_tokens: float) -> float:
    return STEP + KV_TOKEN * kv_tokens


def _wait(step: Step, one: Candidate) -> float:
    """Until what came before it is computed, and enough of those under way have ended; they take as long as it will."""
    held = one.held
    ends = step.answer_tokens * _step_cost(held.tokens)
    wait = held.to_compute_tokens + one.queued / max(1, held.requests) * ends
    share = 1 / max(1, held.requests) if one.full else 0.0
    if not held.fits(step.rank, step.tokens):
        share = max(share, min(1.0, held.excess(step.rank, step.tokens) / max(1, held.tokens)))
    return wait + share * ends


def _harm(step: Step, held: Held, to_compute: int) -> float:
    """Others stand still while its prompt is computed, and decode slower beside it; and it may keep some out."""
    slower = KV_TOKEN * step.tokens * step.answer_tokens / 2
    matters = sum(cares * there for cares, there in zip(_OTHERS, held.requests_of, strict=True))
    return matters * (to_compute + slower) + _keeps_out(step, held)


def _keeps_out(step: Step, held: Held) -> float:
    """Under the lower cap that it brings, a place is hardly of use to groups for as long as it decodes.

    Beside others of class latency it may be the last of them to end, and is so the less often the more they are: so they
    gather at few places, and the places with few become free of them.
    """
    if step.rank is not Rank.LATENCY or held.caps.latency_tokens is None:
        return 0.0
    return step.answer_tokens * STEP / (1 + held.latency)


def _bounded_home(
    step: Step, home: Callable[[Mapping[str, float]], str], candidates: Sequence[Candidate]
) -> str:
    """A cold prefix goes to its home, or the next one where that holds too much already."""
    bound = _BOUND * sum(one.held.tokens for one in candidates) / len(candidates) + _BOUND_STEPS * step.tokens
    return home({one.name: one.weight or 1.0 for one in candidates if one.held.tokens <= bound})
