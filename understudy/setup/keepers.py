"""Which keepers a configuration asks for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from understudy.settings.config import Config

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from gateway.keepers.exact import ExactKeeper
    from gateway.keepers.keeper import Keeper
    from gateway.keepers.request import RequestKeeper
    from gateway.keepers.text import TextKeeper
    from router.shedding import Loaded
    from understudy.memory import Memory
    from understudy.settings.memory import MemorySettings


def exact_keeper(memory: Memory | None, config: Config) -> ExactKeeper | None:
    """What keeps answers for exact repeats; None where nothing does."""
    if memory is None or memory.exact is None or config.memory is None:
        return None
    from gateway.keepers.exact import ExactKeeper

    states = memory.store.jobs.engine_states
    return ExactKeeper(
        memory.exact,
        tool_calls=config.memory.advanced.exact_tool_calls,
        unmerged=lambda engine, reason: states.add_errors({(engine, reason): 1}, time.time()),
    )


def books(memory: Memory | None, config: Config, load: Loaded) -> RequestKeeper | None:
    """What books requests that never reach the pipeline; None where nothing is remembered."""
    if memory is None:
        return None
    from gateway.keepers.request import RequestKeeper

    return RequestKeeper(
        memory.requests, memory.store.decisions.usage, texts=_texts(memory, config.memory, load)
    )


def _texts(memory: Memory, settings: MemorySettings | None, load: Loaded) -> TextKeeper | None:
    """What keeps texts, for one thread; None where none are kept."""
    if settings is None or memory.requests is None or not settings.request_texts.enabled:
        return None
    from gateway.keepers.text import Allowance, TextKeeper
    from understudy.setup.examples import admission

    return TextKeeper(
        memory.store.decisions.texts,
        admission(settings),
        Allowance(),
        opted_out_keys=settings.examples.admission.opted_out_keys,
        load=load,
    )


def keepers(
    memory: Memory | None,
    config: Config,
    registry: CollectorRegistry,
    load: Loaded,
    around_examples: Callable[[Keeper], list[Keeper]],
) -> list[Keeper]:
    """All others, in the order in which they run; none when nothing is remembered."""
    settings = config.memory
    if memory is None or settings is None:
        return []
    # Imported here: a gateway without memory needs neither the admission rules nor what they stand on.
    from gateway.keepers.choice import ChoiceKeeper
    from gateway.keepers.example import ExampleKeeper
    from gateway.keepers.request import RequestKeeper
    from gateway.keepers.response import ResponseKeeper
    from gateway.keepers.use import UseKeeper
    from store.admission.cutting import EMBEDDED_CHARACTERS
    from understudy.setup.examples import admission

    store = memory.store
    found: list[Keeper] = [ResponseKeeper(store.owned, store.answers.responses)]
    if memory.embedder is not None and config.models:
        from gateway.keepers.task import TaskKeeper
        from gateway.task_metrics import TaskMetrics

        # First: who finds a request's row in the log, to give feedback on it, finds its label, too.
        opted_out = settings.examples.admission.opted_out_keys
        found.append(
            TaskKeeper(
                store.tasks,
                memory.embedder,
                admission(settings),
                opted_out_keys=opted_out,
                metrics=TaskMetrics(registry),
            )
        )
    if memory.embedder is not None and store.indexes is not None:
        examples = settings.examples
        dearest = max((e.price.output_usd_per_mtok or 0.0 for e in config.engines.values()), default=0.0)
        keeper = ExampleKeeper(
            store.examples,
            memory.embedder,
            admission(settings),
            store.indexes.nearest,
            embedded_characters=EMBEDDED_CHARACTERS,
            templates=memory.templates,
            standing=store.examples.contributors.standings().of,
            opted_out_keys=examples.admission.opted_out_keys,
            load=load,
        )
        found += around_examples(keeper)
        found.append(UseKeeper(store.examples.ledger, dearest))
        if config.feedback.enabled or any(m.policy == "in_context" for m in config.models.values()):
            engines = {name: model.engines for name, model in config.models.items()}
            found.append(
                ChoiceKeeper(
                    store.decisions.choices,
                    engines,
                    embedding_version=memory.embedder.version,
                )
            )
        if config.feedback.advanced.regenerated:
            from gateway.keepers.regenerated import RegeneratedKeeper

            found.append(RegeneratedKeeper(store.outcomes, within_s=60.0))
    texts = _texts(memory, settings, load)
    found.append(RequestKeeper(memory.requests, store.decisions.usage, texts=texts, secret=store.secret))
    return found
