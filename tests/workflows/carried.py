"""Two ways to carry a definition out against the answers of a world: step after step, as a definition reads, and as a run
does, whose events come in any order. Both tell what each step of the definition came to, and which effects were had."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any

from tests.workflows.definitions import Answers, Refused
from workflows.compute import COMPUTED, arguments, computed, needs_index, scores, texts, vectors
from workflows.criteria import Criteria
from workflows.definition import Definition, StepSpec
from workflows.graph import Graph, Step
from workflows.items import Items, Splits
from workflows.names import StepId, VariableId
from workflows.plan import StepPlan
from workflows.progress import Changes, Failure, Progress, RunState, StepState, VariableState, outcomes
from workflows.template import fill
from workflows.transform import TransformFailed, Value, apply, as_text, matches
from workflows.unfolding import Added, Unfolding
from workflows.values import Held, Opaque, Vectors

MAX_BYTES = 1 << 20
MAX_ITEMS = 12
"""Small enough that some lists are longer."""


def offsets(text: str) -> list[tuple[int, int]]:
    """Words are tokens."""
    return [word.span() for word in re.finditer(r"\S+", text)]


def breaks(answers: Answers, answer: str) -> bool:
    """Whether the stream of a splitting chat breaks off half way."""
    return answers.failing > 0 and zlib.crc32(answer.encode()) % 3 == 0


def nearest(index: Mapping[int, tuple[str, Any]], vector: Any, k: int) -> list[str]:
    """Exact, ties by place."""

    def far(place: int) -> tuple[float, int]:
        return sum((a - b) ** 2 for a, b in zip(index[place][1], vector, strict=True)), place

    return [index[place][0] for place in sorted(index, key=far)[:k]]


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    state: RunState
    steps: Mapping[str, tuple[str, Any]]
    """By step of the definition: (ready, its value), (skipped, None), (failed, the code of its failure)."""
    effects: Counter[str]
    """How often each effect was asked for."""
    chains: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)
    """Of failed steps."""


INHERITED = "inherited"
"""Instead of the code of what a step depends on: which of several is known first is nobody's promise."""


# ---- step after step


class Reference:
    """Carries a definition out one step after the other: whole values, in the order of the definition."""

    def __init__(self, definition: Definition, answers: Answers, inputs: Mapping[str, Value]) -> None:
        self.definition = definition
        self.answers = answers
        self.states: dict[str, tuple[str, Any]] = {name: ("ready", value) for name, value in inputs.items()}
        self.effects: Counter[str] = Counter()

    def outcome(self) -> Outcome:
        names = list(self.definition.steps)
        before = {name: set(self.definition.before(name)) | self.bound(name) for name in names}
        for name in TopologicalSorter(before).static_order():
            self.states[name] = self._state(self.definition.steps[name])
        ready = self.states[self.definition.output][0] == "ready"
        return Outcome(
            RunState.DONE if ready else RunState.FAILED,
            {name: self.states[name] for name in names},
            self.effects,
        )

    def bound(self, name: str) -> set[str]:
        """Steps that must have ended well: around the effects of a chain."""
        return set(barriers(self.definition, name)) | set(self.definition.steps[name].after)

    def _state(self, spec: StepSpec) -> tuple[str, Any]:
        lost = [name for name in self.bound(spec.name) if self.states[name][0] == "failed"]
        if spec.condition is not None:
            when, wanted = spec.condition
            state, value = self.states[when]
            if state == "skipped" or (state == "ready" and (value == "true") != wanted):
                return "skipped", None
            lost += [when] if state == "failed" else []
        read = [(name, self.states[name][0]) for name in spec.needs]
        if spec.kind in ("first_of", "merge"):
            read = [(name, state) for name, state in read if state != "skipped"]
            if not read:
                return "skipped", None
            read = read[:1] if spec.kind == "first_of" else read
        elif any(state == "skipped" for _, state in read):
            return "skipped", None
        lost += [name for name, state in read if state == "failed"]
        if lost:
            return "failed", INHERITED
        try:
            return "ready", self._made(spec)
        except Refused:
            return "failed", "step_failed"
        except TransformFailed:
            return "failed", "transform_failed"

    def _value(self, name: str) -> Any:
        return self.states[name][1]

    def _list(self, name: str) -> list[str]:
        value = self._value(name)
        return [value] if isinstance(value, str) else value

    def _chat(self, messages: Any, spec: StepSpec, **more: str) -> str:
        values = {name: as_text(self._value(name)) for name in spec.reads}
        filled = fill(messages, {**values, **more}).messages
        return self.answers.chat(filled, spec.splits)

    def _call(self, spec: StepSpec, **more: str) -> str:
        values = {name: self._value(name) for name in spec.reads} | more
        args: dict[str, Any] = {}
        for key, text in spec.args.items():
            args[key] = text
            for name in re.findall(r"\{\{(\w+)\}\}", text):
                alone = text == f"{{{{{name}}}}}" and isinstance(values[name], list)
                args[key] = values[name] if alone else text.replace(f"{{{{{name}}}}}", as_text(values[name]))
        return asked_of_tool(self.answers, self.effects, spec.component, spec.effects, args)

    def _bounded(self, spec: StepSpec) -> list[str]:
        items = self._list(spec.over[0])
        if len(items) > MAX_ITEMS:
            raise TransformFailed("too many items")
        return items

    def _all(self, calls: Iterable[Callable[[], str]]) -> list[str]:
        """Each is asked, also after one that failed."""
        made, failed = [], None
        for call in calls:
            try:
                made.append(call())
            except Refused as refused:
                failed = refused
        if failed is not None:
            raise failed
        return made

    def _made(self, spec: StepSpec) -> Any:
        match spec.kind:
            case "chat":
                answer = self._chat(spec.messages, spec)
                if spec.splits is None:
                    return answer
                if breaks(self.answers, answer):
                    raise Refused
                return split_whole(spec.splits, answer)
            case "tool":
                return self._call(spec)
            case "split":
                whole = (offsets(text) for text in self._list(spec.over[0]))
                return [
                    text[spans[start][0] : spans[min(start + spec.tokens, len(spans)) - 1][1]]
                    for text, spans in zip(self._list(spec.over[0]), whole, strict=True)
                    for start in range(0, len(spans), spec.tokens - spec.overlap)
                    if start == 0 or start < len(spans) - spec.overlap
                ]
            case "embed":
                return self.answers.embed(self._list(spec.over[0]))
            case "ingest":
                found = self._list(spec.over[0])
                return dict(enumerate(zip(found, self.answers.embed(found), strict=True)))
            case "search":
                return self._search(spec)
            case "rerank":
                found = self._list(spec.over[0])
                points = self.answers.rerank(as_text(self._value(spec.by)), found)
                return [found[at] for at in sorted(range(len(found)), key=lambda at: -points[at])][: spec.k]
            case "map" if spec.tool:
                items = self._bounded(spec)
                return self._all([lambda item=item: self._call(spec, item=item) for item in items])  # type: ignore[misc]
            case "map":
                items = self._bounded(spec)
                return self._all(
                    [lambda item=item: self._chat(spec.messages, spec, item=item) for item in items]
                )  # type: ignore[misc]
            case "fold":
                so_far = spec.initial
                for place, item in enumerate(self._bounded(spec)):
                    messages = spec.first if spec.first and place == 0 else spec.messages
                    so_far = self._chat(messages, spec, item=item, so_far=so_far)
                return so_far
            case "when":
                return self._when(spec)
            case "first_of":
                return next(self._value(name) for name in spec.over if self.states[name][0] == "ready")
            case "merge":
                return self._merge(spec)
            case "transform":
                return apply(spec.transforms, self._value(spec.over[0]))
        raise AssertionError(spec.kind)

    def _search(self, spec: StepSpec) -> list[str]:
        queries = self._list(spec.over[0])
        if spec.index.startswith("component:"):
            return list(dict.fromkeys(hit for query in queries for hit in self.answers.search(query, spec.k)))
        index = self._value(spec.index.removeprefix("step:"))
        rows = self.answers.embed(queries)
        return list(dict.fromkeys(hit for row in rows for hit in nearest(index, row, spec.k)))

    def _when(self, spec: StepSpec) -> str:
        how, argument = spec.test
        text = as_text(self._value(spec.over[0]))
        match how:
            case "equals":
                holds = text == argument
            case "contains":
                holds = str(argument) in text
            case "matches":
                holds = matches(str(argument), text)
            case _:
                try:
                    holds = float(text) > float(argument)
                except ValueError:
                    raise TransformFailed("no number") from None
        return "true" if holds else "false"

    def _merge(self, spec: StepSpec) -> list[str]:
        lists = [self._list(name) for name in spec.over if self.states[name][0] == "ready"]
        if spec.how == "concat":
            return [text for each in lists for text in each]
        points: Counter[str] = Counter()
        for each in lists:
            for place, text in enumerate(dict.fromkeys(each)):
                points[text] += 1 / (61 + place)  # type: ignore[assignment]
        best = [text for text, _ in points.most_common()]
        return best[: spec.k] if spec.k else best


def barriers(definition: Definition, name: str) -> list[str]:
    """In a chain: the tools with effects before a step; before such a tool all steps."""
    if not definition.chained:
        return []
    names = list(definition.steps)
    earlier = names[: names.index(name)]
    spec = definition.steps[name]
    return [each for each in earlier if spec.effects or definition.steps[each].effects]


def asked_of_tool(
    answers: Answers, effects: Counter[str], component: str, has_effects: bool, args: Mapping[str, Any]
) -> str:
    if has_effects:
        effects[f"{component} {sorted(args.items())}"] += 1
    return answers.call(component, args)


def split_whole(splits: Splits, answer: str) -> list[str]:
    items = Items(splits, MAX_ITEMS)
    items.feed(answer)
    return items.close()


# ---- as a run does


@dataclass
class Streamed:
    """The answer of a splitting chat, as far as it has come."""

    answer: str
    items: Items
    at: int = 0
    told: int = 0


class Carried:
    """One run. `pick(n)` gives which of n events comes next."""

    def __init__(
        self,
        definition: Definition,
        plans: Mapping[str, StepPlan],
        answers: Answers,
        inputs: Mapping[str, Value],
        pick: Callable[[int], int],
        effects: Counter[str] | None = None,
    ) -> None:
        self.definition, self.plans, self.answers, self.inputs = definition, plans, answers, inputs
        self.pick = pick
        self.effects: Counter[str] = Counter() if effects is None else effects
        self.asked: Counter[StepId] = Counter()
        self.under_way: dict[StepId, Streamed | None] = {}
        self.indexes: dict[str, dict[int, tuple[str, Any]]] = {}
        self.unfolding = Unfolding("run_1", definition, plans, inputs, max_items=MAX_ITEMS)
        self.gets = {self.unfolding.output: Criteria.LATENCY}
        self.lost: dict[StepId, Value] = {}
        """What steps with effects were answered when their process ended."""

    def begin(self) -> None:
        self.progress = Progress(Graph(), gets=self.gets)
        self._grow(self.unfolding.begin())

    def die(self) -> None:
        """The process ends while it asks: of each step with effects, before it has had one, or before it was told so."""
        for id in self.under_way:
            step = self.progress.graph.steps[id]
            if not step.effects or not self.pick(3):
                continue
            self.progress.running(id)
            if self.pick(2):
                before = self.effects.copy()
                try:
                    self.lost[id] = str(self._asked(step))
                except Refused:
                    self.effects.clear()
                    self.effects.update(before)

    def take_up(self, dead: Carried) -> None:
        """Carry on what another began, from what it has stored."""
        values = dead.stored()
        added = self.unfolding.replay(values)
        graph = added.graph()
        states = {id: state for id, state in dead.progress.steps.items() if id not in dead.unstored()}
        for id, state in states.items():
            if id in graph.steps and graph.steps[id].effects and state is StepState.RUNNING:
                states[id] = StepState.UNKNOWN
        failures = {
            variable: failure
            for id in states
            for variable in dead.progress.graph.steps[id].writes.values()
            if (failure := dead.progress.failures.get(variable)) is not None
        }
        self.progress = Progress(
            graph, values={**values, **added.values}, failures=failures, states=states, gets=self.gets
        )
        self._apply(self.progress.begin())
        for id, state in list(self.progress.steps.items()):
            if state is StepState.UNKNOWN:
                # Whoever looks finds that it was done, or was not.
                known = id in dead.lost
                changes = self.progress.resolve(id, "value" if known else "retry", dead.lost.get(id, ""))
                self._apply(changes)

    def unstored(self) -> set[StepId]:
        """Steps that ran on items of a list that is not whole."""
        return {
            id
            for id, step in self.progress.graph.steps.items()
            if step.early and self.unfolding.variable(step.early) not in self.progress.values
        }

    def stored(self) -> dict[VariableId, Value]:
        unstored = self.unstored()
        return {
            variable: self.progress.values[variable]
            for id, step in self.progress.graph.steps.items()
            for variable in step.writes.values()
            if id not in unstored and variable in self.progress.values
        }

    def run(self, most: int = 1_000_000) -> None:
        """Events until it ends, or so many."""
        while self.under_way and most:
            most -= 1
            ids = list(self.under_way)
            self._happen(ids[self.pick(len(ids)) % len(ids)])

    def outcome(self) -> Outcome:
        assert self.progress.state is not RunState.RUNNING, self.progress.steps
        for id in self.unstored():
            assert self.unfolding.variable(id) not in self.progress.values, (
                "of a list that failed nothing is kept"
            )
        steps: dict[str, tuple[str, Any]] = {}
        chains = {}
        for name in self.definition.steps:
            variable = self.unfolding.variable(name)
            match self.progress.variable(variable):
                case VariableState.READY:
                    steps[name] = "ready", self._shown(name, variable)
                case VariableState.SKIPPED:
                    steps[name] = "skipped", None
                case state:
                    assert state is VariableState.FAILED, (name, state)
                    failure = self.progress.failures[variable]
                    steps[name] = "failed", failure.code if len(failure.chain) == 1 else INHERITED
                    chains[name] = failure.chain
        return Outcome(self.progress.state, steps, self.effects, chains)

    def _shown(self, name: str, variable: VariableId) -> Any:
        if variable in self.progress.values:
            return self.progress.values[variable]
        if variable not in self.progress._opaque:
            return None
        made = self.progress._opaque[variable].held
        return made.rows if isinstance(made, Vectors) else made

    # ---- events

    def _apply(self, changes: Changes) -> None:
        for id in changes.stop:
            self.under_way.pop(id, None)
        for id in changes.start:
            assert id not in self.under_way
            self.asked[id] += 1
            self.under_way[id] = None
        for variable, value in changes.ready.items():
            self._grow(self.unfolding.ready(variable, value))

    def _grow(self, added: Added) -> None:
        if added:
            self._apply(self.progress.grow(added))

    def _happen(self, id: StepId) -> None:
        step = self.progress.graph.steps[id]
        self.progress.running(id)
        streamed = self.under_way[id]
        try:
            if streamed is not None:
                self._stream(step, streamed)
                return
            if step.primitive in COMPUTED and not needs_index(step):
                made = computed(step, self.progress.held(id), offsets, MAX_BYTES)
                self._answered(step, made)
            elif step.primitive == "chat":
                answer = self._chat(step)
                if "splits" in step.what:
                    self.under_way[id] = Streamed(answer, Items(Splits(**step.what["splits"]), MAX_ITEMS))
                else:
                    self._answered(step, outcomes(step, answer, MAX_BYTES))
            else:
                (variable,) = step.writes.values()
                self._answered(step, {variable: self._asked(step)})
        except Refused as refused:
            del self.under_way[id]
            self._apply(self.progress.refused(id, "step_failed", str(refused)))

    def _answered(self, step: Step, made: Mapping[VariableId, Held | TransformFailed]) -> None:
        del self.under_way[step.id]
        self._apply(self.progress.answered(step.id, made))

    def _chat(self, step: Step) -> str:
        messages = fill(step.chat["messages"], self.progress.inputs(step.id)).messages
        splits = step.what.get("splits")
        return self.answers.chat(messages, Splits(**splits) if splits else None)

    def _stream(self, step: Step, streamed: Streamed) -> None:
        """A few characters more of a splitting chat's answer, or its end."""
        whole = len(streamed.answer) // 2 if breaks(self.answers, streamed.answer) else len(streamed.answer)
        if streamed.at >= whole:
            if whole < len(streamed.answer) or breaks(self.answers, streamed.answer):
                raise Refused
            self._answered(step, outcomes(step, streamed.answer, MAX_BYTES))
            return
        end = min(streamed.at + 1 + self.pick(9), whole)
        for item in streamed.items.feed(streamed.answer[streamed.at : end]):
            self._grow(self.unfolding.item(step.id, streamed.told, item))
            streamed.told += 1
        streamed.at = end

    def _asked(self, step: Step) -> Held:
        held = self.progress.held(step.id)
        match step.primitive:
            case "tool":
                args = arguments(step, held)
                return asked_of_tool(self.answers, self.effects, step.what["component"], step.effects, args)
            case "embed":
                found = texts(step, held)
                return Opaque(Vectors(found, self.answers.embed(found)))
            case "gather":
                return Opaque(self.indexes.setdefault(step.id, {}))
            case "ingest":
                index = self.indexes.setdefault(step.what["index"], {})
                rows = vectors(step, held)
                for place, pair in enumerate(zip(rows.texts, rows.rows, strict=True), step.what["start"]):
                    index[place] = pair
                return Opaque(index)
            case "rerank":
                return scores(self.answers.rerank(as_text(_text(held[step.what["by"]])), texts(step, held)))
            case "search":
                return self._search(step, held)
        raise AssertionError(step.primitive)

    def _search(self, step: Step, held: Mapping[str, Held]) -> list[str]:
        kind, _, name = step.what["index"].partition(":")
        k = step.what["k"]
        if kind == "component":
            return [hit for query in texts(step, held) for hit in self.answers.search(query, k)]
        index = held[name]
        assert isinstance(index, Opaque)
        return [hit for row in vectors(step, held).rows for hit in nearest(index.held, row, k)]


def _text(value: Held) -> Value:
    assert not isinstance(value, Opaque)
    return value


def failure_of(carried: Carried, name: str) -> Failure:
    """Why a step of the definition failed."""
    return carried.progress.failures[carried.unfolding.variable(name)]
