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
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import structlog

from engines.components.component import ComponentError, Work
from engines.errors import RequestError
from engines.off_loop import off_loop
from workflows import compute
from workflows.errors import WorkflowError
from workflows.graph import Step
from workflows.names import StepId, VariableId, scoped
from workflows.progress import Changes
from workflows.running.asking import StepAsker, refused
from workflows.running.indexes import RunIndex
from workflows.running.knobs import RunKnobs
from workflows.running.live import MAX_ATTEMPTS, MAX_COMPUTED, LiveRun
from workflows.running.means import Means
from workflows.running.scores import scored
from workflows.transform import TransformFailed, bounded, size_bytes
from workflows.values import Held, Opaque, Vectors

log = structlog.get_logger(__name__)

T = TypeVar("T")

CHAT = "chat"
_STATUS = 502
"""The status of a step whose component did not answer."""
Outcome = Mapping[VariableId, Held | TransformFailed]


class NotCommitted(Exception):
    """The store has not taken that a tool with effects is about to be asked."""


class Primitives:
    """See the module."""

    def __init__(self, means: Means, knobs: RunKnobs, asker: StepAsker) -> None:
        self._asker = asker
        self._means = means
        self._knobs = knobs

    async def carry_out(self, run: LiveRun, id: StepId, kept: Callable[[], Awaitable[None]]) -> Changes:
        """Carry out a step whose start was noted, and return what follows. Raises nothing but CancelledError."""
        step = run.graph.steps[id]
        named = str(step.what.get("component") or "")
        try:
            admitted = self._asker.door.component(run.callers[id], named)
        except RequestError as error:
            return run.progress.refused(id, *refused(error))
        work = Work(run.id, run.tenant, id, step.depth, asyncio.get_running_loop().time())
        try:
            if step.effects:
                await self._committed(run, step, kept)
            usd_each = 0.0 if step.primitive in compute.COMPUTED else self._means.usd_per_item.get(named, 0.0)
            most_usd = usd_each * _items(step, run.progress.held(id)) if usd_each else 0.0
            bill = await self._asker.door.reserve(admitted, named, most_usd)
            try:
                return run.progress.answered(id, await self._outcome(run, step, work))
            finally:
                items = sum(each.items for each in work.shared)
                usd = usd_each * items
                run.spent.usd += usd
                if usd:
                    run.step(id, cost_usd=usd)
                    self._asker.door.book(admitted, named, items, usd)
                if bill is not None:
                    bill.settle(usd, None)
        except ComponentError as error:
            return run.progress.refused(id, "step_failed", error.message, _STATUS)
        except (RequestError, WorkflowError) as error:
            return run.progress.refused(id, *refused(error))
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
        if not run.is_kept(step.id):
            raise NotCommitted

    async def _outcome(self, run: LiveRun, step: Step, work: Work) -> Outcome:
        held = run.progress.held(step.id)
        if step.primitive in compute.COMPUTED:
            return await self._computed(run, step, held)
        (variable,) = step.writes.values()
        try:
            value = await _ASKED[step.primitive](self, run, step, held, work)
            if not isinstance(value, Opaque):
                knobs = self._knobs
                most = knobs.max_list_bytes if isinstance(value, list) else knobs.max_value_bytes
                value = bounded(value, most)
        except TransformFailed as failure:
            return {variable: failure}
        return {variable: value}

    async def _computed(self, run: LiveRun, step: Step, held: Mapping[str, Held]) -> Outcome:
        if compute.needs_index(step):
            (variable,) = step.writes.values()
            return {variable: Opaque(self._index_for(run, step))}
        component = str(step.what.get("component") or "")

        def offsets(text: str) -> list[tuple[int, int]]:
            return self._means.components.offsets(component, text)

        size = sum(_size(each) for each in held.values())
        made = await off_loop(size, compute.computed, step, held, offsets, self._knobs.max_list_bytes)
        for value in made.values():
            if step.primitive == "split" and isinstance(value, list):
                run.step(step.id, items=len(value))
        return made

    # ---- components

    async def _embed(self, run: LiveRun, step: Step, held: Mapping[str, Held], work: Work) -> Held:
        texts = compute.texts(step, held)
        vectors = await self._means.components.embed(_component(step), texts, work)
        return Opaque(Vectors(texts, list(vectors)), vectors.nbytes)

    async def _ingest(self, run: LiveRun, step: Step, held: Mapping[str, Held], work: Work) -> Held:
        vectors, index = compute.vectors(step, held), self._index_for(run, step)
        await index.add(int(step.what["start"]), vectors.texts, vectors.rows)
        return Opaque(index)

    async def _search(self, run: LiveRun, step: Step, held: Mapping[str, Held], work: Work) -> Held:
        k, where = int(step.what["k"]), str(step.what["index"])
        kind, _, name = where.partition(":")
        if kind == "component":
            queries = compute.texts(step, held)
            search = self._means.components.search
            found = await _all([search(_component(step), query, k, work) for query in queries])
            return [text for hits in found for text in hits]
        index = self._collection(run, step, name) if kind == "collection" else _opaque(held[name])
        found = [
            [text for text, _, _ in await index.search(row, k)] for row in compute.vectors(step, held).rows
        ]
        return [text for hits in found for text in hits]

    async def _rerank(self, run: LiveRun, step: Step, held: Mapping[str, Held], work: Work) -> Held:
        texts, by = compute.texts(step, held), held[step.what["by"]]
        assert isinstance(by, str)
        rerank, name = self._means.components.rerank, _component(step)
        known = run.flow.scores.setdefault(step.of, {})
        return compute.scores(await scored(known, texts, lambda new: rerank(name, by, new, work)))

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
        if of not in run.flow.indexes:
            run.flow.indexes[of] = self._means.indexes.of_run(run.id)
        return run.flow.indexes[of]

    def _collection(self, run: LiveRun, step: Step, name: str) -> RunIndex:
        if run.no_store and step.primitive != "search":
            raise WorkflowError(
                f"The collection '{name}' keeps texts, and nothing of this request may be stored (no-store).",
                code="collection_not_stored",
            )
        return self._means.indexes.collection(
            run.tenant,
            scoped(run.row.end_user, name),
            embedder=_component(step),
            contributor=run.callers[step.id].contributor,
            source=f"{run.id}:{step.of}",
        )


def most_attempts(step: Step) -> int:
    """In how many processes a step may be begun. An embedder and a reranker compute, wherever they are."""
    searches = step.primitive == "search" and "vectors" not in step.what
    return MAX_ATTEMPTS if searches or step.primitive in (CHAT, "tool") else MAX_COMPUTED


def _component(step: Step) -> str:
    return str(step.what.get("component") or "")


def _opaque(value: Held) -> Any:
    assert isinstance(value, Opaque)
    return value.held


def _size(held: Held) -> int:
    """Return the cost of working on a value, in bytes."""
    return 0 if isinstance(held, Opaque) else size_bytes(held)


async def _all(asked: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All answers in their order; where one fails, the others are cancelled."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in asked]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


def _items(step: Step, held: Mapping[str, Held]) -> int:
    """Count the texts, searches or calls that a component is asked for at most."""
    return len(compute.texts(step, held)) if "texts" in step.what else int(step.primitive == "tool")


def _note(run: LiveRun, step: Step, work: Work) -> None:
    """Note a component's part in the step, for the page of the run."""
    if not work.shared:
        return
    last = work.shared[-1]
    queued = run.steps[step.id].queued_at_s
    figures: dict[str, Any] = {"items": sum(each.items for each in work.shared), "batch": last.batch}
    if queued is not None:
        figures["started_at_s"] = queued + work.shared[0].waited_s
    run.step(step.id, **figures)


_ASKED: Mapping[str, Callable[..., Awaitable[Any]]] = {
    "embed": Primitives._embed,
    "ingest": Primitives._ingest,
    "search": Primitives._search,
    "rerank": Primitives._rerank,
    "tool": Primitives._tool,
}
