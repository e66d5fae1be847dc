"""What replay works with: a tenant's own examples, how each can be asked again, and which engines are for which example.

Everything is read under the example's own tenant. What another tenant lends is read by nobody here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engines.asking import chat_of
from engines.chat import ChatRequest
from engines.engine import Engine
from learning.bank.demonstrations import as_chat
from router.digest import NO_INSTRUCTIONS, asked_under, carries_tools, is_plain_text, question, scope_of
from store import Store
from store.admission import Admission, Pair, Verdict
from store.examples.twins import TwinRule, same_question
from store.records import Example, Vector

_TWINS = 4


@dataclass(frozen=True, slots=True)
class Engines:
    """Who does what for one example."""

    reference: Engine
    small: Engine | None
    """The smallest of the same model, whose own answer shows whether an example is needed; None where there is none."""
    generator: Engine


class Material:
    """Over an open store with an index."""

    def __init__(
        self,
        store: Store,
        engines: Mapping[str, Engine],
        models: Sequence[Sequence[str]],
        admission: Admission,
        twin_rule: TwinRule,
        *,
        engine: str | None = None,
        generator: str | None = None,
    ) -> None:
        """`models`: the engines of each served model, small to large. `engine`: answers for all; None: each its own."""
        self.store = store
        self._engines = engines
        self._models = [tuple(model) for model in models]
        self._admission = admission
        self._twin_rule = twin_rule
        self._engine = engine
        self._generator = generator

    def example(self, tenant: str, id: int) -> Example | None:
        """The tenant's own example; None where it is gone. Blocks."""
        return self.store.examples.get(tenant, id)

    def instructions(self, example: Example) -> str | None:
        """Under what it was asked; None where that was not kept, so that it cannot be asked again. Blocks."""
        kept = self.store.examples.instructions(example.tenant, example.scope)
        if kept is None and example.scope == scope_of(NO_INSTRUCTIONS):
            return NO_INSTRUCTIONS
        return kept

    def engines_for(self, example: Example) -> Engines | None:
        """By the model whose engine answered it; for an example from elsewhere the first model. None without a model."""
        models = [m for m in self._models if example.source_engine in m] or self._models[:1]
        if not models and self._engine is None:
            return None
        model = models[0] if models else ()
        reference = self._engine or model[-1]
        small = next((name for name in model if name != reference), None)
        return Engines(
            self._engines[reference],
            None if small is None else self._engines[small],
            self._engines[self._generator or reference],
        )

    def twins_answers(self, example: Example) -> list[str]:
        """What the bank says elsewhere to the very same question: answers that are there already. Blocks."""
        vector = self._vector(example)
        indexes = self.store.indexes
        if vector is None or indexes is None:
            return []
        near = [
            id
            for id, similarity in indexes.nearest(example.tenant, vector, _TWINS + 1)
            if id != example.id and similarity >= self._twin_rule.min_similarity
        ]
        return [
            twin.answer
            for twin in self.store.examples.by_ids(example.tenant, near, serving=False)
            if twin.scope == example.scope and same_question(twin.question, example.question)
        ]

    def admitted(self, fields: Mapping[str, Any], answer: str) -> Verdict:
        """What the rules that every pair must pass say of an answer of the reference's. About a millisecond of CPU."""
        chat = as_chat(dict(fields))
        return self._admission.judge(
            Pair(
                offers_tools=carries_tools(chat),
                plain_text=is_plain_text(chat.messages),
                status=200,
                complete=True,
                opted_out=False,
                from_reference=True,
                question=question(chat.messages),
                answer=answer,
                finish_reason="stop",
                choices=1,
                calls_tools=False,
            )
        )

    def _vector(self, example: Example) -> Vector | None:
        found = self.store.examples.vectors_of(example.tenant, [example.id], example.embedding_version)
        return found.get(example.id)


def request(engine: Engine, instructions: str, asked: str, **more: Any) -> ChatRequest:
    """A question under an example's instructions, as `engine` is asked it."""
    fields = asked_under(instructions, asked)
    info = engine.info
    rest = {name: value for name, value in fields.items() if name != "messages"}
    return chat_of({"model": info.model or info.name, **rest, **more}, fields["messages"])
