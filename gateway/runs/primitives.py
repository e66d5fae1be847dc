"""Carries out the steps of a workflow that are no chat: components are asked, and what needs nobody is computed here.

| primitive                                | done by                          | its value                       |
|------------------------------------------|----------------------------------|---------------------------------|
| split, when, first_of, merge, transform  | workflows.compute                | text or list                    |
| gather                                   | workflows.compute                | what its pieces make together   |
| embed                                    | a component                      | opaque: texts and vectors       |
| ingest                                   | an index                         | opaque: the index               |
| search                                   | an index, or a component         | list                            |
| rerank                                   | a component                      | scores                          |
| tool                                     | a component                      | text                            |

A tool with effects is asked only once the store has committed that it is about to be, and never again after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from engines.components.component import ComponentError, Work
from gateway.off_loop import off_loop
from gateway.runs.indexes import RunIndex
from gateway.runs.knobs import RunKnobs
from gateway.runs.live import LiveRun
from gateway.runs.means import Means
from workflows import compute
from workflows.errors import WorkflowError
from workflows.graph import Step
from workflows.names import StepId, VariableId
from workflows.progress import Changes
from workflows.transform import TransformFailed, bounded
from workflows.values import Held, Opaque, Vectors

log = structlog.get_logger(__name__)

CHAT = "chat"
Outcome = Mapping[VariableId, Held | TransformFailed]


class NotCommitted(Exception):
    """The store has not taken that a tool with effects is about to be asked."""


class Primitives:
    """See the module."""

    def __init__(self, means: Means, knobs: RunKnobs) -> None:
        self._means = means
        self._knobs = knobs

    async def carry_out(self, run: LiveRun, id: StepId, kept: Callable[[], Awaitable[None]]) -> Changes:
        """What follows from a step whose start was noted. Raises nothing but CancelledError."""
        step = run.graph.steps[id]
        work = Work(run.id, run.tenant, id, step.depth, asyncio.get_running_loop().time())
        try:
            if step.effects:
                await self._committed(run, step, kept)
            return run.progress.answered(id, await self._outcome(run, step, work))
        except ComponentError as error:
            return run.progress.refused(id, "step_failed", error.message, _STATUS)
        except WorkflowError as error:
            return run.progress.refused(id, error.code, error.message, error.status)
        except NotCommitted:
            message = "The store could not note that it was about to be asked, so it was not."
            return run.progress.refused(id, "store_unavailable", message, 503)
        except Exception as error:
            log.error("step_failed", run=run.id, step=id, error=type(error).__name__)
            return run.progress.refused(id, "internal_error", "The gateway failed on this step.", 500)
        finally:
            _note(run, step, work)

    async def _committed(self, run: LiveRun, step: Step, kept: Callable[[], Awaitable[None]]) -> None:
        await kept()
        if run.flow is None or run.flow.committed.get(step.id) != "running":
            raise NotCommitted

    async def _outcome(self, run: LiveRun, step: Step, work: Work) -> Outcome:
        held = run.progress.held(step.id)
        if step.primitive in compute.COMPUTED:
            return await self._computed(run, step, held)
        value = await _ASKED[step.primitive](self, run, step, held, work)
        (variable,) = step.writes.values()
        if not isinstance(value, Opaque):
            try:
                value = bounded(value, self._knobs.max_value_bytes)
            except TransformFailed as failure:
                return {variable: failure}
        return {variable: value}

    async def _computed(self, run: LiveRun, step: Step, held: Mapping[str, Held]) -> Outcome:
        if compute.needs_index(step):
            (variable,) = step.writes.values()
            return {variable: Opaque(self._index(run, step.of))}
        component = str(step.what.get("component") or "")

        def offsets(text: str) -> list[tuple[int, int]]:
            return self._means.components.offsets(component, text)

        size = sum(_size(each) for each in held.values())
        return await off_loop(size, compute.computed, step, held, offsets, self._knobs.max_value_bytes)

    # ---- components

    async def _embed(self, run: LiveRun, step: Step, held: Mapping[str, Held], work: Work) -> Held:
        texts = compute.texts(step, held)
        vectors = await self._means.components.embed(_component(step), texts, work)
        return Opaque(Vectors(texts, vectors), vectors.nbytes)

    async def _ingest(self, run: LiveRun, step: Step, held: Mapping[str, Held], work: Work) -> Held:
        vectors = _vectors(held)
        index = self._index_for(run, step)
        await index.add(int(step.what["place"]), vectors.texts, vectors.rows)
        return Opaque(index)

    async def _search(self, run: LiveRun, step: Step, held: Mapping[str, Held], work: Work) -> Held:
        k, found = int(step.what["k"]), list[str]()
        if _component(step) and "index" not in step.what:
            asked = [
                self._means.components.search(_component(step), query, k, work)
                for query in compute.texts(step, held)
            ]
            for hits in await _all(asked):
                found += hits
        else:
            index = self._index_of(run, step, held)
            for vector in _vectors(held).rows:
                found += [text for text, _, _ in await index.search(vector, k)]
        return list(dict.fromkeys(found))

    async def _rerank(self, run: LiveRun, step: Step, held: Mapping[str, Held], work: Work) -> Held:
        texts, by = compute.texts(step, held), held[step.what["by"]]
        assert isinstance(by, str)
        scores = await self._means.components.rerank(_component(step), by, texts, work)
        return [repr(score) for score in scores]

    async def _tool(self, run: LiveRun, step: Step, held: Mapping[str, Held], work: Work) -> Held:
        may_retry = not step.effects or bool(step.what.get("idempotent"))
        key = f"{run.id}:{step.id}" if step.effects or may_retry else ""
        arguments = compute.arguments(step, held)
        return await self._means.components.call(_component(step), arguments, work, key, may_retry)

    # ---- indexes

    def _index_for(self, run: LiveRun, step: Step) -> RunIndex:
        """The index that an `ingest` adds to."""
        collection = step.what.get("collection")
        return self._collection(run, step, str(collection)) if collection else self._index(run, step.of)

    def _index(self, run: LiveRun, of: str) -> RunIndex:
        assert run.flow is not None
        if of not in run.flow.indexes:
            run.flow.indexes[of] = self._means.indexes.of_run(run.id)
        return run.flow.indexes[of]

    def _collection(self, run: LiveRun, step: Step, name: str) -> RunIndex:
        assert run.flow is not None
        return self._means.indexes.collection(
            run.tenant,
            name,
            embedder=_component(step),
            contributor=run.flow.caller.contributor,
            source=f"{run.id}:{step.of}",
        )


_ASKED: Mapping[str, Callable[..., Awaitable[Any]]] = {
    "embed": Primitives._embed,
    "ingest": Primitives._ingest,
    "search": Primitives._search,
    "rerank": Primitives._rerank,
    "tool": Primitives._tool,
}
