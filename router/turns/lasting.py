"""Learns how conversations of one kind go on: how many turns follow, how far apart, and how much each adds.

How many turns follow is a survival estimate: by the turns so far, the share of conversations that had one more. Those still
under way count as far as they came, so that rather too few turns are expected than too many.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_MOST_TURNS = 64
"""Conversations that are longer are taken to go on as those of this length do."""
_PRIOR = 2.0
"""What is assumed before anything is known: every second conversation ends with its turn; and what all turns together count
beside those at the same place."""
_FULL = 1000.0
"""Where so many turns were counted, all counts are halved: what was long ago is forgotten."""
_RATE = 0.1
"""Weight of the latest turn in a mean."""


@dataclass(slots=True)
class Lasting:
    """The conversations of one kind. Not thread-safe."""

    reached: list[float] = field(default_factory=lambda: [0.0] * (_MOST_TURNS + 1))
    """By a number of turns, less one: the conversations that had so many."""
    asked: float = 1.0
    wanted: float = 0.5
    """Of the turns asked, those that a smaller engine would have answered, had every turn stood alone."""
    begun: float = 1.0
    """Of the turns asked, those outside of tool loops."""
    pause_s: float = 30.0
    """Mean time from one turn to the next."""
    added_tokens: float = 500.0
    """Mean tokens by which a prompt is longer than that of the turn before."""
    _expected: list[float] | None = None

    def has(self, turns: int) -> None:
        """Count a conversation that has its next turn: so many now."""
        self.reached[min(turns, _MOST_TURNS + 1) - 1] += 1.0
        if sum(self.reached) > _FULL:
            self.reached = [count / 2.0 for count in self.reached]
        self._expected = None

    def went_on(self, pause_s: float, added_tokens: float) -> None:
        """Learn how far a turn was from the one before."""
        self.pause_s += _RATE * (pause_s - self.pause_s)
        self.added_tokens += _RATE * (max(0.0, added_tokens) - self.added_tokens)

    def decided(self, *, wanted: bool, in_tool_loop: bool) -> None:
        """Count a turn, and whether a smaller engine would have answered it."""
        kept = 1.0 - 1.0 / _FULL
        self.asked = self.asked * kept + 1.0
        self.wanted = self.wanted * kept + wanted
        self.begun = self.begun * kept + (not in_tool_loop)

    def share_wanted(self) -> float:
        """Share of the turns that a smaller engine would have answered, had every turn stood alone."""
        return self.wanted / self.asked

    def ahead(self, turns: int) -> float:
        """Expected number of turns after the one that is due that are answered as it is: its tool loop, which is not left,
        and of those after it the share of which a smaller engine is wanted."""
        more, loop = self.more_turns(turns), self.asked / self.begun - 1.0
        return min(more, loop) + self.share_wanted() * max(0.0, more - loop)

    def more_turns(self, turns: int) -> float:
        """Expected number of turns after the one that is due, where there were so many before it."""
        if self._expected is None:
            self._expected = self._computed()
        return self._expected[min(turns, _MOST_TURNS - 1)]

    def _computed(self) -> list[float]:
        reached = self.reached
        of_all = (sum(reached[1:]) + _PRIOR / 2.0) / (sum(reached) + _PRIOR)
        expected = [0.0] * _MOST_TURNS
        # Beyond the last place every turn has the same chance of a next one.
        after = of_all / (1.0 - of_all)
        for place in range(_MOST_TURNS - 1, -1, -1):
            chance = (min(reached[place + 1], reached[place]) + _PRIOR * of_all) / (reached[place] + _PRIOR)
            after = expected[place] = chance * (1.0 + after)
        return expected
