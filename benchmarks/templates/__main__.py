"""How often is a question familiar only because of the template it stands in? (`python -m benchmarks.templates`)

Recorded questions, asked one after the other behind one head of rules, as few_shot decides by default: familiar from three
past questions at cosine 0.8 on; what is familiar goes to the small engine and is not remembered. Three streams:

- retrieval: BeerQA questions, each with its own passages before it. No two are about the same.
- mixed: questions of Natural Questions, GSM8K, nl2bash and Alpaca in turn, without passages. Hardly any two are.
- related: banking77, 12 of its intents. Here requests should be familiar; "same": the share of near
  questions that have its intent.

"first": the first 256 tokens of the text, as embedded formerly. "ends": its first and last 128. "asked": without what
requests have in common (router.embedding.templates); examples are embedded anew as soon as something was learnt.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from benchmarks.options import options, write
from benchmarks.recorded import NoData, rows
from benchmarks.tables import markdown
from benchmarks.templates.rules import rules
from router.embedding.embedder import Embedder
from router.embedding.templates import Digest, Templates
from store.admission.cutting import EMBEDDED_CHARACTERS, cut
from store.records import Example, Vector
from understudy.settings.models import FewShotSettings

HEADS = (0, 400, 700, 1000, 3000)
METHODS = ("first", "ends", "asked")
INTENTS = 12
_TOKENS = 254
"""Of 256, without the two that mark begin and end."""


@dataclass(frozen=True)
class Question:
    """What is asked behind the head, and a label of what it is about."""

    text: str
    about: str


def retrieval(data: Path, count: int) -> list[Question]:
    """Questions after their own passages. Raises NoData."""
    return [
        Question("\n".join(text for _, text in row["context"]) + f"\nQuestion: {row['prompt']}", row["id"])
        for row in rows(data / "workflow_beerqa.jsonl.gz")[:count]
    ]


def mixed(data: Path, count: int) -> list[Question]:
    """Questions of four sets in turn. Raises NoData."""
    files = ("bank_nq_dev", "bank_gsm8k_train", "bank_nl2bash_open", "bank_alpaca_open")
    sets = [rows(data / f"{name}.jsonl.gz")[: count // len(files)] for name in files]
    turns = chain.from_iterable(zip(*sets, strict=True))
    return [Question(row.get("prompt") or f"{row['instruction']} {row['input']}", row["id"]) for row in turns]


def related(data: Path, count: int) -> list[Question]:
    """Questions of some intents. Raises NoData."""
    found = rows(data / "sim_banking77.jsonl.gz")
    intents = sorted({row["intent"] for row in found})[:INTENTS]
    return [Question(row["text"], row["intent"]) for row in found if row["intent"] in intents][:count]


STREAMS: dict[str, Callable[[Path, int], list[Question]]] = {
    "retrieval": retrieval,
    "mixed": mixed,
    "related": related,
}


@dataclass
class _Kept:
    question: Question
    text: str
    digest: Digest
    vector: Vector


@dataclass
class Asking:
    """One stream behind one head, by one method."""

    embedder: Embedder
    tokenizer: Tokenizer
    method: str
    templates: Templates = field(default_factory=Templates)
    kept: list[_Kept] = field(default_factory=list)
    familiar: int = 0
    near: int = 0
    same: int = 0
    learning_s: float = 0.0

    def ask(self, question: Question, text: str, rule: FewShotSettings) -> None:
        """Decides about one request, and remembers it if it is novel."""
        began = time.thread_time()
        digest = self._digest(text)
        self.learning_s += time.thread_time() - began
        vector = self.embedder.embed_blocking(digest.text)
        near = [k for k in self._nearest(vector, rule.theta) if self._comparable(digest, k)]
        if len(near) >= rule.m:
            self.familiar += 1
            self.near += len(near)
            self.same += sum(kept.question.about == question.about for kept in near)
            return
        self.kept.append(_Kept(question, text, digest, vector))
        if self.method == "asked" and self.templates.news():
            self._embed_anew()

    def _digest(self, text: str) -> Digest:
        if self.method == "asked":
            return self.templates.asked("t", "s", text)
        whole = cut(text, EMBEDDED_CHARACTERS)
        return Digest(self._first(whole) if self.method == "first" else whole)

    def _first(self, text: str) -> str:
        ends = self.tokenizer.encode(text, add_special_tokens=False).offsets[:_TOKENS]
        return text[: ends[-1][1]] if ends else text

    def _nearest(self, vector: Vector, theta: float) -> list[_Kept]:
        if not self.kept:
            return []
        similarity = np.stack([kept.vector for kept in self.kept]) @ vector
        return [kept for kept, cosine in zip(self.kept, similarity, strict=True) if cosine >= theta]

    def _comparable(self, asked: Digest, kept: _Kept) -> bool:
        if self.method != "asked":
            return True
        example = Example(0, 0, "t", "s", kept.text, "", "", 0.0, embedded_text=kept.digest.text)
        return self.templates.comparable(asked, example)

    def _embed_anew(self) -> None:
        for kept in self.kept:
            digest = self.templates.digest("t", "s", kept.text)
            if digest != kept.digest:
                kept.digest, kept.vector = digest, self.embedder.embed_blocking(digest.text)


def measured(embedder: Embedder, streams: dict[str, Sequence[Question]]) -> Iterator[dict[str, Any]]:
    """One row per stream, head and method."""
    rule, tokenizer = FewShotSettings(), Tokenizer.from_file(str(embedder.tokenizer_file))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    for name, questions in streams.items():
        for characters in HEADS:
            head = rules(characters)
            for method in METHODS:
                asking = Asking(embedder, tokenizer, method)
                for question in questions:
                    asking.ask(question, f"{head}\n\n{question.text}".strip(), rule)
                yield {
                    "stream": name,
                    "head": characters,
                    "method": method,
                    "requests": len(questions),
                    "familiar": asking.familiar / len(questions),
                    "same": asking.same / asking.near if asking.near else None,
                    "learning_us": asking.learning_s / len(questions) * 1e6,
                }


def shown(found: Sequence[dict[str, Any]]) -> str:
    """The share of familiar requests: a row per stream and method, a column per head."""
    lines = []
    for stream in dict.fromkeys(row["stream"] for row in found):
        for method in METHODS:
            cells = [row for row in found if (row["stream"], row["method"]) == (stream, method)]
            lines.append([stream, method, *map(_cell, cells)])
    return markdown(["stream", "embedded", *(f"{characters} characters" for characters in HEADS)], lines)


def _cell(row: dict[str, Any]) -> str:
    familiar = f"{row['familiar']:.1%}"
    return (
        f"{familiar} (same {row['same']:.0%})"
        if row["stream"] == "related" and row["same"] is not None
        else familiar
    )


def main() -> None:
    """Prints the table."""
    parser = options(__doc__, data=True, cache=True)
    parser.add_argument("--count", type=int, default=400, help="requests per stream [%(default)s]")
    chosen = parser.parse_args()
    try:
        streams = {name: read(chosen.data, chosen.count) for name, read in STREAMS.items()}
    except NoData as absent:
        print(absent)
        return
    embedder = Embedder.open("package", chosen.cache / "models", deadline_ms=60_000)
    try:
        found = list(measured(embedder, streams))
    finally:
        embedder.close()
    print(shown(found))
    write(found, chosen.json)


if __name__ == "__main__":
    main()
