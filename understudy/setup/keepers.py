"""Which keepers a configuration asks for. Imported only with a memory: a gateway without one needs none of it."""

from __future__ import annotations

import time

from gateway.keepers.choice import ChoiceKeeper
from gateway.keepers.exact import ExactKeeper
from gateway.keepers.example import ExampleKeeper
from gateway.keepers.keeper import Keeper
from gateway.keepers.regenerated import RegeneratedKeeper
from gateway.keepers.request import RequestKeeper
from gateway.keepers.response import ResponseKeeper
from gateway.keepers.task import TaskKeeper
from gateway.keepers.text import Allowance, TextKeeper
from gateway.keepers.turn import TurnKeeper
from gateway.keepers.use import UseKeeper
from gateway.task_metrics import TaskMetrics
from router.turns.conversations import Conversations
from store.admission.cutting import EMBEDDED_CHARACTERS
from understudy.built import Built
from understudy.settings.memory import MemorySettings
from understudy.setup.examples import admission


def exact_keeper(built: Built) -> ExactKeeper | None:
    """What keeps answers for exact repeats; None where nothing does."""
    memory, settings = built.remembered, _settings(built)
    if memory.exact is None:
        return None
    states = memory.store.jobs.engine_states
    return ExactKeeper(
        memory.exact,
        tool_calls=settings.advanced.exact_tool_calls,
        unmerged=lambda engine, reason: states.add_errors({(engine, reason): 1}, time.time()),
    )


def books(built: Built) -> RequestKeeper:
    """What books requests that never reach the pipeline."""
    memory = built.remembered
    return RequestKeeper(memory.requests, memory.store.decisions.usage, texts=_texts(built))


def keepers(built: Built) -> list[Keeper]:
    """All others, in the order in which they run."""
    config, memory, settings = built.config, built.remembered, _settings(built)
    store, admitted = memory.store, settings.examples.admission
    found: list[Keeper] = [ResponseKeeper(store.owned, store.answers.responses)]
    if memory.embedder is not None and config.models:
        # First: who finds a request's row in the log, to give feedback on it, finds its label, too.
        found.append(
            TaskKeeper(
                store.tasks,
                memory.embedder,
                admission(settings),
                opted_out_keys=admitted.opted_out_keys,
                metrics=TaskMetrics(built.metrics.registry),
            )
        )
    if memory.embedder is not None and store.indexes is not None:
        if any(model.policy != "fixed" for model in config.models.values()):
            built.conversations = Conversations(built.engines)
            found.append(TurnKeeper(built.conversations))
        dearest = max((e.price.output_usd_per_mtok or 0.0 for e in config.engines.values()), default=0.0)
        keeper = ExampleKeeper(
            store.examples,
            memory.embedder,
            admission(settings),
            store.indexes.nearest,
            embedded_characters=EMBEDDED_CHARACTERS,
            templates=memory.templates,
            standing=store.examples.contributors.standings().of,
            opted_out_keys=admitted.opted_out_keys,
            load=built.load.shedding,
        )
        found += built.around_examples(keeper)
        found.append(UseKeeper(store.examples.ledger, dearest))
        if config.feedback.enabled or any(m.policy == "in_context" for m in config.models.values()):
            engines = {name: model.ways for name, model in config.models.items()}
            version = memory.embedder.version
            found.append(ChoiceKeeper(store.decisions.choices, engines, embedding_version=version))
        if config.feedback.advanced.regenerated:
            found.append(RegeneratedKeeper(store.outcomes, within_s=60.0))
    usage = store.decisions.usage
    found.append(RequestKeeper(memory.requests, usage, texts=_texts(built), secret=store.secret))
    return found


def _texts(built: Built) -> TextKeeper | None:
    """What keeps texts, for one thread; None where none are kept."""
    memory, settings = built.remembered, _settings(built)
    if memory.requests is None or not settings.request_texts.enabled:
        return None
    return TextKeeper(
        memory.store.decisions.texts,
        admission(settings),
        Allowance(),
        opted_out_keys=settings.examples.admission.opted_out_keys,
        load=built.load.shedding,
    )


def _settings(built: Built) -> MemorySettings:
    assert built.config.memory is not None
    return built.config.memory
