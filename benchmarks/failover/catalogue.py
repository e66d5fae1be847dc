"""The sixteen published failures (failoverbench, catalogue S01 to S16, full timings), with its checks and verdicts.

pass: the client got the whole answer (S13: a clean error) and every check holds. partial: an advisory one does not. safe: no
whole answer, but a clean error in time. fail: a required check does not hold, nothing came in time, or a cut answer looked
whole. S08, S09 and S14 come again with engines that reword or disobey when they are asked to go on with an answer: there
*safe* is all that can be had.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.failover import scripts
from benchmarks.failover.asking import Answer
from benchmarks.failover.scenario import (
    FAIL,
    PARTIAL,
    PASS,
    SAFE,
    Bench,
    Found,
    Model,
    Scenario,
    cut,
    model,
    served,
    whole,
)
from benchmarks.failover.texts import ANSWER, TOO_LONG
from benchmarks.failover.wall import Script, Seen

_OUTAGE_S, _FLAPPING, _EVERY_S = 60.0, 20, 4.0


@dataclass(frozen=True)
class Came:
    """What came of one request: the client's view, and the engines'."""

    answer: Answer
    primary: Sequence[Seen]
    fallback: Sequence[Seen]

    def within(self, seconds: float) -> int:
        """Requests to the first engine, in so many seconds from its first."""
        return sum(seen.at_s - self.primary[0].at_s < seconds for seen in self.primary)


@dataclass(frozen=True)
class Check:
    """What must hold, or should."""

    name: str
    holds: Callable[[Came], bool]
    required: bool = True


def judge(came: Came, checks: Sequence[Check], *, wants_error: bool = False) -> Found:
    """The catalogue's verdict."""
    answer = came.answer
    told = f"{answer.seconds:.1f} s, {len(came.primary)} + {len(came.fallback)} calls"
    figures = {
        "seconds": round(answer.seconds, 2),
        "calls": len(came.primary),
        "fallback_calls": len(came.fallback),
    }
    missed = [check for check in checks if not check.holds(came)]
    required = [check.name for check in missed if check.required]
    if answer.hung:
        return Found(FAIL, f"hung: {told}", figures)
    if answer.ok and not whole(answer):
        return Found(FAIL, f"a cut or wrong answer looked whole: {answer.text[-60:]!r}", figures)
    if required:
        return Found(FAIL, f"{', '.join(required)}: {told}", figures)
    if wants_error:
        verdict = PARTIAL if answer.ok else PASS
    elif not answer.ok:
        return Found(SAFE, f"{told}: {answer.error[:80]}", figures)
    else:
        verdict = PASS
    if missed:
        verdict, told = PARTIAL, f"{', '.join(check.name for check in missed)}: {told}"
    return Found(verdict, told, figures)


def _single(
    id_: str,
    title: str,
    primary: Script,
    within_s: float,
    *checks: Check,
    before: str,
    fallback: Script = scripts.healthy,
    wants_error: bool = False,
    alive_after: bool = False,
) -> Scenario:
    name = id_.lower()

    async def run(bench: Bench) -> Found:
        answer = await bench.ask(name, within_s=within_s)
        found = judge(
            Came(answer, bench.primary(name), bench.fallback(name)), checks, wants_error=wants_error
        )
        if alive_after and not whole(await bench.ask("alive", within_s=10.0)):
            return Found(FAIL, "a healthy engine is not asked afterwards", found.figures)
        return found

    return Scenario(id_, title, run, (model(name, primary, fallback),), before, waits=True)


def _rejected(came: Came) -> bool:
    """Whether the client was told of a stand-in that refused to go on."""
    return not came.answer.ok and "prefill" in came.answer.error


_AT_MOST_6 = Check("at most 6 calls", lambda came: len(came.primary) <= 6)
_ASKED_ONCE = Check("the same engine is asked once", lambda came: len(came.primary) == 1)
_USAGE = Check("usage is told", lambda came: bool(came.answer.usage), required=False)
_TWICE = Check("tried again", lambda came: len(came.primary) >= 2, required=False)


def _gap_kept(came: Came) -> bool:
    return len(came.primary) < 2 or came.primary[1].at_s - came.primary[0].at_s >= 1.8


SINGLE = (
    _single(
        "S01",
        "429 with Retry-After: 2, once",
        scripts.first(1, scripts.limited("2")),
        20,
        _TWICE,
        Check(
            "Retry-After is kept",
            lambda came: len(came.primary) >= 2 and _gap_kept(came),
            required=False,
        ),
        Check("at most 2 calls in 1.5 s", lambda came: came.within(1.5) <= 2),
        before="pass, 2.0 s",
    ),
    _single(
        "S02",
        "429 always, no Retry-After",
        scripts.limited(),
        40,
        Check("at most 4 calls in 3 s", lambda came: came.within(3.0) <= 4),
        _AT_MOST_6,
        before="pass, 1.1 s",
    ),
    _single("S03", "500 once", scripts.first(1, scripts.refusing(500)), 20, _TWICE, before="pass"),
    _single("S04", "503 always", scripts.refusing(503), 40, _AT_MOST_6, before="pass"),
    _single("S05", "connection reset, once", scripts.first(1, scripts.reset), 20, before="pass"),
    _single(
        "S06",
        "silence for 120 s",
        scripts.silent(120),
        130,
        Check("ends within 100 s", lambda came: came.answer.seconds <= 100),
        Check("the silent engine is asked once", lambda came: len(came.primary) <= 1, required=False),
        before="fail, 130 s",
    ),
    _single(
        "S07",
        "first word after 20 s",
        scripts.slow(20),
        60,
        Check("answered within 15 s", lambda came: came.answer.seconds <= 15, required=False),
        before="partial, 21 s",
    ),
    _single("S08", "stream cut after 40 words", scripts.words_then(40), 40, before="safe"),
    _single(
        "S09",
        "stream silent after 20 words, for 30 s",
        scripts.words_then(20, stall_s=30),
        70,
        Check("ends within 45 s", lambda came: came.answer.seconds <= 45),
        before="safe, 30 s",
        alive_after=True,
    ),
    _single("S10", "an event that is no JSON", scripts.garbled, 30, before="pass", alive_after=True),
    _single(
        "S11",
        "stream without [DONE]",
        scripts.without_done,
        30,
        Check("ends within 8 s", lambda came: came.answer.seconds <= 8),
        _USAGE,
        before="pass",
    ),
    _single(
        "S12",
        "context length exceeded",
        scripts.refusing(TOO_LONG["openai"][0], body=TOO_LONG["openai"][1]),
        20,
        _ASKED_ONCE,
        before="safe",
    ),
    _single(
        "S13",
        "refused by a content filter",
        scripts.refusing(400, "Your request was rejected by the safety system.", "content_policy_violation"),
        20,
        _ASKED_ONCE,
        before="pass",
        wants_error=True,
    ),
    _single(
        "S14",
        "stream cut; the stand-in refuses prefill",
        scripts.words_then(40),
        40,
        Check("the refused prefill is not told", lambda came: not _rejected(came)),
        fallback=scripts.no_prefill,
        before="safe",
    ),
    _single(
        "S16",
        "503 always; who answered is told",
        scripts.refusing(503),
        40,
        Check("the stand-in's model is told", lambda came: came.answer.model == "s16-f"),
        _USAGE,
        _AT_MOST_6,
        before="pass",
    ),
)


async def _flapping(bench: Bench) -> Found:
    began = time.monotonic()
    ends_s = began + _OUTAGE_S
    _outage.append(ends_s)
    asked: list[tuple[float, Answer]] = []
    for number in range(_FLAPPING):
        await asyncio.sleep(max(0.0, began + number * _EVERY_S - time.monotonic()))
        at_s = time.monotonic()
        asked.append((at_s, await bench.ask("s15", within_s=30)))
    during = [answer for at_s, answer in asked if at_s < ends_s]
    calls = bench.primary("s15")
    back = [seen.at_s - ends_s for seen in calls if seen.at_s >= ends_s]
    probes = sum(seen.at_s < ends_s for seen in calls)
    told = f"{served(during)} of {len(during)} served, {probes} calls in the outage, " + (
        f"back after {back[0]:.1f} s" if back else "never back"
    )
    figures = {
        "served": served(during),
        "of": len(during),
        "calls": probes,
        "back_after_s": back[0] if back else None,
    }
    answers = [answer for _, answer in asked]
    if any(answer.hung for answer in answers) or cut(answers) or served(during) < len(during) or not back:
        return Found(FAIL, told, figures)
    if back[0] > 30:
        return Found(FAIL, told, figures)
    return Found(PASS if served(answers) == len(answers) else SAFE, told, figures)


_outage: list[float] = []
_FLAP = Scenario(
    "S15",
    "503 for 60 s, then healthy",
    _flapping,
    (model("s15", scripts.down_until(_outage, scripts.refusing(503))),),
    "pass, 9 calls in the outage",
    waits=True,
)

_BROKEN = {"S08": (40, 0.0), "S09": (20, 30.0), "S14": (40, 0.0)}


def _disobeyed(id_: str) -> Scenario:
    """The same broken stream, with a stand-in that does not go on with it; no text but the engines' own may be joined."""
    words, stall_s = _BROKEN[id_]
    models: list[Model] = []
    for name, script in scripts.disobedient(words).items():
        stands_by = script
        if id_ == "S14":
            stands_by = _refusing_prefill(script)
        models.append(model(f"{id_.lower()}-{name}", scripts.words_then(words, stall_s=stall_s), stands_by))

    async def run(bench: Bench) -> Found:
        answers = await asyncio.gather(*(bench.ask(one.name, within_s=70) for one in models))
        wrong = {
            one.name: answer.text[-60:]
            for one, answer in zip(models, answers, strict=True)
            if answer.hung or (answer.ok and not whole(answer)) or not ANSWER.startswith(answer.text.strip())
        }
        whole_ones = served(answers)
        told = f"{len(answers) - whole_ones - len(wrong)} safe, {whole_ones} whole, {len(wrong)} wrong {wrong or ''}"
        return Found(FAIL if wrong else SAFE, told, {"wrong": len(wrong), "whole": whole_ones})

    title = f"{id_}, stand-ins that reword or disobey ({len(models)})"
    return Scenario(f"{id_}r", title, run, models, "safe", waits=True)


def _refusing_prefill(script: Script) -> Script:
    async def refuses(call):  # type: ignore[no-untyped-def]
        last = (call.body.get("messages") or [{}])[-1]
        return await (scripts.no_prefill if last.get("role") == "assistant" else script)(call)

    return refuses


def alive() -> Scenario:
    """Not a failure: an engine that answers, asked after those that do not."""

    async def run(bench: Bench) -> Found:
        answer = await bench.ask("alive")
        return Found(PASS if whole(answer) else FAIL, f"{answer.seconds:.2f} s {answer.error}")

    return Scenario("S00", "nothing fails", run, (model("alive", scripts.healthy),), "pass")


CATALOGUE: tuple[Scenario, ...] = tuple(sorted((*SINGLE, _FLAP), key=lambda one: one.id))
OTHERWISE: tuple[Scenario, ...] = (alive(), *map(_disobeyed, _BROKEN))
