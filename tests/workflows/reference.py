"""A definition carried out step after step, as it reads, against the answers of a world: what each of its steps comes to,
and which effects are had. What carries runs out must come to the same."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any

from tests.workflows.definitions import Answers, Refused
from workflows.definition import Definition, StepSpec
from workflows.items import Items, Splits
from workflows.plan import hands_on_items
from workflows.progress import RunState
from workflows.template import fill
from workflows.transform import TransformFailed, Value, apply, as_text, matches

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

    def _list_once_more(self, spec: StepSpec) -> list[str]:
        """The list of a chat, which is asked for again where it cannot be read and nobody took items of it."""
        assert spec.splits is not None
        messages = spec.messages
        for again in (not hands_on_items(self.definition, spec), False):
            answer = self._chat(messages, spec)
            if breaks(self.answers, answer):
                raise Refused
            try:
                return split_whole(spec.splits, answer)
            except TransformFailed as failed:
                if not again:
                    raise
                told = f"Your last answer could not be read: {failed.message}"
                told += " Answer once more, in the form that is asked for."
                messages = (*spec.messages, {"role": "user", "content": told})
        raise AssertionError

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
                return (
                    self._list_once_more(spec) if spec.splits is not None else self._chat(spec.messages, spec)
                )
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
