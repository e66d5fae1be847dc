"""From the log of choices and outcomes to what the number of examples is learnt from (router.examples.count)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from router.examples.count import RUNGS, Observed
from store.records import ChoiceRecord, OutcomeRecord


def observed_from_log(choices: Iterable[tuple[ChoiceRecord, Sequence[OutcomeRecord]]]) -> list[Observed]:
    """One row per request whose answer was judged and came from an engine that is sent examples.

    Whether any were sent in the end does not matter: sending none is part of what a cap leads to. Left out: the reference
    engine, which is never sent any; requests of which an example was dropped or exchanged, whose set no cap would make;
    comparisons that were not served. Of several outcomes of one answer the last one counts.
    """
    rows = []
    for choice, outcomes in choices:
        if choice.most_examples not in RUNGS or choice.examples_explored in ("drop", "swap"):
            continue
        if (
            not choice.actions
            or choice.engine == choice.actions[-1]["engine"]
            or choice.examples_probability <= 0
        ):
            continue
        served = [o for o in outcomes if o.served and o.engine == choice.engine]
        if not served:
            continue
        outcome = max(served, key=lambda o: (o.at_s, o.id))
        rows.append(
            Observed(
                choice.engine,
                choice.most_examples,
                outcome.quality,
                choice.quality_alone,
                outcome.prompt_tokens,
                min(1.0, choice.examples_probability * outcome.probability),
                choice.at_s,
            )
        )
    return rows
