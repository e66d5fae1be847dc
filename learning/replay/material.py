"""Reads what replay works with: a tenant's own examples, how each can be asked again, and by which engines.

Everything is read under the example's own tenant; what another tenant lends is never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engines.asking import chat_of
from engines.chat import ChatRequest
from engines.engine import Engine
from learning.bank.demonstrations import as_chat, whole_pair
from learning.outcomes.wrapping import as_used
from router.digest import (
    NO_INSTRUCTIONS,
    asked_under,
    instructions,
    question,
    scope_of,
    shared_scope,
)
from store import Store
from store.admission import Admission, Verdict
from store.examples.twins import TwinRule, same_question
from store.records import Example

_TWINS = 4


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines that work on one example."""

    reference: Engine
    small: Engine | None
    """The smallest of the same model, whose own answer shows whether an example is needed; None if there is none."""
    generator: Engine


class NotReplayable(Exception):
    """An example that cannot be replayed now. The text is a code: gone, held, no_engine or instructions_not_kept."""


@dataclass(frozen=True, slots=True)
class Subject:
    """An example that can be replayed."""

    example: Example
    instructions: str
    engines: Engines


class Material:
    """Over an open store with an index. Its methods block."""

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
        judge: str | None = None,
    ) -> None:
        """`models`: the engines of each served model, small to large. `engine`: answers for all; None: each its own.
        `judge`: sees what they answer."""
        self.store = store
        self._engines = engines
        self._models = [tuple(model) for model in models]
        self._admission = admission
        self._twin_rule = twin_rule
        self._engine = engine
        self._generator = generator
        self._judge = judge

    def subject(self, tenant: str, id: int) -> Subject:
        """The tenant's own example with all that asking it again takes. Raises NotReplayable."""
        example = self.store.examples.get(tenant, id)
        if example is None:
            raise NotReplayable("gone")
        engines = self.engines_for(example)
        if engines is None:
            raise NotReplayable("no_engine")
        instructions = kept_instructions(self.store, example)
        if instructions is None:
            raise NotReplayable("instructions_not_kept")
        return Subject(example, instructions, engines)

    def engines_for(self, example: Example) -> Engines | None:
        """By the model whose engine answered it; for an example from elsewhere the first model. None without a model."""
        models = [m for m in self._models if example.source_engine in m] or self._models[:1]
        if not models and self._engine is None:
            return None
        model = models[0] if models else ()
        reference = self._engine or model[-1]
        small = next((name for name in model if name != reference), None)
        if not self._are_in_region(example.tenant, (reference, small, self._generator, self._judge)):
            return None
        return Engines(
            self._engines[reference],
            None if small is None else self._engines[small],
            self._engines[self._generator or reference],
        )

    def _are_in_region(self, tenant: str, names: Iterable[str | None]) -> bool:
        """Tell if a tenant's texts may be sent to each of these engines."""
        record = self.store.tenant_records.get(tenant)
        region = record.region if record is not None else ""
        return not region or all(
            self._engines[name].info.region == region for name in names if name is not None
        )

    def nearest(self, tenant: str, ids: Sequence[int], count: int) -> dict[int, list[tuple[int, float]]]:
        """Each example's `count` nearest others: (id, cosine similarity). Those without a vector yet are left out."""
        indexes = self.store.indexes
        assert indexes is not None, "a replay's store has an index"
        found = {}
        for id, vector in self.store.examples.vectors_of(tenant, ids, indexes.version).items():
            pairs = indexes.nearest(tenant, vector, count + 1)
            found[id] = [pair for pair in pairs if pair[0] != id][:count]
        return found

    def twins_answers(self, example: Example) -> list[str]:
        """Return the answers of other examples of the bank to the very same question."""
        pairs = self.nearest(example.tenant, [example.id], _TWINS).get(example.id, [])
        near = [id for id, similarity in pairs if similarity >= self._twin_rule.min_similarity]
        return [
            twin.answer
            for twin in self.store.examples.by_ids(example.tenant, near, serving=False)
            if twin.scope == example.scope and same_question(twin.question, example.question)
        ]

    def admitted(self, fields: Mapping[str, Any], answer: str) -> Verdict:
        """Apply the rules of admission to a new answer: see `judged`."""
        return judged(self._admission, fields, answer)


def judged(admission: Admission, fields: Mapping[str, Any], answer: str) -> Verdict:
    """Apply the rules of admission to an answer that a reference engine gave to a request with these fields.

    The answer as clients use it. About a millisecond of CPU.
    """
    chat = as_chat(dict(fields))
    used = as_used(answer, instructions(chat), question(chat.messages))
    return admission.judge(replace(whole_pair(chat, used), from_reference=True))


def kept_instructions(store: Store, example: Example) -> str | None:
    """The instructions an example was asked under; None if they were not kept. Blocks."""
    kept = store.examples.instructions(example.tenant, example.scope)
    if kept is None and shared_scope(example.scope) == scope_of(NO_INSTRUCTIONS):
        return NO_INSTRUCTIONS
    return kept


def request(engine: Engine, instructions: str, asked: str, **more: Any) -> ChatRequest:
    """A question under an example's instructions, as `engine` is asked it."""
    fields = asked_under(instructions, asked)
    info = engine.info
    rest = {name: value for name, value in fields.items() if name != "messages"}
    return chat_of({"model": info.model or info.name, **rest, **more}, fields["messages"])
