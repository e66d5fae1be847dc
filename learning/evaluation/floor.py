"""Brings the quality floor's account of a tenant's served model up to date with the log. Blocks: for the learner.

What the floor promises and how is router.choosing.floor's; here is only which rows are what.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from router.choosing.floor import FloorSettings, Judged, QualityFloor
from store.learned.quality_floors import FloorRow
from store.records import ChoiceRecord, OutcomeRecord

_BATCH = 2000


class Choices(Protocol):
    """What is needed of store.decisions.choices.Choices."""

    def after(
        self, row_id: int, limit: int = ..., *, tenant: str | None = ..., model: str | None = ...
    ) -> list[tuple[int, ChoiceRecord]]: ...


class Outcomes(Protocol):
    """What is needed of store.decisions.outcomes.Outcomes."""

    def after(
        self, id: int, limit: int = ..., *, tenant: str | None = ..., model: str | None = ...
    ) -> list[OutcomeRecord]: ...


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
    """The row to keep, and the account for its `state()`. `last` is the row kept before, or None.

    A row of another promise, or one that cannot be read, is passed over and everything the log still holds is read
    again. So it is when judging turns out to be rarer than the settings say: then with the share found, which is lower.
    `lag_s`: after how many seconds a judgement, if there is one, has come in and changed the share; at the pace of the
    traffic this is the lag in requests, where it is more than the settings'.
    """
    if last is not None and (floor := _restored(last.state, settings)) is not None:
        before = floor.requests
        try:
            row = _read(
                floor, last.last_choice, last.last_outcome, choices, outcomes, tenant, model, reference, now_s
            )
        except _JudgedMoreRarely:
            pass
        else:
            if now_s > last.at_s:
                floor.keep_pace(floor.requests - before, now_s - last.at_s, lag_s)
            return replace(
                row, cap=floor.offload_cap(), standing=floor.status(), state=floor.to_json()
            ), floor
    share = settings.judged_share
    while True:
        try:
            floor = QualityFloor(replace(settings, judged_share=share))
            row = _read(floor, 0, 0, choices, outcomes, tenant, model, reference, now_s)
        except _JudgedMoreRarely as error:
            share = error.probability
        else:
            if last is not None:
                # What lies before these places was read just now, or is gone for good: ids are never given out again.
                row = replace(
                    row,
                    last_choice=max(row.last_choice, last.last_choice),
                    last_outcome=max(row.last_outcome, last.last_outcome),
                )
            return row, floor


def _restored(state: str, settings: FloorSettings) -> QualityFloor | None:
    try:
        # Judging may have been rarer once than it is said to be now: the bound then stays with what it was.
        share = min(settings.judged_share, float(json.loads(state)["judged_share"]))
        return QualityFloor.from_json(state, replace(settings, judged_share=share))
    except (ValueError, KeyError, TypeError):
        return None


class _JudgedMoreRarely(ValueError):
    def __init__(self, probability: float) -> None:
        super().__init__(f"a request was judged with probability {probability}")
        self.probability = probability


def _read(
    floor: QualityFloor,
    last_choice: int,
    last_outcome: int,
    choices: Choices,
    outcomes: Outcomes,
    tenant: str,
    model: str,
    reference: str,
    now_s: float,
) -> FloorRow:
    waiting: list[Judged] = []
    while True:
        rows = choices.after(last_choice, _BATCH, tenant=tenant, model=model)
        noted = outcomes.after(last_outcome, _BATCH, tenant=tenant, model=model)
        waiting += judgements(noted, reference, floor.settings.judged_share)
        last_choice = rows[-1][0] if rows else last_choice
        last_outcome = noted[-1].id if noted else last_outcome
        # While more choices follow, what was judged after the last of these waits for its time.
        until_s = rows[-1][1].at_s if len(rows) == _BATCH else float("inf")
        due = sorted((each for each in waiting if each.at_s <= until_s), key=lambda each: each.at_s)
        waiting = [each for each in waiting if each.at_s > until_s]
        floor.advance(((c.at_s, c.engine != reference) for _, c in rows), due)
        if len(rows) < _BATCH and len(noted) < _BATCH:
            break
    return FloorRow(
        tenant,
        model,
        now_s,
        floor.offload_cap(),
        floor.status(),
        last_choice,
        last_outcome,
        floor.to_json(),
    )


def judgements(outcomes: Sequence[OutcomeRecord], reference: str, judged_share: float) -> list[Judged]:
    """What was found, by a coin of known probability, of answers that went out and were not the reference's.

    A judge's and a label's: users speak when they like. Raises ValueError where the coin was rarer than `judged_share`.
    """
    found = []
    for outcome in outcomes:
        if outcome.served and outcome.engine != reference and outcome.source in ("judge", "label"):
            if outcome.probability < judged_share * (1 - 1e-9):
                raise _JudgedMoreRarely(outcome.probability)
            found.append(Judged(outcome.at_s, 1.0 - outcome.quality, outcome.probability))
    return found
