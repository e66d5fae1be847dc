"""Definitions of workflows for tests, a strategy that draws any, and a world that answers their steps.

Whatever the world says depends on what it is asked and on its seed, never on when, or with what else in a batch: so a run's
values, errors and effects are a property of the definition, whatever the passes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hypothesis import strategies as st

from workflows.definition import PASSES, Definition, InputSpec, Kind, Splits, StepSpec
from workflows.transform import Transform, Value

Type = Literal["text", "list", "vectors", "index"]
"""What a name holds."""
MODELS = ("small", "large")
EMBEDDER = "local"
RERANKER = "reranker"
WEB = "web"
TOOL = "lookup"
NOTIFY = "notify"
COMPONENTS = {EMBEDDER: "embed", RERANKER: "rerank", WEB: "search", TOOL: "tool", NOTIFY: "tool"}


# ---- by hand


def chat_messages(text: str, system: str = "") -> tuple[Mapping[str, Any], ...]:
    user = {"role": "user", "content": text}
    return ({"role": "system", "content": system}, user) if system else (user,)


def definition(
    *steps: StepSpec,
    inputs: Mapping[str, InputSpec] | None = None,
    output: str | None = None,
    chained: bool = False,
    passes: frozenset[Any] = frozenset(PASSES),
    name: str = "drawn",
) -> Definition:
    """A definition of steps; its inputs are a question and documents unless given, its output the last step."""
    if inputs is None:
        inputs = {
            "question": InputSpec("question", "last_user"),
            "documents": InputSpec("documents", "texts"),
        }
    made = Definition(
        name,
        inputs,
        {step.name: step for step in steps},
        chained,
        output if output is not None else steps[-1].name,
        passes,
        "",
        {},
    )
    return replace(made, version=f"{zlib.crc32(repr(made).encode()):016x}")


def doc_qa(**changes: Any) -> Definition:
    """Figure 2(d) of Teola: questions about documents, with advanced RAG."""
    return definition(
        StepSpec("chunks", "split", ("documents",), component=EMBEDDER, tokens=256, overlap=30),
        StepSpec("index", "ingest", ("chunks",), component=EMBEDDER),
        StepSpec(
            "queries",
            "chat",
            messages=chat_messages("Rewrite in 3 ways, as a JSON list: {{question}}"),
            reads=("question",),
            model="large",
            splits=Splits("json"),
            items=3,
        ),
        StepSpec(
            "found", "search", ("queries",), reads=("index",), component=EMBEDDER, index="step:index", k=16
        ),
        StepSpec("top", "rerank", ("found",), reads=("question",), component=RERANKER, by="question", k=3),
        StepSpec(
            "answer",
            "fold",
            ("top",),
            messages=chat_messages(
                "Answer the question. Question: {{question}} Passage: {{item}} So far: {{so_far}}",
                system="You answer from passages.",
            ),
            reads=("question",),
            model="large",
        ),
        **changes,
    )


# ---- any

_TEXTS = st.text('ab {}[]",\n', max_size=12)
_TYPES: Mapping[Kind, Type] = {
    "split": "list",
    "embed": "vectors",
    "ingest": "index",
    "search": "list",
    "rerank": "list",
    "tool": "text",
    "map": "list",
    "fold": "text",
    "when": "text",
}


@dataclass(slots=True)
class _Known:
    """What is there to read, while a definition is drawn."""

    types: dict[str, Type]
    whens: list[str] = field(default_factory=list)
    steps: dict[str, StepSpec] = field(default_factory=dict)

    def of(self, *types: Type) -> list[str]:
        return [name for name, type_ in self.types.items() if type_ in types]


@st.composite
def definitions(draw: st.DrawFn, min_steps: int = 1, max_steps: int = 8) -> Definition:
    """Any definition over a question and documents: every kind of step, chained or not, with conditions and effects."""
    known = _Known({"question": "text", "documents": "list"})
    for number in range(draw(st.integers(min_steps, max_steps))):
        step = draw(_steps(f"s{number}", known))
        known.steps[step.name] = step
        if step.kind == "when":
            known.whens.append(step.name)
    outputs = [name for name in known.of("text", "list") if name in known.steps]
    if not outputs:
        last = StepSpec(
            "s_out", "chat", messages=chat_messages("{{question}}"), reads=("question",), model="small"
        )
        known.steps["s_out"] = last
        outputs = ["s_out"]
    chained = draw(st.booleans())
    names = list(known.steps) if chained else draw(st.permutations(list(known.steps)))
    return definition(
        *(known.steps[name] for name in names), output=draw(st.sampled_from(outputs)), chained=chained
    )


@st.composite
def _steps(draw: st.DrawFn, name: str, known: _Known) -> StepSpec:
    kinds: list[Kind] = ["chat", "split", "tool", "when", "first_of", "merge", "transform", "search"]
    if known.of("list"):
        kinds += ["ingest", "ingest", "embed", "rerank", "rerank", "map", "map", "fold", "search"]
    if known.of("index"):
        kinds += ["search"] * 4
    kind = draw(st.sampled_from(kinds))
    step = draw(_of_kind(name, kind, known))
    known.types[name] = _type(step, known)
    before = list(known.steps)
    if before and draw(st.integers(0, 3)) == 0:
        step = replace(step, after=tuple(draw(st.sets(st.sampled_from(before), min_size=1, max_size=2))))
    if known.whens and draw(st.integers(0, 2)) == 0:
        step = replace(step, condition=(draw(st.sampled_from(known.whens)), draw(st.booleans())))
    return step


def _type(step: StepSpec, known: _Known) -> Type:
    match step.kind:
        case "chat":
            return "list" if step.splits is not None else "text"
        case "first_of":
            return known.types[step.over[0]]
        case "merge":
            return "list"
        case "transform":
            return "list" if step.transforms[-1].kind in ("lines", "split") else "text"
    return _TYPES[step.kind]


@st.composite
def _of_kind(draw: st.DrawFn, name: str, kind: Kind, known: _Known) -> StepSpec:
    lists = st.sampled_from(known.of("list")) if known.of("list") else st.nothing()
    texts = st.sampled_from(known.of("text"))
    either = st.sampled_from(known.of("text", "list"))
    few = st.integers(1, 4)
    match kind:
        case "chat":
            reads, messages = draw(_messages(known, ()))
            splits = draw(st.sampled_from([None, Splits("json"), Splits("lines"), Splits("regex", "[a-z]+")]))
            items = draw(st.none() | few) if splits is not None else None
            return StepSpec(
                name,
                "chat",
                messages=messages,
                reads=reads,
                model=draw(st.sampled_from(MODELS)),
                splits=splits,
                items=items,
            )
        case "split":
            return StepSpec(
                name, "split", (draw(either),), component=EMBEDDER, tokens=draw(st.integers(2, 4)), overlap=1
            )
        case "embed" | "ingest":
            return StepSpec(name, kind, (draw(lists),), component=EMBEDDER)
        case "search":
            indexes = known.of("index")
            if indexes and draw(st.integers(0, 4)):
                index = draw(st.sampled_from(indexes))
                return StepSpec(
                    name,
                    "search",
                    (draw(either),),
                    reads=(index,),
                    component=EMBEDDER,
                    index=f"step:{index}",
                    k=draw(few),
                )
            return StepSpec(
                name, "search", (draw(either),), index=f"component:{WEB}", component=WEB, k=draw(few)
            )
        case "rerank":
            by = draw(texts)
            return StepSpec(
                name, "rerank", (draw(lists),), reads=(by,), component=RERANKER, by=by, k=draw(few)
            )
        case "tool":
            return draw(_tools(name, known))
        case "map":
            if draw(st.booleans()):
                return draw(_tools(name, known, over=draw(lists)))
            reads, messages = draw(_messages(known, ("item",)))
            return StepSpec(
                name, "map", (draw(lists),), messages, reads=reads, model=draw(st.sampled_from(MODELS))
            )
        case "fold":
            reads, messages = draw(_messages(known, ("item", "so_far")))
            first: tuple[Mapping[str, Any], ...] = ()
            if draw(st.booleans()):
                more, first = draw(_messages(known, ("item",)))
                reads = tuple(dict.fromkeys((*reads, *more)))
            return StepSpec(
                name,
                "fold",
                (draw(lists),),
                messages,
                first,
                reads,
                model=draw(st.sampled_from(MODELS)),
                initial=draw(st.sampled_from(["", "none"])),
            )
        case "when":
            test = draw(
                st.sampled_from(
                    [("contains", "a"), ("equals", "true"), ("matches", "^[a-m]"), ("above", 4.0)]
                )
            )
            return StepSpec(name, "when", (draw(texts),), test=test)
        case "first_of":
            kind_of = draw(st.sampled_from(["text", "list"] if known.of("list") else ["text"]))
            over = draw(st.lists(st.sampled_from(known.of(kind_of)), min_size=1, max_size=3, unique=True))
            return StepSpec(name, "first_of", tuple(over))
        case "merge":
            over = draw(st.lists(either, min_size=2, max_size=3))
            how = draw(st.sampled_from(["concat", "top"]))
            return StepSpec(name, "merge", tuple(over), how=how, k=draw(st.integers(0, 3)))
        case "transform":
            return draw(_transforms(name, known))
    raise AssertionError(kind)


@st.composite
def _transforms(draw: st.DrawFn, name: str, known: _Known) -> StepSpec:
    if known.of("list") and draw(st.booleans()):
        return StepSpec(
            name,
            "transform",
            (draw(st.sampled_from(known.of("list"))),),
            transforms=(Transform("join", draw(st.sampled_from([" ", "\n"]))),),
        )
    transform = draw(
        st.sampled_from(
            [
                Transform("strip", None),
                Transform("truncate", 5),
                Transform("regex", "[a-z]+"),
                Transform("lines", None),
                Transform("split", " "),
            ]
        )
    )
    return StepSpec(name, "transform", (draw(st.sampled_from(known.of("text"))),), transforms=(transform,))


@st.composite
def _tools(draw: st.DrawFn, name: str, known: _Known, over: str = "") -> StepSpec:
    reads = tuple(draw(st.sets(st.sampled_from(known.of("text", "list")), max_size=2)))
    args: dict[str, Any] = {f"of_{each}": f"{{{{{each}}}}}" for each in reads}
    if over:
        args["about"] = "{{item}}!"
    effects = draw(st.booleans())
    return StepSpec(
        name,
        "map" if over else "tool",
        (over,) if over else (),
        reads=reads,
        component=NOTIFY if effects else TOOL,
        args=args,
        effects=effects,
        idempotent=draw(st.booleans()),
    )


@st.composite
def _messages(
    draw: st.DrawFn, known: _Known, places: Sequence[str]
) -> tuple[tuple[str, ...], tuple[Mapping[str, Any], ...]]:
    """(the names read, the messages) of a template with some names, in any order, in a system or a user message."""
    read = draw(st.sets(st.sampled_from(known.of("text", "list")), max_size=2))
    names = draw(st.permutations([*sorted(read), *places]))
    at = draw(st.integers(0, len(names)))
    texts = ["".join(f" {name}: {{{{{name}}}}}" for name in part) for part in (names[:at], names[at:])]
    messages = (
        {"role": "system", "content": f"Do as told.{texts[0]}"},
        {"role": "user", "content": f"Go.{texts[1]}"},
    )
    return tuple(sorted(read)), messages


@st.composite
def inputs(draw: st.DrawFn) -> Mapping[str, Value]:
    """Values of the inputs of `definitions`."""
    return {"question": draw(_TEXTS), "documents": draw(st.lists(_TEXTS, max_size=5))}


# ---- who answers


class Refused(Exception):
    """An engine or a component did not answer. Its text says what was asked of whom."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers by content alone; `failing` of 1000 of them are refusals."""

    seed: int = 0
    failing: int = 0

    def chat(self, messages: Sequence[Mapping[str, Any]], splits: Splits | None = None) -> str:
        """The answer to a prompt; what `splits` makes of one that splits is 0 to 4 items, or nothing at all."""
        asked = json.dumps([[message["role"], message["content"]] for message in messages])
        number = self._number("chat", asked)
        if splits is None:
            return _words(number)
        items = [_words(self._number("item", f"{place} {asked}") % 3) for place in range(number % 5)]
        match splits.how:
            case "json":
                whole = json.dumps(items)
                return whole[:-1] if self._number("broken", asked) % 8 == 0 else f"Here:\n{whole}"
            case "lines":
                return "\n".join(items)
        return ", ".join(items)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector of four dimensions for each text."""
        numbers = [self._number("embed", text) for text in texts]
        return [[float(1 + (number >> shift) % 5) for shift in (0, 3, 6, 9)] for number in numbers]

    def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """A score for each text, out of three: ties are common."""
        return [self._number("rerank", f"{query}\0{text}") % 3 / 2 for text in texts]

    def search(self, query: str, k: int) -> list[str]:
        """Up to k hits."""
        number = self._number("search", query)
        return [_words((number + place) % 5) for place in range(min(k, number % 4))]

    def call(self, name: str, args: Mapping[str, Any]) -> str:
        """A tool's answer."""
        return _words(self._number(name, json.dumps(args, sort_keys=True)))

    def _number(self, who: str, asked: str) -> int:
        number = zlib.crc32(f"{self.seed} {who} {asked}".encode())
        if who not in ("item", "broken") and zlib.crc32(f"{number}".encode()) % 1000 < self.failing:
            raise Refused(f"{who} was asked {asked}")
        return number


def answers() -> st.SearchStrategy[Answers]:
    """Worlds in which nothing fails, some of it, and much of it."""
    return st.builds(Answers, st.integers(0, 1 << 16), st.sampled_from([0, 0, 20, 150]))


def _words(number: int) -> str:
    return " ".join(
        ["ab", "ac", "bd", "ce", "da"][each % 5]
        for each in (number, number // 5, number // 25)[: 1 + number % 3]
    )
