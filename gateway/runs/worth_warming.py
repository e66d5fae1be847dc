"""Whether a known prefix of a prompt is computed before the rest of the prompt is known: pure, told all figures.

It has to be certain that the prefix is the one that will be asked, at the engine that will be asked, and that nobody waits
for it: what is computed in vain is paid all the same. Times are estimates of what was measured lately.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from cachetools import LRUCache

from engines.engine import EngineLoad
from workflows.definition import Definition

Verdict = Literal["warm", "refused", "uncertain", "hosted", "short", "cached", "soon", "busy"]
"""`warm`: compute it. Otherwise why not: the step says so; who will answer, or with which prompt, is not certain; the engine
is another's, who charges for it; it is too short; it is cached; the rest is known sooner; the engine has no room."""

UNKNOWN_TOKENS_PER_S = 2000.0
"""How fast a prompt is computed where nothing was measured: less than GPUs do with models of 7 billion parameters."""
_STEPS = 4096
_WEIGHT = 0.2
_CHAT_S = 1.0
_OTHER_S = 0.02
"""What a step takes of which nothing is known: an answer of a model, or anything else."""
_ROOM = 0.8
"""Of its key-value cache and of its places: above that an engine is left to those who wait."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one prefix."""

    wanted: bool | None
    """What the step says (`warm`); None: nothing, which is the same as true."""
    certain: bool
    """It is known which engine will be asked, and that no examples will be put into the prompt."""
    hosted: bool
    """Somebody else runs that engine, for whom a prompt that is computed twice is paid twice."""
    prefix_tokens: int
    cached_tokens: int
    """Of it, what the engine is believed to have in its cache."""
    missing_s: float
    """Until the rest of the prompt is known."""
    prefill_s: float
    """That computing what is not cached takes."""
    room: bool


def worth_warming(facts: Facts, min_tokens: int) -> Verdict:
    """Whether to compute the prefix now."""
    if facts.wanted is False:
        return "refused"
    if not facts.certain:
        return "uncertain"
    if facts.hosted:
        return "hosted"
    if facts.prefix_tokens < min_tokens:
        return "short"
    if facts.prefix_tokens - facts.cached_tokens < min_tokens:
        return "cached"
    if facts.missing_s <= facts.prefill_s:
        return "soon"
    return "warm" if facts.room else "busy"


def has_room(load: EngineLoad, coming: int = 0) -> bool:
    """Whether an engine can take a request that nobody waits for. `coming`: such requests that it is about to get."""
    if not load.open or load.queued:
        return False
    if load.kv_use is not None and load.kv_use > _ROOM:
        return False
    return load.capacity is None or load.in_flight + coming < max(1.0, _ROOM * load.capacity)


class PrefillPace:
    """How fast engines compute prompts, as it was seen."""

    def __init__(self) -> None:
        self._tokens_per_s: dict[str, float] = {}

    def took(self, engine: str, tokens: int, seconds: float) -> None:
        """So many tokens, of which none was cached, and one of an answer were computed in so long."""
        if tokens > 0 and seconds > 0:
            known = self._tokens_per_s.get(engine)
            rate = tokens / seconds
            self._tokens_per_s[engine] = rate if known is None else known + _WEIGHT * (rate - known)

    def seconds(self, engine: str, tokens: int) -> float:
        """What so many tokens take."""
        return tokens / self._tokens_per_s.get(engine, UNKNOWN_TOKENS_PER_S)


@dataclass(slots=True)
class _Took:
    whole_s: float
    each_s: float


class StepTimes:
    """How long the steps of workflows take, as was seen of their versions."""

    def __init__(self) -> None:
        self._took: LRUCache[tuple[str, str], _Took] = LRUCache(_STEPS)

    def took(self, version: str, step: str, whole_s: float, each_s: float) -> None:
        """A step took so long from when it was ready, and each of its turns or items so long."""
        known = self._took.get((version, step))
        if known is None:
            self._took[version, step] = _Took(whole_s, each_s)
        else:
            known.whole_s += _WEIGHT * (whole_s - known.whole_s)
            known.each_s += _WEIGHT * (each_s - known.each_s)

    def whole_s(self, definition: Definition, step: str) -> float:
        """Expected of a whole step."""
        known = self._took.get((definition.version, step))
        return _guessed_s(definition, step) if known is None else known.whole_s

    def each_s(self, definition: Definition, step: str) -> float:
        """Expected of one of its items."""
        known = self._took.get((definition.version, step))
        return _guessed_s(definition, step) if known is None else known.each_s

    def until(
        self,
        definition: Definition,
        step: str,
        ended: Callable[[str], bool],
        since_s: Mapping[str, float],
    ) -> float:
        """Seconds until a step has its value. `since_s`: how long those that have begun have been under way."""
        left: dict[str, float] = {}
        waiting = [step]
        while waiting:
            at = waiting[-1]
            before = [] if at in since_s else [name for name in _before(definition, at) if not ended(name)]
            unknown = [name for name in before if name not in left]
            if unknown:
                waiting += unknown
                continue
            waiting.pop()
            if ended(at):
                left[at] = 0.0
                continue
            own = max(0.0, self.whole_s(definition, at) - since_s.get(at, 0.0))
            left[at] = own + max((left[name] for name in before), default=0.0)
        return left[step]


def _before(definition: Definition, step: str) -> tuple[str, ...]:
    before = definition.before(step)
    if definition.chained:
        steps = list(definition.steps)
        before += tuple(steps[max(0, steps.index(step) - 1) : steps.index(step)])
    return before


def _guessed_s(definition: Definition, step: str) -> float:
    spec = definition.steps[step]
    return _CHAT_S if spec.messages or spec.kind in ("chat", "fold") else _OTHER_S
