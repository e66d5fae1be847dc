"""Dollars of one key, spent through two workers at once: what upstreams charge keeps to the budget, and equals the books."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from store.people.limits import Budget, Limits
from tests.flow.limits_site import INPUT_NANO, OUTPUT_NANO, nano, site

BUDGET_USD = 0.012
MOST_NANO = 120 * INPUT_NANO + 20 * OUTPUT_NANO
"""No reservation of these requests is larger: bodies of less than 400 bytes, and 20 tokens of output."""


def limits(usd: float = BUDGET_USD) -> Limits:
    return Limits(budgets=(Budget(usd, "total"),))


@pytest.mark.parametrize(
    ("requests", "usd"), [(40, BUDGET_USD / 5), pytest.param(200, BUDGET_USD, marks=pytest.mark.slow)]
)
async def test_requests_at_once_spend_a_budget_and_no_more(tmp_path: Path, requests: int, usd: float) -> None:
    async with site(tmp_path, limits(usd)) as made:
        await made.ask_all(requests)
        books = await made.settled()
        assert set(made.statuses) == {200, 429}
        assert made.upstream.charged_nano <= nano(usd)
        assert books.spent == made.upstream.charged_nano
        assert books.estimated == 0
        assert nano(usd) - books.spent < 2 * MOST_NANO


@pytest.mark.slow
async def test_the_same_with_an_engine_that_fails_and_answers_that_take_their_time(tmp_path: Path) -> None:
    async with site(tmp_path, limits()) as made:
        made.upstream.fails, made.upstream.pause_s = 0.3, 0.3
        await made.ask_all(200)
        books = await made.settled()
        assert made.upstream.asked["small"] > 5
        assert made.upstream.charged_nano <= nano(BUDGET_USD)
        assert books.spent == made.upstream.charged_nano
        assert nano(BUDGET_USD) - books.spent < 2 * MOST_NANO
        # Some were told that requests under way had reserved what was left, and came again.
        assert made.codes["rate_limit_exceeded"] > 0


@pytest.mark.slow
async def test_the_same_with_clients_that_leave(tmp_path: Path) -> None:
    async with site(tmp_path, limits()) as made:
        made.upstream.pause_s = 0.5
        await made.ask_all(200, leaving=3)
        books = await made.settled()
        assert books.estimated > 0
        # What was charged for those that left nobody was told: that alone is estimated, by what was received.
        unsure = made.left * 5 * OUTPUT_NANO
        assert abs(made.upstream.charged_nano - books.spent) <= unsure
        assert made.upstream.charged_nano <= nano(BUDGET_USD) + unsure
        assert nano(BUDGET_USD) - books.spent < 2 * MOST_NANO


@pytest.mark.slow
async def test_the_same_with_a_worker_that_is_killed(tmp_path: Path) -> None:
    async with site(tmp_path, limits()) as made:
        made.upstream.pause_s = 0.5
        asking = asyncio.create_task(made.ask_all(200))
        for worker in made.run.events("listening")[:2]:
            await asyncio.sleep(0.6)
            os.kill(worker["pid"], signal.SIGKILL)
        await asking
        await made.ask_all(60)
        books = await made.settled()
        assert made.upstream.charged_nano <= nano(BUDGET_USD)
        # What the dead had under way counts as they had reserved it, which is no less than it was charged.
        assert books.spent >= made.upstream.charged_nano
        assert books.spent - books.estimated <= made.upstream.charged_nano
        assert nano(BUDGET_USD) - books.spent < 2 * MOST_NANO
