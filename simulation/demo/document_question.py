"""The demo's question about documents: a workflow that the gateway carries out, called as a model."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openai import AsyncOpenAI

WORKFLOW = "doc-qa"
"""The model name that asks it."""
READER = "reader"
"""The engine, and the model, that quotes from its prompt."""
QUESTION = "Who was the first keeper of the lighthouse?"
DOCUMENTS = (
    "The lighthouse of Brandt was built in 1871. It is 34 metres high. Its first keeper was Ada Holm, who lived there for "
    "forty years with two goats.",
    "The ferry to Brandt leaves at nine and at four. In winter it leaves at noon only. Dogs travel free.",
    "Bread from Brandt is baked with seaweed. The bakery opens at six and is closed on Mondays.",
)


@dataclass(frozen=True, slots=True)
class DocumentAnswer:
    """What came of it."""

    text: str
    run: str
    took_s: float
    steps: int
    """Chats, embeddings, searches and so on, each piece counted."""


def workflow() -> dict[str, Any]:
    """The workflow, as it stands in a configuration. docs/tutorial/rag.md explains it line by line."""
    return {
        "inputs": {"question": "last_user", "documents": "texts"},
        "model": READER,
        "steps": {
            "chunks": {"split": "{{documents}}", "tokens": 64, "overlap": 8},
            "index": {"ingest": "{{chunks}}"},
            "queries": {"chat": "Rewrite in 3 ways, as a JSON list: {{question}}", "splits": "json"},
            "found": {"search": "{{queries}}", "in": "{{index}}", "k": 4},
            "top": {"rerank": "{{found}}", "by": "{{question}}", "k": 2},
            "answer": {
                "fold": "{{top}}",
                "chat": "Question: {{question}}\nPassage: {{item}}\nSo far: {{so_far}}",
            },
        },
        "output": "answer",
    }


async def ask(openai: AsyncOpenAI) -> DocumentAnswer:
    """Ask it through the SDK, and look at its run. Raises openai.OpenAIError."""
    began = time.perf_counter()
    raw = await openai.chat.completions.with_raw_response.create(
        model=WORKFLOW,
        messages=[{"role": "user", "content": QUESTION}],
        extra_body={"understudy": {"inputs": {"documents": list(DOCUMENTS)}}},
    )
    took_s = time.perf_counter() - began
    run = raw.headers["x-understudy-run"]
    shown = await openai.get(f"/runs/{run}", cast_to=object)
    steps = shown["steps"] if isinstance(shown, dict) else ()
    return DocumentAnswer(raw.parse().choices[0].message.content or "", run, took_s, len(steps))
