"""Reads from the log what the number of examples is learnt from (router.examples.count)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from router.examples.count import RUNGS, Observed
from store.records import ChoiceRecord, OutcomeRecord


def observed_from_log(choices: Iterable[tuple[ChoiceRecord, Sequence[OutcomeRecord]]]) -> list[Observed]:
    """One row per request with a judged answer from an engine that is sent examples.

    Requests without examples count too: sending none is a possible result of a cap. Left out are the reference engine,
    which is never sent any; requests whose examples were dropped or exchanged, since no cap gives that set; and
    comparison answers that were not served. Of several outcomes of one answer the last one counts.
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
