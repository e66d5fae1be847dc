"""Requests are placed by what each server has in its prefix cache.

Steps weigh it against every other cost (find_engine.py). Plain calls go where most of their prompt is, unless that
replica is crowded (choosing.py); where a lower cap holds beside them, they gather as steps of class latency do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from engines.engine import EngineRequest
from engines.servers.find_engine import Candidate, Step, find_engine
from engines.servers.line import Line, Seat
from engines.servers.prefixes import LEAST_TOKENS, Prefix, PrefixTable, prefixes_of
from engines.servers.server import Server
from engines.servers.sessions import home

_LARGE_BYTES = 64 * 1024
"""A larger prompt is hashed on a thread."""
_KV_TOKENS = 200_000
"""Of a server that does not tell how large its cache is: between those of one and of several GPUs."""


class Placing:
    """For the replicas of one engine. What each has cached is reckoned from what this process sent there."""

    def __init__(self, names: Sequence[str], line: Line) -> None:
        self._line = line
        self.on_placed: Callable[[str, int, int], None] = _nobody
        """Told of each chat request: its replica, the tokens of its prompt, and those believed to be cached there."""
        self.tables: Mapping[str, PrefixTable] = {name: PrefixTable(_KV_TOKENS) for name in names}

    async def prefixes(self, request: EngineRequest) -> tuple[Prefix, ...]:
        """Finds the prefixes of a chat request's prompt as it is sent; none where nobody's cache may hold it."""
        chat, placement = request.chat, request.placement
        if chat is None or not request.tenant:
            return ()
        boundaries = placement.boundaries if placement is not None else ()
        # A conversation stays together however short it is.
        least = LEAST_TOKENS if request.is_step else 1
        if len(chat.body) <= _LARGE_BYTES:
            return prefixes_of(chat, boundaries, request.tenant, least)
        return await asyncio.to_thread(prefixes_of, chat, boundaries, request.tenant, least)

    def place(self, seat: Seat, prefixes: Sequence[Prefix], eligible: Sequence[Server]) -> Server | None:
        """Chooses where a step goes, and takes its place; None where it waits for a place, which then is kept for it."""
        step = _step(seat, prefixes)
        candidates = [self._candidate(one, prefixes) for one in eligible]
        home_of = partial(home, prefixes[0].digest) if prefixes else None
        by_name = {one.name: one for one in eligible}
        # How long others hold tokens under a cap is not known: a place now is better than one later.
        under_caps = [one for one in candidates if one.held.fits(step.rank, step.tokens)]
        best = find_engine(step, under_caps or candidates, home_of)
        if self._line.is_overdue(seat):
            # Any place now is better than this one later; and where none is free, who holds least is drained for it.
            fitting = [one for one in under_caps if not one.full]
            best = find_engine(step, fitting) if fitting else min(candidates, key=_held_tokens)
        chosen = by_name[best.name]
        if self._line.keeps(chosen):
            return None
        seat.to_compute_tokens = max(0, step.prompt_tokens - best.cached_tokens)
        if not chosen.took_slot(seat):
            self._line.keep(chosen)
            return None
        self.tables[chosen.name].sent(prefixes, seat.tokens)
        self.on_placed(chosen.name, step.prompt_tokens, best.cached_tokens)
        return chosen

    def warmest(self, prefixes: Sequence[Prefix], eligible: Sequence[Server]) -> tuple[str, float]:
        """The replica that holds most of a plain call's prompt, and the share that it saves; ("", 0) if none is better.

        A beginning that no replica holds, but that other prompts may share, has a home by its hash, so that workers which
        do not talk send it to the same place.
        """
        if not prefixes:
            return "", 0.0
        cached = {one.name: self.tables[one.name].cached_tokens(prefixes) for one in eligible}
        most = max(cached.values())
        at = next((at for at, prefix in enumerate(prefixes) if prefix.tokens == most), len(prefixes))
        goes_on = at + 2 < len(prefixes)
        if most >= LEAST_TOKENS or goes_on:
            # Of a conversation the answer to what was found is there as well.
            there = prefixes[at + 1].tokens if goes_on else most
            holders = [one for one in eligible if cached[one.name] == most]
            least = min(holders, key=lambda one: one.in_flight / (one.weight or 1.0))
            return least.name, there / prefixes[-1].tokens
        shared = [prefix for prefix in prefixes[:-1] if prefix.tokens >= LEAST_TOKENS]
        if not shared:
            return "", 0.0
        weights = {one.name: one.weight or 1.0 for one in eligible}
        return home(shared[0].digest, weights), shared[-1].tokens / prefixes[-1].tokens

    def sent(self, name: str, prefixes: Sequence[Prefix], answer_tokens: float) -> None:
        """Note that a plain call's prompt goes to this replica, where an answer of about this length joins it."""
        if prefixes:
            table, prompt_tokens = self.tables[name], prefixes[-1].tokens
            self.on_placed(name, prompt_tokens, table.cached_tokens(prefixes))
            table.sent(prefixes, prompt_tokens + int(answer_tokens))

    def least(self, seat: Seat, prompt_tokens: int, fitting: Sequence[Server]) -> Server:
        """Chooses where a plain call goes, of those that it fits: what is cached is not looked at."""
        step = Step(seat.placement.rank, prompt_tokens, max(1, seat.tokens - prompt_tokens))
        best = find_engine(step, [self._candidate(one, ()) for one in fitting])
        return next(one for one in fitting if one.name == best.name)

    def lost(self, name: str) -> None:
        """A replica could not be reached: when it comes back, its cache is empty."""
        self.tables[name].forget()

    def _candidate(self, one: Server, prefixes: Sequence[Prefix]) -> Candidate:
        table, load = self.tables[one.name], one.engine.load()
        table.capacity_tokens = load.kv_tokens or one.held.caps.tokens or _KV_TOKENS
        full = not one.has_place or self._line.keeps(one)
        cached_tokens = table.cached_tokens(prefixes)
        return Candidate(one.name, one.held, cached_tokens, full, load.queued, one.weight or 1.0)


def _nobody(replica: str, prompt_tokens: int, cached_tokens: int) -> None:
    pass


def _step(seat: Seat, prefixes: Sequence[Prefix]) -> Step:
    prompt = min(prefixes[-1].tokens, seat.tokens) if prefixes else seat.tokens
    return Step(seat.placement.rank, prompt, max(1, seat.tokens - prompt))


def _held_tokens(one: Candidate) -> int:
    return one.held.tokens
