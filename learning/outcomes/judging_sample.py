"""Which finished requests may be judged, and what else to ask for comparison. Pure functions; no engine is asked here."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engines.answers.answer import Assembled, Body
from engines.chat import ChatRequest
from engines.codecs.table import codec_of
from learning.outcomes.account import Unit
from router.asked import Asked
from router.digest import carries_tools, is_plain_text, only_text
from router.finished import Finished
from router.plan import Action, Attempt, Plan
from router.proving.gate import coin
from router.proving.standing import Proof

AGAIN_SHARE = 0.05
"""The share of the comparisons that a proof wishes for in which the reference is asked once more."""
_NEVER_WITH = ("audio", "web_search_options")
_ENDED_BY_ITSELF = ("stop", "length")
_ENDED_IN_CALLS = ("stop", "tool_calls", "function_call")
_NOT_ASKED_AGAIN = frozenset(
    {"stream", "stream_options", "store", "metadata", "user", "safety_identifier", "service_tier"}
)
"""Fields of a request that are about its delivery, its keeping or its person, not about what to say."""


@dataclass(frozen=True, slots=True)
class Told:
    """A person's word on the served answer."""

    score: float
    """0 to 1."""
    correction: str = ""
    """The answer as it should have been; empty if none was given."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A request that is to be judged. It holds content: in memory only, and not for long."""

    asked: Asked
    body: Body
    """The served answer's."""
    served: Attempt
    reference: str
    """The engine whose answer is the standard. It gave the served answer if `served.engine` is it."""
    others: tuple[tuple[Attempt, float], ...]
    """The further ways to ask for comparison, the reference apart; each with its probability."""
    probability: float
    """With which this request was sampled, given which engine served it."""
    latency_s: float
    """From asking the engine to the end of its answer."""
    near: tuple[str, ...] = ()
    """Answers to similar requests."""
    unit: Unit = "usd"
    """The unit in which its cost is counted."""
    scope: str = ""
    """The scope of the proof that wished for it; empty if none did."""
    of_task: bool = False
    """True if the request belongs to a task: what the reference says to it is a label."""
    told: Told | None = None
    """A person's word on the served answer, if that is why it is compared."""
    again: bool = False
    """True if the reference, which gave the served answer, is asked once more, to learn how often it agrees with itself."""

    @property
    def request_id(self) -> str:
        """The request's id."""
        return self.asked.arrival.id

    @property
    def tenant(self) -> str:
        """The tenant whose request it is."""
        return self.asked.arrival.tenant

    @property
    def size_bytes(self) -> int:
        """Count the bytes it keeps in memory, roughly: the request's body and the answer's, as they came."""
        return _size_bytes(self.asked, self.body)

    @property
    def by_reference(self) -> bool:
        """Tell if the reference gave the served answer."""
        return self.served.engine == self.reference

    @property
    def to_ask(self) -> list[tuple[Attempt, float]]:
        """All ways of answering to be asked, each with the probability of that."""
        reference = (
            [(Attempt(self.reference), self.probability)] if self.again or not self.by_reference else []
        )
        return [*reference, *self.others]


def why_not(
    finished: Finished, engines: Sequence[str], opted_out_keys: Collection[str], *, max_bytes: int
) -> str | None:
    """Why a finished request must not, or cannot, be judged; None if it may. `engines` of its model, small to large."""
    attempt, body = finished.attempt, finished.body
    if finished.hit is not None or attempt is None:
        return "no_engine"
    if len(engines) < 2 or attempt.engine not in engines:
        return "nothing_to_compare"
    if finished.asked.controls.no_store:
        return "opted_out"
    if finished.arrival.key_id is not None and finished.arrival.key_id in opted_out_keys:
        return "opted_out_key"
    if finished.asked.chat.state:
        # No other engine could be asked the same.
        return "stateful"
    if not finished.complete or finished.status != 200:
        return "incomplete"
    if finished.failed_over is not None:
        # The router did not choose who answered: nothing is learnt of its choice.
        return "failed_over"
    if finished.carried_on_by:
        # Several engines gave it: a judgement of it would be of none of them.
        return "continued"
    if not body.chunks or _size_bytes(finished.asked, body) > max_bytes:
        return "too_large"
    if attempt.engine == engines[-1] and attempt.examples:
        # The standard is the reference's answer to the request as it came, and this is none.
        return "nothing_to_compare"
    routed = finished.plan is not None and finished.plan.proof is not None
    return _not_plain(finished.asked.chat, with_tools=routed)


def _size_bytes(asked: Asked, body: Body) -> int:
    return len(asked.chat.body) + body.size_bytes


def held_bytes(finished: Finished) -> int:
    """Count the bytes a finished request keeps in memory, roughly: its body, its answer, and the past ones found for it."""
    found = finished.plan.neighbours if finished.plan is not None else ()
    texts = sum([one.example.size_bytes for one in found])
    vectors = sum(one.vector.nbytes for one in found if one.vector is not None)
    return _size_bytes(finished.asked, finished.body) + texts + vectors


def _not_plain(chat: ChatRequest, *, with_tools: bool) -> str | None:
    """`with_tools`: the model's requests with tools are routed, so its answers to them are compared."""
    fields = chat.fields
    if (carries_tools(chat) and not with_tools) or any(fields.get(name) is not None for name in _NEVER_WITH):
        return "tools"
    if fields.get("n", 1) not in (None, 1):
        return "several_choices"
    if fields.get("modalities") not in (None, ["text"]) or not _is_text(chat):
        return "not_plain_text"
    return None


def _is_text(chat: ChatRequest) -> bool:
    return only_text(chat.messages) if carries_tools(chat) else is_plain_text(chat.messages)


def sample(
    finished: Finished,
    engines: Sequence[str],
    *,
    share: float,
    wished: float,
    others: int,
    unit: Unit,
    rng: random.Random,
) -> Sample | None:
    """Toss the coin for a request that may be judged; None if it is not sampled.

    `share`: configured, whatever hangs on it; `wished`: for the proof. The larger counts. `others`: how many further ways of
    answering the configured share asks for beside the served one and the reference, drawn without preference.
    """
    served, reference, plan = finished.attempt, engines[-1], finished.plan
    assert served is not None
    by_reference = served.engine == reference
    # All turns of a conversation are compared or none. Answers that are given out are checked one by one: the ledger's bound
    # needs a coin for each.
    shadowed = plan.proof if by_reference and plan is not None else None
    drawn_at, probability = (
        coin(shadowed.noted if shadowed is not None else {}, rng),
        min(1.0, max(share, wished)),
    )
    if drawn_at >= probability:
        return None
    shadow = plan.shadow if by_reference and plan is not None else ()
    ways = list(shadow) or ways_beside(plan, engines, served)
    if finished.asked.controls.max_examples == 0:
        ways = [way for way in ways if not way.examples]
    if not by_reference:
        drawn = _drawn(ways, others if drawn_at < share else 0, share, rng)
    elif plan is not None and shadow:
        drawn = [(way, probability * _drawn_share(plan.proof, way)) for way in ways]
    else:
        drawn = _drawn(ways, max(1, others), probability, rng)
    if by_reference and not drawn:
        return None
    again = by_reference and wished > 0 and rng.random() < AGAIN_SHARE
    return replace(_sample(finished, reference, drawn, probability, unit), again=again)


def miscalled_sample(
    finished: Finished, engines: Sequence[str], share: float, unit: Unit, way: Attempt
) -> Sample:
    """A request to which a small engine's `way` called tools as they are not to be called: nobody else need be asked."""
    return replace(_sample(finished, engines[-1], (), min(1.0, share), unit), served=way)


def told_sample(finished: Finished, engines: Sequence[str], unit: Unit, told: Told) -> Sample | None:
    """A request that is compared since a person said how good its answer was: in every way that its plan
    holds. None if there is no proof."""
    plan, served = finished.plan, finished.attempt
    if plan is None or plan.proof is None or served is None:
        return None
    others = ways_beside(plan, engines, served) if served.engine == engines[-1] else []
    known = {(way.engine, bool(way.examples)) for way in others}
    if others:
        others += [way for way in plan.shadow if (way.engine, bool(way.examples)) not in known]
    if finished.asked.controls.max_examples == 0:
        others = [way for way in others if not way.examples]
    drawn = [(way, 1.0) for way in others]
    return replace(_sample(finished, engines[-1], drawn, 1.0, unit), told=told)


def _sample(
    finished: Finished,
    reference: str,
    drawn: Sequence[tuple[Attempt, float]],
    probability: float,
    unit: Unit,
) -> Sample:
    asked, plan, served = finished.asked, finished.plan, finished.attempt
    assert served is not None
    return Sample(
        asked,
        finished.body,
        served,
        reference,
        tuple(drawn),
        probability,
        max(0.0, finished.ended_at - finished.asked_at) if finished.asked_at else 0.0,
        tuple(candidate.example.answer for candidate in plan.neighbours) if plan is not None else (),
        unit,
        plan.proof.scope if plan is not None and plan.proof is not None else "",
        plan is not None and plan.posed is not None,
    )


def _drawn_share(proof: Proof | None, way: Attempt) -> float:
    """Probability that the proof's draw had this way among those to compare."""
    return proof.share_of(Action(way.engine, bool(way.examples))) if proof is not None else 1.0


def _drawn(
    possible: Sequence[Attempt], count: int, probability: float, rng: random.Random
) -> list[tuple[Attempt, float]]:
    drawn = rng.sample(possible, min(count, len(possible)))
    return [(way, probability * len(drawn) / len(possible)) for way in drawn]


def ways_beside(plan: Plan | None, engines: Sequence[str], served: Attempt) -> list[Attempt]:
    """Every way to answer but the served one and the reference: each smaller engine, without and with the examples found."""
    ways: list[Attempt] = []
    for engine in engines[:-1]:
        for way in (Attempt(engine), _with_examples_found(plan, engine, served)):
            if way is None or (way.engine == served.engine and bool(way.examples) == bool(served.examples)):
                continue
            ways.append(way)
    return ways


def _with_examples_found(plan: Plan | None, engine: str, served: Attempt) -> Attempt | None:
    """The engine with the examples that were planned for it, else for another engine; None if the plan has none.

    A plan that chose the reference holds them too: its small engines stand in, with what was found for them.
    """
    held = (*plan.attempts, *([plan.found] if plan.found is not None else [])) if plan else ()
    planned = [a for a in (served, *held) if a.examples and a.messages is not None]
    if not planned:
        return None
    best = min(planned, key=lambda attempt: attempt.engine != engine)
    return Attempt(engine, best.messages, best.examples)


def asked_again(
    chat: ChatRequest, way: Attempt, max_tokens: int, *, rephrased: bool = False
) -> tuple[ChatRequest, bool]:
    """The request as another engine is asked it, and whether it is our bound that limits the answer, not the client's.

    `rephrased`: for the engine that has answered it. Its seed goes, and a space is put behind the last message, since with
    temperature 0 nothing else would make it speak anew."""
    fields = chat.fields
    named = "max_completion_tokens" if fields.get("max_completion_tokens") is not None else "max_tokens"
    own = fields.get(named)
    messages = chat.messages if way.messages is None else way.messages
    without = _NOT_ASKED_AGAIN
    if rephrased:
        without, messages = without | {"seed"}, [*messages[:-1], _with_space(messages[-1])]
    bound = own if isinstance(own, int) and own <= max_tokens else max_tokens
    asked = codec_of(chat).again(chat, messages, without=without, max_tokens=bound)
    return asked, not isinstance(own, int) or own > max_tokens


def _with_space(message: Mapping[str, Any]) -> Mapping[str, Any]:
    content = message.get("content")
    return {**message, "content": content + " "} if isinstance(content, str) else message


def most_tokens(fields: Mapping[str, Any]) -> int:
    """The bound that `asked_again` put on an answer."""
    bound = fields.get("max_completion_tokens") or fields.get("max_tokens")
    return bound if isinstance(bound, int) else 0


def served_answer(body: Body, chat: ChatRequest | None = None) -> Assembled | None:
    """The answer the client got, as one object, if it can be compared: whole, one text, and ended by itself or its client's
    bound. May take milliseconds for a long one: off the event loop."""
    assembled = codec_of(chat).assembled(body)
    if assembled is None or not assembled.whole or len(assembled.choices()) != 1:
        return None
    ended = _ENDED_IN_CALLS if assembled.calls_tools() else _ENDED_BY_ITSELF
    if assembled.finish_reason() not in ended or not assembled.said().strip():
        return None
    return assembled
