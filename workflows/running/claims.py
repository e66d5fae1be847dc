"""Holds on to the steps of this worker, and carries on what is due: steps whose claim is over by the store's clock.

A worker that is killed renews nothing, so that its steps are due when their claim ends. A step that had ended is not asked
again. One that was being asked is asked once more, which shows in its `attempts`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog

from store.errors import StoreError
from store.workflows.records import Claim, WholeRun
from store.workflows.runs import WorkflowRuns
from workflows.running.saving import done

log = structlog.get_logger(__name__)

_PER_CLAIM = 4
"""The number of times a claim is renewed while it lasts, so that one late write loses nothing."""


class Claims:
    """`keep` steps until it is cancelled. `live`: the runs of this worker. `carry_on` takes a run that is its own now."""

    def __init__(
        self,
        store: WorkflowRuns,
        claim: Claim,
        live: Mapping[str, object],
        carry_on: Callable[[WholeRun], Awaitable[None]],
    ) -> None:
        self._store = store
        self._claim = claim
        self._live = live
        self._carry_on = carry_on

    async def keep(self) -> None:
        """Renew, and claim what is due, again and again."""
        while True:
            try:
                if self._live:
                    await done(self._store.renew(self._claim))
                await self.take()
            except StoreError as error:
                log.warning("steps_not_claimed", error=error)
            except Exception as error:
                # Without claims other workers would take all of its steps over.
                log.error("steps_not_claimed", error=type(error).__name__)
            await asyncio.sleep(self._claim.for_s / _PER_CLAIM)

    async def take(self) -> None:
        """Claim what is due, and carry it on."""
        for id in await done(await self._store.reads(self._store.claim, self._claim)):
            whole = await self._store.reads(self._store.run, id)
            if whole is None or id in self._live:
                continue
            log.info("run_adopted", run=id, steps=len(whole.steps))
            try:
                await self._carry_on(whole)
            except StoreError:
                raise
            except Exception as error:
                # The others are carried on all the same; this one is due again when its claim is over.
                log.error("run_not_carried_on", run=id, error=type(error).__name__)
