"""Computes what is known of a prompt while the rest is unknown: pass 3 of workflows, over any engine with a prefix cache.

The step's request is asked early, cut where the first unknown name stands, for one token, with the lowest priority. It is a
request of the step's client like any other: admitted, counted and paid by it. The engine keeps the prefix in its cache, and
where it has replicas the step goes where the prefix is. The step itself never waits for that; whoever waits for a place at
the engine ends it.

Sources: partial and full prefilling of Teola (section 4.3), which needs an engine that takes prompts in pieces. Should vLLM
come to take them so, this is the file that changes.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import structlog
from cachetools import TTLCache

from engines.chat import CHARACTERS_PER_TOKEN, ChatRequest, message_text
from engines.engine import Engine
from engines.errors import EngineError, RequestError
from engines.guard import Guard
from engines.placement import Placement, Rank
from engines.prefixes import Prefix, PrefixTable, prefixes_of
from engines.replicas import Replicas
from gateway.admission import Admission
from gateway.off_loop import off_loop
from gateway.runs.caller import Caller, chat_of
from gateway.runs.live import LiveRun
from gateway.runs.step_send import StepSend
from gateway.runs.worth_warming import Facts, PrefillPace, StepTimes, Verdict, has_room, worth_warming
from gateway.send import Send
from router.asked import Admitted, Asked
from router.finished import Finished
from workflows.definition import ITEM, PLACES, SO_FAR, StepSpec
from workflows.names import StepId, VariableId
from workflows.passes.prefill import cut
from workflows.plan import Warm
from workflows.template import fill
from workflows.transform import as_text

log = structlog.get_logger(__name__)

_TABLE_TOKENS = 200_000
_AT_ONCE = 32
"""Prefixes of one run that are thought about in one turn of the event loop; the others in the next."""
_REFUSED_S = 300.0
"""How long a step's prefix is left alone that its engine refused: some chat templates take no prompt that is cut there."""
_MOST_BYTES = 65_536
"""Of an answer of one token."""
_LEFT_OUT = frozenset(
    {
        "stream",
        "stream_options",
        "max_completion_tokens",
        "stop",
        "n",
        "logprobs",
        "top_logprobs",
        "min_tokens",
    }
)
"""Fields that say something of an answer, of which there is but one token."""


@dataclass(frozen=True, slots=True)
class Certain:
    """The engine that will answer for a model."""

    engine: Engine
    hosted: bool


CertainEngine = Callable[[str, Caller], Certain | None]
"""Of a model's name and the client: None if it is not certain who answers, or with which prompt, or if a guardrail would
have to look at it first."""


@dataclass(slots=True)
class _Wanted:
    """A prefix that is planned, for one concrete step (or for all items alike, told by the first)."""

    warm: Warm
    step: StepId
    index: int | None
    """Of the item; None where the prefix holds none."""
    engine: str = ""
    sent: bool = False
    task: asyncio.Task[None] | None = None


@dataclass(slots=True)
class _Run:
    """What is planned and under way for one run."""

    open: list[_Wanted] = field(default_factory=list)
    lists: list[Warm] = field(default_factory=list)
    """Those that have a prefix for each item of a list that is not known yet."""
    watched: set[VariableId] = field(default_factory=set)
    asked: set[StepId] = field(default_factory=set)
    told: dict[StepId, tuple[int, float]] = field(default_factory=dict)
    """Warmed tokens and their cost, of steps that the run does not have yet."""
    under_way: list[_Wanted] = field(default_factory=list)
    began: dict[str, float] = field(default_factory=dict)
    """When steps of the definition were first asked (time.monotonic)."""


class Warmer:
    """Implements gateway.runs.means.Warming. `certain`: see CertainEngine."""

    def __init__(
        self,
        certain: CertainEngine,
        engines: Mapping[str, Engine],
        answer: Callable[[Asked, Send], Awaitable[Finished]],
        admission: Admission,
        *,
        min_tokens: int,
        told: Callable[[Verdict, int], object] = lambda verdict, tokens: None,
        began: Callable[[], object] = lambda: None,
    ) -> None:
        """`answer` is Pipeline.answer. `told` is told of each prefix that was thought about, with its tokens; `began` is
        called for each that goes to the pipeline."""
        self._answer = answer
        self._admission = admission
        self._began = began
        self._certain = certain
        self._min_tokens = min_tokens
        self._told = told
        self._runs: dict[str, _Run] = {}
        self._tables: dict[str, PrefixTable] = {}
        self._pace = PrefillPace()
        self._times = StepTimes()
        self._refused: TTLCache[tuple[str, str, str, str], bool] = TTLCache(1024, _REFUSED_S)
        """(engine, version, step, part)."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._coming: Counter[str] = Counter()
        """By engine: how many were decided on, and are not there yet."""
        self._engines = engines

    def start(self) -> None:
        """Be told from now on when requests wait at an engine."""
        for name, engine in self._engines.items():
            if isinstance(engine, Guard | Replicas):
                line = engine.line
                line.on_change = partial(self._waits, name, line.on_change)

    async def aclose(self) -> None:
        """End what is under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # ---- gateway.runs.means.Warming

    def learned(self, run: LiveRun, variables: Iterable[VariableId]) -> None:
        """See Warming."""
        if run.ended is not None or run.lost:
            return
        known = self._runs.get(run.id)
        if known is None:
            known = self._begun(run)
            self._runs[run.id] = known
        elif not (known.open or known.lists) or known.watched.isdisjoint(variables):
            return
        self._look(run, known)

    def asked(self, run: LiveRun, step: StepId) -> None:
        """See Warming."""
        known = self._runs.get(run.id)
        if known is None:
            return
        known.asked.add(step)
        known.began.setdefault(_named(step), time.monotonic())
        if (told := known.told.pop(step, None)) is not None:
            _book(run, step, *told)
        for wanted in known.under_way:
            if wanted.step == step and not wanted.sent and wanted.task is not None:
                wanted.task.cancel()
        if known.open:
            self._look(run, known)

    def ended(self, run: LiveRun) -> None:
        """See Warming."""
        known = self._runs.pop(run.id, None)
        if known is None:
            return
        for step, told in known.told.items():
            # It was computed in vain.
            _book(run, _named(step), *told)
        for wanted in known.under_way:
            if wanted.task is not None:
                wanted.task.cancel()
        self._learn_times(run)

    # ---- what could be computed

    def _begun(self, run: LiveRun) -> _Run:
        known = _Run()
        flow = run.flow
        if flow is None:
            return known
        for name, plan in flow.plans.items():
            spec = flow.definition.steps[name]
            for warm in plan.warm:
                names = [each for each in warm.needs if each not in PLACES]
                names += () if spec.condition is None else spec.condition[:1]
                if ITEM in warm.needs or (warm.part == "each" and spec.kind == "fold"):
                    known.lists.append(warm)
                    names += spec.over
                else:
                    known.open.append(_Wanted(warm, name if spec.kind == "chat" else f"{name}[0]", None))
                known.watched.update(flow.unfolding.variable(each) for each in names)
        return known

    def _look(self, run: LiveRun, known: _Run) -> None:
        """Begin what is worth it now; what never will be is thought about no more."""
        self._lists(run, known)
        kept = []
        waits: dict[tuple[str, str], bool] = {}
        """By step of the definition and part: whether its prefixes wait, all of them for the same engine."""
        thought = 0
        for wanted in known.open:
            name = wanted.warm.step, wanted.warm.part
            if wanted.step in known.asked:
                continue
            if waits.get(name) or thought == _AT_ONCE:
                kept.append(wanted)
                continue
            if name not in waits:
                waits[name] = not self._known(run, wanted.warm)
            if not waits[name]:
                thought += 1
                verdict = self._considered(run, known, wanted)
                waits[name] = verdict == "busy"
                if verdict == "warm":
                    known.under_way.append(wanted)
            if waits[name]:
                kept.append(wanted)
        known.open = kept
        if thought == _AT_ONCE:
            asyncio.get_running_loop().call_soon(self._look_again, run, known)

    def _look_again(self, run: LiveRun, known: _Run) -> None:
        if known.open and self._runs.get(run.id) is known:
            self._look(run, known)

    def _lists(self, run: LiveRun, known: _Run) -> None:
        """Lists that are known by now give each of their items a prefix."""
        assert run.flow is not None
        later = []
        for warm in known.lists:
            spec = run.flow.definition.steps[warm.step]
            items = self._items(run, spec)
            if items is None:
                later.append(warm)
                continue
            first = 1 if spec.kind == "fold" and warm.part == "each" else 0
            last = 1 if warm.part == "first" else len(items)
            if ITEM not in warm.needs:
                last = min(last, first + 1)
            known.open += [
                _Wanted(warm, f"{warm.step}[{index}]", index if ITEM in warm.needs else None)
                for index in range(first, min(last, len(items)))
            ]
        known.lists = later

    def _items(self, run: LiveRun, spec: StepSpec) -> list[str] | None:
        assert run.flow is not None
        value = run.progress.values.get(run.flow.unfolding.variable(spec.over[0]))
        return value if isinstance(value, list) else None

    def _known(self, run: LiveRun, warm: Warm) -> bool:
        """Whether the prefix is known, and that its step is not skipped by its condition."""
        assert run.flow is not None
        names = [name for name in warm.needs if name not in PLACES]
        condition = run.flow.definition.steps[warm.step].condition
        if condition is not None:
            names.append(condition[0])
        variable = run.flow.unfolding.variable
        return all(variable(name) in run.progress.values for name in names)

    def _skipped(self, run: LiveRun, spec: StepSpec) -> bool:
        assert run.flow is not None
        if spec.condition is None:
            return False
        name, wanted = spec.condition
        return run.progress.values[run.flow.unfolding.variable(name)] != ("true" if wanted else "false")

    # ---- whether to

    def _considered(self, run: LiveRun, known: _Run, wanted: _Wanted) -> Verdict:
        assert run.flow is not None
        flow, spec = run.flow, run.flow.definition.steps[wanted.warm.step]
        certain = None if self._skipped(run, spec) else self._certain(spec.model, flow.caller)
        if certain is None or self._key(run, wanted, certain) in self._refused:
            self._told("uncertain", 0)
            return "uncertain"
        name = certain.engine.info.name
        tokens = self._tokens(run, spec, wanted)
        facts = Facts(
            spec.warm,
            certain=True,
            hosted=certain.hosted,
            prefix_tokens=tokens,
            cached_tokens=0,
            missing_s=self._missing_s(run, known, wanted),
            prefill_s=self._pace.seconds(name, tokens),
            room=has_room(certain.engine.load(), self._coming[name]),
        )
        verdict = worth_warming(facts, self._min_tokens)
        if verdict == "warm":
            wanted.engine = name
            self._spawn(run, known, wanted, self._warm(run, known, wanted, certain, facts))
        elif verdict != "busy":
            self._told(verdict, tokens)
        return verdict

    def _key(self, run: LiveRun, wanted: _Wanted, certain: Certain) -> tuple[str, str, str, str]:
        assert run.flow is not None
        version = run.flow.definition.version
        return certain.engine.info.name, version, wanted.warm.step, wanted.warm.part

    def _tokens(self, run: LiveRun, spec: StepSpec, wanted: _Wanted) -> int:
        """Of the prefix, roughly; nothing is filled in for it."""
        assert run.flow is not None
        template = cut(_template(spec, wanted.warm), wanted.warm.boundary)
        characters = sum(len(message_text(message.get("content"))) for message in template)
        values = self._values(run, spec, wanted)
        return (characters + sum(map(len, values.values()))) // CHARACTERS_PER_TOKEN

    def _values(self, run: LiveRun, spec: StepSpec, wanted: _Wanted) -> dict[str, str]:
        assert run.flow is not None
        values: dict[str, str] = {}
        for name in wanted.warm.needs:
            if name not in PLACES:
                values[name] = as_text(run.progress.values[run.flow.unfolding.variable(name)])
            elif name == ITEM:
                items = self._items(run, spec)
                assert items is not None
                values[name] = items[wanted.index or 0]
        return values

    def _missing_s(self, run: LiveRun, known: _Run, wanted: _Wanted) -> float:
        """Until the rest of the prompt is known."""
        assert run.flow is not None
        definition, variable = run.flow.definition, run.flow.unfolding.variable
        now = time.monotonic()
        since_s = {name: now - began for name, began in known.began.items()}
        spec, missing_s = definition.steps[wanted.warm.step], 0.0
        for name in wanted.warm.waits:
            if name == SO_FAR:
                turns = (wanted.index or 1) if wanted.warm.part == "each" else 0
                missing_s = max(missing_s, turns * self._times.each_s(definition, wanted.warm.step))
            elif (at := spec.over[0] if name == ITEM else name) in definition.steps:
                left_s = self._times.until(
                    definition, at, lambda step: variable(step) in run.progress.values, since_s
                )
                missing_s = max(missing_s, left_s)
        return missing_s

    # ---- doing it

    async def _warm(self, run: LiveRun, known: _Run, wanted: _Wanted, certain: Certain, facts: Facts) -> None:
        assert run.flow is not None
        engine, caller = certain.engine, run.flow.caller
        name, tokens = engine.info.name, facts.prefix_tokens
        usd = engine.info.price.most_usd(tokens, 1) or 0.0
        send = StepSend(lambda text: None, max_text_bytes=_MOST_BYTES)
        try:
            chat, placement = await self._request(run, wanted, facts.prefix_tokens)
            prefixes = await self._prefixes(engine, chat, placement, run.tenant)
            if facts.prefix_tokens - self._cached(engine, prefixes) < self._min_tokens:
                self._told("cached", facts.prefix_tokens)
                return

            async def ask(admitted: Admitted) -> Finished:
                wanted.sent = True
                self._told("warm", facts.prefix_tokens)
                self._began()
                asked = caller.asked(admitted, chat, placement)
                controls = replace(asked.controls, no_store=True, no_cache=True)
                return await self._answer(replace(asked, controls=controls), send)

            began = time.monotonic()
            finished = await self._admission.step(caller.arrival, chat.own_fields, ask, waits=False)
            if send.status >= 400:
                usd = 0.0
                self._refused[self._key(run, wanted, certain)] = True
            elif (usage := send.used(tokens)) is not None:
                self._table(name).sent(prefixes, facts.prefix_tokens)
                tokens, usd = usage.prompt_tokens, finished.price.cost_usd(usage) or 0.0
                computed = tokens - usage.cached_tokens
                if computed >= self._min_tokens:
                    self._pace.took(name, computed, time.monotonic() - began)
        except (RequestError, EngineError) as error:
            log.info("prefix_not_computed", run=run.id, step=wanted.step, engine=name, why=error.code)
        finally:
            if wanted.sent:
                self._note(run, known, wanted.step, tokens, usd)

    async def _request(self, run: LiveRun, wanted: _Wanted, tokens: int) -> tuple[ChatRequest, Placement]:
        """The step's request, cut."""
        assert run.flow is not None
        flow, spec = run.flow, run.flow.definition.steps[wanted.warm.step]
        template, values = (
            cut(_template(spec, wanted.warm), wanted.warm.boundary),
            self._values(run, spec, wanted),
        )
        size = tokens * CHARACTERS_PER_TOKEN
        filled = await off_loop(size, fill, template, values)
        of_output = flow.fields if wanted.warm.step == flow.definition.output else {}
        fields = {name: each for name, each in {**of_output, **spec.params}.items() if name not in _LEFT_OUT}
        # A grammar would be made for nothing: it changes no prompt.
        fields.pop("response_format", None)
        fields |= {"model": spec.model, "max_tokens": 1, "messages": list(filled.messages)}
        chat = await off_loop(size, chat_of, fields)
        last = len(filled.messages) - 1
        end = (last, len(message_text(filled.messages[last].get("content"))))
        placement = Placement(
            Rank.THROUGHPUT,
            run.id,
            expected_tokens=tokens + 1,
            boundaries=(*filled.boundaries, end),
            step=wanted.step,
            warms=True,
        )
        return chat, placement

    async def _prefixes(
        self, engine: Engine, chat: ChatRequest, placement: Placement, tenant: str
    ) -> tuple[Prefix, ...]:
        sent = chat.rewritten(model=engine.info.model)
        return await off_loop(len(chat.body), prefixes_of, sent, placement.boundaries, tenant)

    def _cached(self, engine: Engine, prefixes: tuple[Prefix, ...]) -> int:
        if isinstance(engine, Replicas):
            return max(table.cached_tokens(prefixes) for table in engine.placing.tables.values())
        return self._table(engine.info.name).cached_tokens(prefixes)

    def _table(self, engine: str) -> PrefixTable:
        if engine not in self._tables:
            self._tables[engine] = PrefixTable(_TABLE_TOKENS)
        return self._tables[engine]

    def _note(self, run: LiveRun, known: _Run, step: StepId, tokens: int, usd: float) -> None:
        """A prefix was computed, or is paid all the same: its step's row says so, once there is one."""
        if step in run.graph.steps or self._runs.get(run.id) is not known:
            _book(run, step if step in run.graph.steps else _named(step), tokens, usd)
        else:
            known.told[step] = tokens, usd

    # ---- tasks

    def _spawn(self, run: LiveRun, known: _Run, wanted: _Wanted, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"compute a prefix of {wanted.step}")
        wanted.task = task
        self._coming[wanted.engine] += 1
        self._tasks.add(task)
        task.add_done_callback(partial(self._done, run, known, wanted))

    def _done(self, run: LiveRun, known: _Run, wanted: _Wanted, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._coming[wanted.engine] -= 1
        known.under_way.remove(wanted)
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            log.error("prefix_failed", error=type(error).__name__)
        # There may be room for the next.
        self._look_again(run, known)

    def _waits(self, engine: str, before: Callable[[Rank, int], None], rank: Rank, more: int) -> None:
        """Somebody waits for a place at an engine: what nobody waits for there ends."""
        before(rank, more)
        if more > 0 and self._coming[engine]:
            for known in self._runs.values():
                for wanted in known.under_way:
                    if wanted.engine == engine and wanted.task is not None:
                        wanted.task.cancel()

    # ---- what steps take

    def _learn_times(self, run: LiveRun) -> None:
        if run.flow is None:
            return
        for name, whole_s, each_s in _times(run):
            self._times.took(run.flow.definition.version, name, whole_s, each_s)


def _template(spec: StepSpec, warm: Warm) -> tuple[Mapping[str, Any], ...]:
    return spec.first if warm.part == "first" and spec.first else spec.messages


def _book(run: LiveRun, step: StepId, tokens: int, usd: float) -> None:
    so_far = run.steps.get(step)
    if so_far is not None:
        tokens, usd = tokens + so_far.warmed_tokens, usd + so_far.warmed_cost_usd
    if tokens:
        run.step(step, warmed_tokens=tokens, warmed_cost_usd=usd)


def _named(step: StepId) -> str:
    """The step of the definition that a step of a run belongs to."""
    return step.partition("[")[0].partition(".")[0]


def _times(run: LiveRun) -> Iterator[tuple[str, float, float]]:
    """(step of the definition, seconds from its first start to its last end, mean seconds of each of its steps)."""
    spans: dict[str, tuple[float, float, float, int]] = {}
    for id, progress in run.steps.items():
        began, ended = progress.queued_at_s, progress.ended_at_s
        if progress.state != "done" or began is None or ended is None:
            continue
        first, last, total, count = spans.get(_named(id), (began, ended, 0.0, 0))
        spans[_named(id)] = min(first, began), max(last, ended), total + ended - began, count + 1
    for name, (first, last, total, count) in spans.items():
        yield name, last - first, total / count
