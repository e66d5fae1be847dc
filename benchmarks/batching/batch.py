"""How an inference engine batches: a pure model of its steps, without a clock and without I/O.

One step of the engine gives each decoding request its next token and computes some prompt tokens:

    step time = a + b x (tokens in key-value memory of the requests in the step) + c x (prompt tokens computed in it)

Continuous batching with chunked prefill, as in vLLM: decoding comes first, then prompts are computed up to
`chunk_tokens` per step, requests that wait are let in by (priority, arrival) while memory lasts, and the last of them
is put back, to be computed again, where memory runs out. Prefixes are shared by benchmarks.batching.kv_blocks. Not modelled:
networks between GPUs, kernels that read a shared prefix once for many requests, speculative decoding, and sharing of
what was generated.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.batching.kv_blocks import BLOCK_TOKENS, KvBlocks

_MAX_STRETCH = 100_000
_SPARE = 0.01
"""Share of the memory that stays free when a request is let in beside others, as vLLM's watermark."""


@dataclass(frozen=True, slots=True)
class Speed:
    """The constants of a model on a GPU."""

    step_s: float
    """a: reading the weights once."""
    kv_token_s: float
    """b: reading one token's keys and values."""
    prefill_token_s: float
    """c: computing one token of a prompt."""
    kv_tokens: int
    """How many tokens its key-value memory holds."""


ENGINE_OF_2024 = Speed(step_s=0.027, kv_token_s=0.55e-6, prefill_token_s=160e-6, kv_tokens=61_000)
"""LLaMA 13B on an A100 80 GB, as in Parrot's experiments: 26 GB of weights and 0.82 MB per token of keys and values at
1.5 TB/s; 26 GFLOP per token at half of 312 TFLOP/s; 50 GB for keys and values."""
ENGINE_OF_TODAY = Speed(step_s=0.008, kv_token_s=0.045e-6, prefill_token_s=35e-6, kv_tokens=420_000)
"""Llama 3.1 8B on an H100 80 GB: 16 GB of weights and 0.13 MB per token at 3 TB/s, and as long again for launching kernels;
16 GFLOP per token at half of 990 TFLOP/s; 55 GB for keys and values. Reckoned from data sheets, not measured."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How an engine is run."""

    prefix_cache: bool = True
    cap_tokens: int | None = None
    """At most so many tokens (prompts with their longest answers) of requests that run; one request always may."""
    chunk_tokens: int = 2048
    """At most so many prompt tokens per step."""
    max_running: int = 256
    priorities: bool = False
    """Whether a request's own priority counts, the lowest first; otherwise they come in order of arrival."""


@dataclass(slots=True, eq=False)
class Generation:
    """One request in an engine. Counts are in tokens."""

    hashes: Sequence[int]
    """Of its prompt's whole blocks (benchmarks.batching.kv_blocks.block_hashes)."""
    prompt: int
    answer: int
    """How long its answer will be; at least 1."""
    priority: int = 0
    marks: Sequence[int] = ()
    """Tokens of its answer at which it is news too, ascending: where somebody reads it as it comes."""
    produced: int = 0
    cached: int = 0
    """Of its prompt, found in the prefix cache when it was let in first."""
    preempted: int = 0
    _order: int = 0
    _computed: int = 0
    _to_compute: int = 0
    _held: list[int] = field(default_factory=list)
    _learnt: int = 0
    _plain: int = 0

    @property
    def decoding(self) -> bool:
        """Whether all of its prompt is computed."""
        return self._computed >= self._to_compute

    @property
    def tokens(self) -> int:
        """What it holds at its end."""
        return self.prompt + self.answer

    @property
    def left(self) -> int:
        """Tokens that are still to come."""
        return self.answer - self.produced

    @property
    def until_news(self) -> int:
        """Tokens until it is news: at its next mark, or its end."""
        place = bisect_right(self.marks, self.produced)
        return (self.marks[place] if place < len(self.marks) else self.answer) - self.produced


@dataclass(frozen=True, slots=True)
class Stretch:
    """So many steps that are alike but for what decoding adds: the batch changes at their end only."""

    steps: int
    first_s: float
    """How long the first takes."""
    growth_s: float
    """By how much each takes longer than the one before."""

    def seconds(self, steps: int | None = None) -> float:
        """How long the first so many take; all of them without a number."""
        n = self.steps if steps is None else steps
        return n * self.first_s + self.growth_s * n * (n - 1) / 2

    def steps_begun(self, after_s: float) -> int:
        """How many have begun after so long, at least one."""
        low, high = 1, self.steps
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.seconds(middle) < after_s else (low, middle)
        return low


class Batch:
    """The requests of one engine. Call `begin` for what it does next, and `end` when that is done."""

    def __init__(self, speed: Speed, rules: Rules) -> None:
        self._speed = speed
        self._rules = rules
        self._blocks = KvBlocks(speed.kv_tokens // BLOCK_TOKENS, shares=rules.prefix_cache)
        self._waiting: list[Generation] = []
        self._running: list[Generation] = []
        self._chunks: list[tuple[Generation, int]] = []
        self._arrivals = 0
        self.preemptions = 0

    @property
    def running(self) -> int:
        """Requests that are computed."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests that wait to be let in."""
        return len(self._waiting)

    @property
    def kv_use(self) -> float:
        """Share of the key-value memory that is held."""
        return self._blocks.use

    @property
    def tokens_in_flight(self) -> int:
        """Of the requests that run, with their longest answers."""
        return sum(one.tokens for one in self._running)

    def add(self, one: Generation) -> None:
        """A request comes. Raises ValueError where it could never be let in."""
        room = self._speed.kv_tokens // BLOCK_TOKENS * BLOCK_TOKENS
        if one.tokens + 1 > room or one.answer < 1:
            raise ValueError(f"{one.prompt} tokens and an answer of {one.answer} do not fit in {room}")
        self._arrivals += 1
        one._order = self._arrivals
        self._queue(one)

    def remove(self, one: Generation) -> None:
        """Its client left, or it is done."""
        if one in self._running:
            self._free(one)
        elif one in self._waiting:
            self._waiting.remove(one)

    def begin(self) -> Stretch | None:
        """Let in what fits, and say how long the next steps take; None where there is nothing to do."""
        makes_room = self._make_room()
        chunks = list(self._schedule(lets_in=not makes_room))
        decoding = [one for one in self._running if one.decoding]
        self._chunks = chunks
        if not chunks and not decoding:
            return None
        prefill = sum(tokens for _, tokens in chunks)
        kv = sum(one._computed for one in self._running)
        speed = self._speed
        first_s = speed.step_s + speed.kv_token_s * kv + speed.prefill_token_s * prefill
        if chunks:
            return Stretch(1, first_s, 0.0)
        return Stretch(self._steps_alike(decoding), first_s, speed.kv_token_s * len(decoding))

    def end(self, steps: int) -> list[Generation]:
        """So many steps of the stretch are over. Returns those who got their first token, a marked one or their last."""
        news = []
        for one in self._running:
            if one.decoding:
                news += self._decode(one, steps)
        for one, tokens in self._chunks:
            if one in self._running:
                one._computed += tokens
                if one.decoding:
                    news += self._decode(one, 1, grows=False)
        self._chunks = []
        for one in news:
            if not one.left:
                self._free(one)
        return news

    # ---- letting in

    def _schedule(self, *, lets_in: bool) -> Iterator[tuple[Generation, int]]:
        """The prompt tokens of the next step, of those who run and then of those who are let in."""
        budget = self._rules.chunk_tokens
        for one in self._running:
            if not one.decoding and budget > 0:
                tokens = min(budget, one._to_compute - one._computed)
                budget -= tokens
                self._learn(one, one._computed + tokens)
                yield one, tokens
        while lets_in and budget > 0 and self._waiting and self._lets_in(self._waiting[0]):
            one = self._waiting.pop(0)
            self._running.append(one)
            tokens = min(budget, one._to_compute - one._computed)
            budget -= tokens
            self._learn(one, one._computed + tokens)
            yield one, tokens

    def _lets_in(self, one: Generation) -> bool:
        """Whether it runs from now on; then it holds the blocks of its prompt."""
        rules, blocks = self._rules, self._blocks
        if len(self._running) >= rules.max_running:
            return False
        cap = rules.cap_tokens
        if cap is not None and self._running and self.tokens_in_flight + one.tokens > cap:
            return False
        context = one.prompt + one.produced
        # The last token of a prompt is computed in any case.
        known = list(one.hashes[: min(blocks.known(one.hashes), (context - 1) // BLOCK_TOKENS)])
        needed = -(-(context + 1) // BLOCK_TOKENS) - len(known)
        spare = sum(self._more_blocks(other, 1) for other in self._running if other.decoding)
        spare += int(_SPARE * self._speed.kv_tokens / BLOCK_TOKENS) if self._running else 0
        if needed + spare > blocks.available - blocks.idle_of(known):
            return False
        blocks.hold(known)
        blocks.take(needed)
        one._held, one._plain, one._learnt = known, needed, len(known)
        one._computed, one._to_compute = len(known) * BLOCK_TOKENS, context
        if not one.preempted:
            one.cached = one._computed
        return True

    def _learn(self, one: Generation, computed: int) -> None:
        """Blocks that this step computes can be found from the next request on, as in vLLM also within the step."""
        until = min(computed // BLOCK_TOKENS, len(one.hashes))
        for place in range(one._learnt, until):
            if self._blocks.learn(one.hashes[place]):
                one._held.append(one.hashes[place])
                one._plain -= 1
        one._learnt = max(one._learnt, until)

    # ---- decoding

    def _decode(self, one: Generation, steps: int, *, grows: bool = True) -> list[Generation]:
        """Whether it is news: the first token, one that is marked, or the last."""
        news = one.produced == 0 or steps >= one.until_news
        one.produced += steps
        if grows:
            self._grow(one, steps)
        return [one] if news else []

    def _grow(self, one: Generation, steps: int) -> None:
        """Its newest tokens are in memory, and there is a place for the next."""
        more = self._more_blocks(one, steps)
        one._computed += steps
        one._to_compute = one._computed
        self._blocks.take(more)
        one._plain += more

    def _more_blocks(self, one: Generation, steps: int) -> int:
        held = len(one._held) + one._plain
        return max(0, -(-(one._computed + 1 + steps) // BLOCK_TOKENS) - held) if one.left > steps else 0

    def _steps_alike(self, decoding: Sequence[Generation]) -> int:
        steps = min(_MAX_STRETCH, min(one.until_news for one in decoding))
        while steps > 1 and sum(self._more_blocks(one, steps) for one in decoding) > self._blocks.available:
            steps //= 2
        return steps

    def _make_room(self) -> bool:
        """Put the last back until the next step's blocks fit; whether that was needed."""
        before = self.preemptions
        while len(self._running) > 1:
            decoding = [one for one in self._running if one.decoding]
            if sum(self._more_blocks(one, 1) for one in decoding) <= self._blocks.available:
                break
            last = max(self._running, key=self._rank)
            self._free(last)
            last.preempted += 1
            self.preemptions += 1
            self._queue(last)
        return self.preemptions > before

    def _queue(self, one: Generation) -> None:
        insort(self._waiting, one, key=self._rank)

    def _rank(self, one: Generation) -> tuple[int, int]:
        return (one.priority if self._rules.priorities else 0, one._order)

    def _free(self, one: Generation) -> None:
        self._running.remove(one)
        self._blocks.release(one._held, one._plain)
        one._held, one._plain, one._learnt = [], 0, 0
