"""Deletes what is older than it may be kept: of each tenant by what counts for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future

from store.answers.responses import KEPT_S
from store.store import Store
from store.tenant_scope import TenantScope
from understudy.background.housekeeping import Chore
from understudy.settings.retention import RetentionSettings

_DAY_S = 86_400.0
_WRITE_S = 60.0
Trim = Callable[[float, TenantScope], Future[int]]


class Retention:
    """Chores over an open store. `keeps_texts`: off, what was kept before goes at once; else up to `texts_max_bytes`."""

    def __init__(
        self, store: Store, settings: RetentionSettings, *, keeps_texts: bool, texts_max_bytes: int
    ) -> None:
        self._store = store
        self._settings = settings
        self._keeps_texts = keeps_texts
        self._texts_max_bytes = texts_max_bytes

    def chores(self) -> list[Chore]:
        """What is to be done every so often."""
        decisions, outcomes = self._store.decisions, self._store.outcomes
        rows: Mapping[str, Trim] = {
            "trim_requests": lambda before_s, tenants: decisions.requests.trim(before_s, tenants=tenants),
            "trim_choices": lambda before_s, tenants: decisions.choices.trim(before_s, tenants=tenants),
            "trim_outcomes": lambda before_s, tenants: outcomes.trim(before_s, tenants=tenants),
            "trim_feedback": lambda before_s, tenants: outcomes.feedback.trim(before_s, tenants=tenants),
            "trim_reviews": lambda before_s, tenants: outcomes.reviews.trim(before_s, tenants=tenants),
            "trim_owned_ids": lambda before_s, tenants: self._store.owned.trim(before_s, tenants=tenants),
        }
        return [
            *(Chore(name, 60, self._rows_by(trim)) for name, trim in rows.items()),
            Chore("trim_texts", 60, self.trim_texts),
            Chore("trim_responses", 60, self.trim_responses),
            Chore("trim_examples", 600, self.trim_examples),
        ]

    def _rows_by(self, trim: Trim) -> Callable[[], None]:
        def run() -> None:
            for days, tenants in self._scopes("rows_days", self._settings.rows_days):
                if days is not None:
                    trim(time.time() - days * _DAY_S, tenants).result(_WRITE_S)

        return run

    def trim_texts(self) -> None:
        """Delete texts, and the oldest beyond their room."""
        for days, tenants in self._scopes("texts_days", self._settings.texts_days):
            kept_s = (days or 0.0) * _DAY_S if self._keeps_texts else 0.0
            before_s = time.time() - kept_s
            trimmed = self._store.decisions.texts.trim(before_s, self._texts_max_bytes, tenants=tenants)
            trimmed.result(_WRITE_S)

    def trim_responses(self) -> None:
        """Delete answers of `/v1/responses` that are kept here: they hold what was asked and answered."""
        for days, tenants in self._scopes("texts_days", self._settings.texts_days):
            before_s = time.time() - min((days or 0.0) * _DAY_S, KEPT_S)
            self._store.answers.responses.trim(before_s, tenants=tenants).result(_WRITE_S)

    def trim_examples(self) -> None:
        """Delete examples of requests; demonstrations stay."""
        own = {record.id: record.retention.examples_days for record in self._store.tenant_records.list()}
        for tenant in self._store.examples.tenants():
            days = own.get(tenant) or self._settings.examples_days
            if days is not None:
                self._store.examples.expire(tenant, time.time() - days * _DAY_S)

    def _scopes(self, name: str, otherwise: float | None) -> Iterator[tuple[float | None, TenantScope]]:
        """(days, of which tenants)."""
        records = self._store.tenant_records.list()
        own = {one.id: days for one in records if (days := getattr(one.retention, name)) is not None}
        for tenant, days in own.items():
            yield days, TenantScope(only=tenant)
        yield otherwise, TenantScope(but=tuple(own))
