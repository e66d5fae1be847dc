"""From the settings to what tells how good answers were: feedback, and a judge at work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import structlog

from engines.engine import Engine
from learning.outcomes.account import Accounts, Served, SpendLimits
from learning.outcomes.feedback_intake import FeedbackIntake
from learning.outcomes.judge_exam import Exams, Known
from learning.outcomes.judging import Judging
from learning.outcomes.judging_limits import JudgingLimits
from learning.outcomes.judging_metrics import JudgingMetrics
from learning.outcomes.known_quality import KnownQuality, OnOutcomes
from learning.outcomes.target import Targets
from learning.replay.material import kept_instructions
from learning.tasks.labels import GivenLabels
from router.digest import asked_under, user_scope
from router.shedding import Loaded
from store.jobs.live_load import recorded_to_s
from understudy.settings.knobs import knobs_of
from understudy.settings.learning import JudgingSettings

if TYPE_CHECKING:
    from learning.bank.example_store import ExampleStore
    from store import Store
    from store.records import RequestRecord
    from understudy.memory import Memory
    from understudy.settings.config import Config

log = structlog.get_logger(__name__)

_EXAMINED_BY = 50
"""Latest examples from which a judge's questions are taken."""
_TAKEN_FOR_S = 7 * 86_400.0
"""How long after its request feedback is taken."""


def feedback_intake(
    memory: Memory,
    corrections: ExampleStore | None,
    *,
    apart: bool,
    known: OnOutcomes | None = None,
    told: Callable[[str, str, float, str], None] | None = None,
    window_s: float = _TAKEN_FOR_S,
    settle_s: float = 2.0,
) -> FeedbackIntake:
    """Takes feedback over `memory`. `corrections` is where corrections become examples; None where none are kept.

    `apart`: whether each end user has a memory of their own. `settle_s`: how long an answer that is not found is looked for
    again at least; while some worker has not recorded what it answered, longer. Feedback is forced to the disk before it
    is acknowledged: a power cut loses none.
    """
    store = memory.store
    return FeedbackIntake(
        answers=Targets(
            store.decisions.choices,
            memory.requests,
            contributor_of=partial(contributor_of, store),
            settle_s=settle_s,
            recorded_to_s=(
                store.jobs.loads.recorded_to_s if store.shared else partial(recorded_to_s, store.folder)
            ),
        ),
        log=store.outcomes.feedback,
        examples=store.examples,
        judgements=store.examples.ledger,
        example_of=store.examples.by_request,
        corrections=corrections,
        secret=store.secret,
        apart=apart,
        window_s=window_s,
        on_outcomes=known,
        told=told,
        labels=GivenLabels(store.tasks),
        sync=store.sync,
        **({} if corrections is None else {"may_judge": corrections.may_judge}),
    )


def contributor_of(store: Store, tenant: str, request: RequestRecord) -> str | None:
    """Who a request came from, by the texts that are kept of it, or by the answer it was given again; None where neither
    tells. Blocks."""
    texts = store.decisions.texts.get(tenant, request.id)
    if texts is not None:
        return texts.contributor
    # Each end user has a key of their own, so whoever is given an answer again is who it answered first.
    return None if request.exact_key is None else store.answers.exact.answered(request.exact_key)


def judging(
    config: Config, store: Store, engines: Mapping[str, Engine], metrics: JudgingMetrics, load: Loaded
) -> Judging:
    """Comparisons in the background, over an open store. Without `judging` only those that a proof wishes for."""
    configured = config.judging
    settings = configured or JudgingSettings(engine="")
    none = {} if configured else {"share_offloaded": 0.0, "share_reference": 0.0, "others": 0}
    spending = accounts(config, store, settings)

    def ended(tenant: str, judge: str, passed: bool) -> None:
        metrics.exams.labels(judge, "passed" if passed else "refused").inc()
        if not passed:
            spending.note_refused(tenant)

    return Judging(
        engines,
        {name: model.ways for name, model in config.models.items()},
        configured.engine if configured else None,
        store.outcomes,
        metrics,
        knobs_of(JudgingLimits, settings, settings.advanced, **none),
        spending,
        qualities=store.examples.ledger,
        known=known_quality(store, config),
        teacher_said=GivenLabels(store.tasks).teacher_said,
        opted_out_keys=settings.advanced.opted_out_keys,
        book=store.decisions.usage.book,
        load=load,
        exams=Exams(partial(known_answers, store), ended=ended),
    )


def known_answers(store: Store, tenant: str) -> list[Known]:
    """Some of a tenant's latest requests with their answers, to examine a judge by; none of one end user's. Blocks."""
    if tenant in store.examples.private.tenants():
        return []
    found: list[Known] = []
    for example in store.examples.newest(tenant, _EXAMINED_BY):
        instructions = kept_instructions(store, example)
        if instructions is not None and not user_scope(example.scope):
            found.append(Known(asked_under(instructions, example.question)["messages"], example.answer))
    return found


def accounts(config: Config, store: Store, settings: JudgingSettings) -> Accounts:
    """What comparisons may cost, as the store tells."""
    prices = {name: engine.price for name, engine in config.engines.items()}
    references = {name: model.engines[-1] for name, model in config.models.items()}
    priced = {name for name, price in prices.items() if price.both_usd_per_mtok}
    models = {
        name: Served(engine, "usd" if engine in priced else "tokens") for name, engine in references.items()
    }
    in_tokens = [name for name, model in config.models.items() if models[name].unit == "tokens"]
    if in_tokens:
        log.info("judging_in_tokens", models=in_tokens)
    learning = config.learning
    limits = knobs_of(SpendLimits, settings, settings.advanced, learning, learning.advanced)
    decisions = store.decisions
    return Accounts(decisions.rollups(config.models), decisions.spending, store.jobs.replay, models, limits)


def known_quality(store: Store, config: Config) -> KnownQuality:
    """What corrects the gains of examples once the quality of an answer is known, over an open store."""
    prices = {name: engine.price.output_usd_per_mtok or 0.0 for name, engine in config.engines.items()}
    return KnownQuality(store.outcomes, store.examples.ledger, store.examples, prices)
