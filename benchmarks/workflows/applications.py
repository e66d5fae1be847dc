"""The applications: as definitions that the gateway carries out, with the inputs of each request."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from benchmarks.workflows.constants import Calibration
from benchmarks.workflows.speaking import FIELD, most_tokens, question
from loadtest.applications.shapes import words
from workflows.declared import World, read_definition
from workflows.definition import PASSES, Definition
from workflows.transform import Value

CORE, SMALL = "core", "small"
EMBEDDER, RERANKER, WEB = "embedder", "reranker", "web"
WORLD = World(
    {EMBEDDER: frozenset({"embed"}), RERANKER: frozenset({"rerank"}), WEB: frozenset({"search"})},
    is_model=lambda name: name in (CORE, SMALL),
    taken=lambda name: False,
)


@dataclass(frozen=True, slots=True)
class Application:
    """One of them."""

    name: str
    source: Mapping[str, Any]
    inputs: Callable[[str], Mapping[str, Value]]
    """Of a request, by its key."""
    by_hand: tuple[tuple[tuple[str, ...], ...], ...]
    """What LlamaDistPC does at once: groups one after the other, of branches side by side, of steps one after the other.
    `found.embed` is the embedding of the queries of a search."""

    def definition(self, passes: frozenset[str] = frozenset(PASSES)) -> Definition:
        """With these passes."""
        return read_definition(self.name.replace(" ", "-"), {**self.source, "passes": sorted(passes)}, WORLD)


def applications(calibration: Calibration) -> dict[str, Application]:
    """All of them, by name."""
    made = (search(calibration), naive(calibration), advanced(calibration), contextual(calibration))
    return {one.name: one for one in made}


def search(c: Calibration) -> Application:
    """Figure 2(a): a small model answers by heart and judges whether to search; the core model writes the answer."""
    steps = {
        "heuristic": _chat(c, "heuristic", "{{question}}", c.answer_tokens, model=SMALL),
        "judge": {
            **_chat(c, "judge", "{{question}} Answer: {{heuristic}}", 2, model=SMALL),
            "params": {FIELD: {"yes": c.searched_share}},
        },
        "needed": {"when": "{{judge}}", "equals": "yes"},
        "found": {"search": "{{question}}", "in": WEB, "k": c.web_hits, "if": "needed"},
        "written": {**_chat(c, "answer", "{{question}} {{found}}", c.answer_tokens), "if": "needed"},
        "known": {**_chat(c, "answer", "{{question}} {{heuristic}}", c.answer_tokens), "unless": "needed"},
        "answer": {"first_of": ["{{written}}", "{{known}}"]},
    }
    source = {"inputs": {"question": "last_user"}, "chain": _chain(steps), "output": "answer"}
    return Application("search", source, _asking(c), tuple(((name,),) for name in steps))


def naive(c: Calibration) -> Application:
    """Figure 2(c): the three best chunks are read one by one, and one answer is made of the three."""
    steps = {
        **_indexed(c),
        "found": {"search": "{{question}}", "in": "{{index}}", "k": c.top, "component": EMBEDDER},
        "parts": {"map": "{{found}}", **_chat(c, "part", "{{question}} {{item}}", c.answer_tokens)},
        "answer": _chat(c, "combine", "{{question}} {{parts}}", c.answer_tokens),
    }
    by_hand = ((("chunks", "index"), ("found.embed",)), (("found", "parts", "answer"),))
    return Application("naive RAG", _of_documents(steps), _reading(c), by_hand)


def advanced(c: Calibration) -> Application:
    """Figure 2(d): the question is expanded, what is found is reranked, and the answer is refined chunk by chunk."""
    queries = _chat(c, "expand", "{{question}}", c.queries * c.query_tokens)
    steps = {
        **_indexed(c),
        "queries": {
            **queries,
            "splits": "json",
            "items": c.queries,
            "params": {FIELD: {"items": c.queries}},
        },
        "found": {"search": "{{queries}}", "in": "{{index}}", "k": c.hits, "component": EMBEDDER},
        "top": {"rerank": "{{found}}", "by": "{{question}}", "k": c.top, "component": RERANKER},
        "answer": {
            "fold": "{{top}}",
            **_chat(c, "refine", "{{question}} {{item}} {{so_far}}", c.answer_tokens),
            "first": _prompt(c, "part", "{{question}} {{item}}"),
        },
    }
    by_hand = ((("chunks", "index"), ("queries",)), (("found", "top", "answer"),))
    return Application("advanced RAG", _of_documents(steps), _reading(c), by_hand)


def contextual(c: Calibration) -> Application:
    """A chat per chunk says where in the document the chunk stands, before it is embedded."""
    context = _chat(c, "context", "{{documents}} {{item}}", c.contextual_answer_tokens)
    steps = {
        "chunks": {"split": "{{documents}}", "tokens": c.contextual_chunk_tokens, "component": EMBEDDER},
        "contexts": {"map": "{{chunks}}", **context},
        "placed": {"merge": ["{{contexts}}", "{{chunks}}"]},
        "index": {"ingest": "{{placed}}", "component": EMBEDDER},
        "found": {"search": "{{question}}", "in": "{{index}}", "k": c.hits, "component": EMBEDDER},
        "top": {"rerank": "{{found}}", "by": "{{question}}", "k": c.top, "component": RERANKER},
        "answer": _chat(c, "part", "{{question}} {{top}}", c.answer_tokens),
    }

    @lru_cache(maxsize=512)
    def inputs(key: str) -> Mapping[str, Value]:
        document = words(f"document/{key}", c.contextual_document_tokens)
        return {"question": question(key, c.question_tokens), "documents": [document]}

    by_hand = (
        (("chunks", "contexts", "placed", "index"), ("found.embed",)),
        (("found", "top", "answer"),),
    )
    return Application("contextual retrieval", _of_documents(steps), inputs, by_hand)


def _indexed(c: Calibration) -> dict[str, Any]:
    chunks = {"split": "{{documents}}", "tokens": c.chunk_tokens, "overlap": c.overlap_tokens}
    return {
        "chunks": {**chunks, "component": EMBEDDER},
        "index": {"ingest": "{{chunks}}", "component": EMBEDDER},
    }


def _of_documents(steps: Mapping[str, Any]) -> dict[str, Any]:
    inputs = {"question": "last_user", "documents": "texts"}
    return {"inputs": inputs, "chain": _chain(steps), "output": "answer"}


def _chain(steps: Mapping[str, Any]) -> list[dict[str, Any]]:
    """In the order written, as LlamaIndex and LangChain have it: what is independent is for the passes to see."""
    return [{name: step} for name, step in steps.items()]


def _chat(c: Calibration, role: str, text: str, tokens: int, model: str = CORE) -> dict[str, Any]:
    return {"chat": _prompt(c, role, text), "model": model, "max_tokens": most_tokens(tokens)}


def _prompt(c: Calibration, role: str, text: str) -> list[dict[str, str]]:
    instruction = words(f"instruction/{role}", c.instruction_tokens)
    return [{"role": "system", "content": instruction}, {"role": "user", "content": text}]


def _asking(c: Calibration) -> Callable[[str], Mapping[str, Value]]:
    return lambda key: {"question": question(key, c.question_tokens)}


def _reading(c: Calibration) -> Callable[[str], Mapping[str, Value]]:
    @lru_cache(maxsize=512)
    def inputs(key: str) -> Mapping[str, Value]:
        chance = random.Random(f"document/{key}")
        spread = round(c.chunks * c.chunks_spread)
        chunks = chance.randint(c.chunks - spread, c.chunks + spread)
        tokens = chunks * (c.chunk_tokens - c.overlap_tokens) + c.overlap_tokens
        return {
            "question": question(key, c.question_tokens),
            "documents": [words(f"document/{key}", tokens)],
        }

    return inputs
