"""Updates the quality floor's account of a tenant and served model from the log. Blocks: for the learner.

router.guarantee.floor holds the guarantee and its mathematics; this module selects the rows it is computed from.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from router.guarantee.floor import FloorSettings, Judged, QualityFloor
from store.decisions.choices import Choices
from store.decisions.outcomes import Outcomes
from store.learned.quality_floors import FloorRow
from store.records import OutcomeRecord

_BATCH = 2000
BY_REVIEW = "review:"
"""The beginning of the keys of outcomes that a sampled review gave (learning.outcomes.feedback_intake)."""


def caught_up(
    last: FloorRow | None,
    settings: FloorSettings,
    choices: Choices,
    outcomes: Outcomes,
    *,
    tenant: str,
    model: str,
    reference: str,
    now_s: float,
    lag_s: float = 60.0,
) -> tuple[FloorRow, QualityFloor]:
    """The updated row, and the account for its `state()`. `last` is the stored row, or None.

    A row with other settings, or one that cannot be read, is ignored and the whole log is read again. The same happens
    when requests turn out to be judged with a lower probability than the settings say; then that lower share is used.
    `lag_s`: seconds within which a judgement, if there is one, has arrived and changed the share; at the rate of the
    traffic this is the lag in requests, if it is more than the settings'.
    """
    floor, place = QualityFloor(settings), (0, 0)
    continued = last is not None and _restored(last.state, settings)
    if last is not None and continued:
        floor, place = continued, (last.last_choice, last.last_outcome)
    before = floor.requests
    while True:
        try:
            place = _read(floor, place, choices, outcomes, tenant, model, reference)
            break
        except _JudgedMoreRarely as error:
            floor, place, continued = (
                QualityFloor(replace(settings, judged_share=error.probability)),
                (0, 0),
                None,
            )
    if last is not None and continued and now_s > last.at_s:
        floor.keep_pace(floor.requests - before, now_s - last.at_s, lag_s)
    if last is not None:
        # What lies before these ids was read just now or is deleted: ids are never reused.
        place = max(place[0], last.last_choice), max(place[1], last.last_outcome)
    row = FloorRow(tenant, model, now_s, floor.offload_cap(), floor.status(), *place, floor.to_json())
    return row, floor


def _restored(state: str, settings: FloorSettings) -> QualityFloor | None:
    try:
        # The share may have been lower than it is configured now; the bound then keeps the lower one.
        share = min(settings.judged_share, float(json.loads(state)["judged_share"]))
        return QualityFloor.from_json(state, replace(settings, judged_share=share))
    except (ValueError, KeyError, TypeError):
        return None


class _JudgedMoreRarely(ValueError):
    """A request was judged with a lower probability than the account assumes."""

    def __init__(self, probability: float) -> None:
        super().__init__(f"a request was judged with probability {probability}")
        self.probability = probability


def _read(
    floor: QualityFloor,
    place: tuple[int, int],
    choices: Choices,
    outcomes: Outcomes,
    tenant: str,
    model: str,
    reference: str,
) -> tuple[int, int]:
    """Reads the rows after these ids, of a choice and an outcome, into `floor`; gives those of the last. Raises
    _JudgedMoreRarely."""
    last_choice, last_outcome = place
    waiting: list[Judged] = []
    while True:
        rows = choices.after(last_choice, _BATCH, tenant=tenant, model=model)
        noted = outcomes.after(last_outcome, _BATCH, tenant=tenant, model=model)
        waiting += judgements(noted, reference, floor.settings.judged_share)
        last_choice = rows[-1][0] if rows else last_choice
        last_outcome = noted[-1].id if noted else last_outcome
        # While more choices follow, judgements later than the last choice read wait for it.
        until_s = rows[-1][1].at_s if len(rows) == _BATCH else float("inf")
        due = sorted((each for each in waiting if each.at_s <= until_s), key=lambda each: each.at_s)
        waiting = [each for each in waiting if each.at_s > until_s]
        floor.advance(((c.at_s, c.engine != reference) for _, c in rows), due)
        if len(rows) < _BATCH and len(noted) < _BATCH:
            return last_choice, last_outcome


def judgements(outcomes: Sequence[OutcomeRecord], reference: str, judged_share: float) -> list[Judged]:
    """The judgements of served answers of other engines than the reference, each decided by a coin of known probability.

    Judges and labels count; users give feedback when they like, and reviewers' coin is another one (a request that both look
    at would count twice). Raises ValueError if the coin's probability was lower than `judged_share`.
    """
    found = []
    for outcome in outcomes:
        if outcome.served and outcome.engine != reference and outcome.source in ("judge", "label"):
            if outcome.key.startswith(BY_REVIEW):
                continue
            if outcome.probability < judged_share * (1 - 1e-9):
                raise _JudgedMoreRarely(outcome.probability)
            found.append(Judged(outcome.at_s, 1.0 - outcome.quality, outcome.probability))
    return found
