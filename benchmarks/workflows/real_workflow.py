"""The workflow that is measured over real engines: advanced RAG (Figure 2(d) of Teola), written as a chain of modules.

Sizes are those of section 7, as in constants.py. The models' texts are not used: they have random weights, or know nothing
of these documents. So that they write lists all the same, the question's rewriting is held to an expression by vLLM's
structured output, and every answer has its full length (`ignore_eos`).
"""

from __future__ import annotations

from typing import Any

from benchmarks.workflows.constants import Calibration
from workflows.definition import PASSES

MODEL, NAME = "writer", "doc-qa"
QUERY_CHARACTERS = 48
"""Of a rewritten question. Tokens of the tiny models' words, each with its blank, are 6 to 8 characters."""
_SIZES = Calibration()
_QUERY = f'"[a-z ]{{{QUERY_CHARACTERS}}}"'
_LIST = r"\[" + ", ".join([_QUERY] * _SIZES.queries) + r"\]"
_EXPAND = (
    "You prepare questions for a search in a document that you cannot see. Write the question anew in three ways that "
    "differ in their words but not in their meaning, each as short as a search needs it. Answer with a JSON list of three "
    "strings and with nothing else."
)
_REFINE = (
    "You answer a question from passages of a document, one passage at a time. Keep to what the passages say, and say so "
    "where they do not say enough. Where there is an answer so far, make it better by what this passage adds, and leave it "
    "as it is where the passage adds nothing."
)


STEPS = ("chunks", "queries", "found", "top", "answer")
"""Those with a value to compare: an index has none."""


def workflow(*, passes: bool, chained: bool = True) -> dict[str, Any]:
    """Its definition, as a configuration has it. `chained`: one module after the other, as LlamaIndex and LangChain have it;
    else order comes from references alone."""
    steps = _steps()
    written: dict[str, Any] = (
        {"chain": [{name: step} for name, step in steps.items()]} if chained else {"steps": steps}
    )
    return {
        "inputs": {"question": "last_user", "documents": "texts"},
        **written,
        "output": "answer",
        "passes": list(PASSES) if passes else [],
    }


def _steps() -> dict[str, Any]:
    s = _SIZES
    asked, part = "Question: {{question}}", "\nPassage: {{item}}"
    return {
        "chunks": {"split": "{{documents}}", "tokens": s.chunk_tokens, "overlap": s.overlap_tokens},
        "index": {"ingest": "{{chunks}}"},
        "queries": {
            **_chat(_EXPAND, asked),
            "max_tokens": 4 * QUERY_CHARACTERS,
            "splits": "json",
            "items": s.queries,
            "params": {"structured_outputs": {"regex": _LIST}},
        },
        "found": {"search": "{{queries}}", "in": "{{index}}", "k": s.hits},
        "top": {"rerank": "{{found}}", "by": "{{question}}", "k": s.top},
        "answer": {
            "fold": "{{top}}",
            **_chat(_REFINE, f"{asked}{part}\nAnswer so far: {{{{so_far}}}}"),
            "first": _chat(_REFINE, asked + part)["chat"],
            "max_tokens": s.answer_tokens,
            "params": {"ignore_eos": True},
        },
    }


def _chat(instruction: str, text: str) -> dict[str, Any]:
    messages = [{"role": "system", "content": instruction}, {"role": "user", "content": text}]
    return {"chat": messages, "model": MODEL, "temperature": 0}
