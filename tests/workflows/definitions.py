"""Definitions of workflows for tests, and a world that answers their steps.

Whatever the world says depends on what it is asked and on its seed, never on when, or with what else in a batch: so a run's
values, errors and effects are a property of the definition, whatever the passes.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml
from hypothesis import strategies as st

from workflows.declared import World, read_definition
from workflows.definition import PASSES, Definition, InputSpec, Splits, StepSpec
from workflows.transform import Value

MAX_ITEMS = 12
"""Of a list; small enough that some are longer."""
EMBEDDER = "local"
RERANKER = "reranker"
WEB = "web"
TOOL = "lookup"
NOTIFY = "notify"


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

_WRITTEN = yaml.safe_load("""
chain with effects:
  chain:
    - l: {chat: "List {{question}}", splits: lines}
    - told: {map: "{{l}}", tool: notify, args: {about: "{{item}}", of: "{{question}}"}, effects: true}
    - asked: {map: "{{l}}", tool: lookup, args: {about: "{{item}}!"}, idempotent: true}
    - sent: {tool: notify, args: {all: "{{asked}}"}, effects: true}
    - a: {chat: "{{told}} {{asked}}"}
branches:
  steps:
    w: {when: "{{question}}", contains: a}
    high: {when: "{{agreed}}", above: 4, if: w}
    agreed: {chat: "Yes {{question}}", if: w}
    each: {map: "{{documents}}", chat: "No {{item}}", unless: w}
    both: {merge: ["{{each}}", "{{documents}}"], how: top, k: 2, after: [sent]}
    sent: {tool: notify, args: {of: "{{question}}"}, effects: true, if: w}
    all: {merge: ["{{documents}}", "{{each}}"]}
    joined: {transform: "{{both}}", apply: [{join: " "}]}
    a: {first_of: ["{{agreed}}", "{{joined}}"]}
vectors:
  steps:
    v: {embed: "{{documents}}"}
    i: {ingest: "{{v}}"}
    f: {search: "{{documents}}", in: "{{i}}", k: 2}
    web: {search: "{{f}}", in: web, k: 3}
    t: {rerank: "{{web}}", by: "{{question}}", k: 2}
    a: {fold: "{{t}}", chat: "{{so_far}} {{item}}", first: "{{item}}", initial: none}
maps:
  steps:
    pieces: {split: "{{documents}}", tokens: 2, overlap: 1}
    one: {map: "{{pieces}}", chat: "One {{item}} of {{question}}"}
    two: {map: "{{one}}", chat: "Two {{item}}"}
    i: {ingest: "{{two}}"}
    f: {search: "{{two}}", in: "{{i}}", k: 1}
    t: {rerank: "{{two}}", by: "{{question}}", k: 3}
    told: {map: "{{two}}", tool: notify, args: {about: "{{item}}"}, effects: true}
    a: {merge: ["{{t}}", "{{f}}"], how: concat}
items:
  steps:
    w: {when: "{{question}}", matches: "^[a-m]"}
    l: {chat: "List {{question}}", splits: json}
    m: {map: "{{l}}", chat: "Of {{item}}"}
    mm: {map: "{{m}}", tool: lookup, args: {about: "{{item}}"}}
    i: {ingest: "{{m}}", if: w}
    web: {search: "{{l}}", in: web, k: 2}
    t: {rerank: "{{web}}", by: "{{question}}", k: 2}
    f: {search: "{{l}}", in: "{{i}}", k: 2}
    r: {rerank: "{{f}}", by: "{{question}}", k: 2}
    a: {fold: "{{mm}}", chat: "{{so_far}} {{item}} {{t}}"}
items of expressions:
  chain:
    - l: {chat: "List {{question}}", splits: {regex: "[a-z]+"}}
    - i: {ingest: "{{l}}"}
    - f: {search: "{{l}}", in: "{{i}}", k: 2}
    - t: {rerank: "{{f}}", by: "{{question}}", k: 2}
    - a: {transform: "{{t}}", apply: [{join: "\n"}, lines, {regex: "[a-z]+"}]}
asked again:
  steps:
    l: {chat: "List {{question}}", splits: json, on_error: {retry: 1, default: [x, y]}}
    once: {chat: "Once {{question}}", splits: json}
    left: {chat: "Skip {{question}}", splits: json, on_error: {skip: true}}
    m: {map: "{{l}}", chat: "Of {{item}}", on_error: {default: none}}
    better: {loop: "{{question}} {{so_far}}", until: {contains: ab}, max_rounds: 3, initial: none}
    a: {merge: ["{{left}}", "{{m}}", "{{better}}"]}
""")
_WORLD = World(
    {
        RERANKER: frozenset({"rerank"}),
        WEB: frozenset({"search"}),
        TOOL: frozenset({"tool"}),
        NOTIFY: frozenset({"tool"}),
    },
    is_model=lambda name: True,
    taken=lambda name: False,
)
WRITTEN: Mapping[str, Definition] = {
    name: read_definition(
        name.replace(" ", "-"),
        {"inputs": {"question": "last_user", "documents": "texts"}, "model": "small", "output": "a", **each},
        _WORLD,
    )
    for name, each in _WRITTEN.items()
}
"""Every kind of step, and every way in which one works on the list of another."""


def definitions() -> st.SearchStrategy[Definition]:
    """One of them."""
    return st.sampled_from(list(WRITTEN.values()))


def inputs() -> st.SearchStrategy[Mapping[str, Value]]:
    """Values of their inputs; of documents there may be more than a step takes."""
    documents = st.lists(st.sampled_from(["", "ab", "a b c", "d", "b{{a}}"]), max_size=4)
    many = st.just([f"d{number}" for number in range(MAX_ITEMS + 1)])
    return st.fixed_dictionaries({"question": st.text("ab ", max_size=4), "documents": documents | many})


def offsets(text: str) -> list[tuple[int, int]]:
    """Words are tokens."""
    return [word.span() for word in re.finditer(r"\S+", text)]


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
