"""Prices a turn of a conversation at each engine: what its prefix cache holds is cheap, and to go elsewhere is paid anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engines.engine import Price
from engines.servers.prefixes import Prefix

NOBODY = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """A request's place in its conversation, and what each engine is believed to hold of its prompt."""

    key: str = ""
    """Of its conversation, in this process."""
    number: int = 0
    """Turns before it."""
    engine: str = NOBODY
    """The engine that answered the turn before; empty for a first one."""
    in_tool_loop: bool = False
    """True where it hands over what a tool said, to the engine that called the tool."""
    prefixes: tuple[Prefix, ...] = ()
    """Those of the prompt as its client sent it."""
    prompt_tokens: int = 0
    """Estimated, of the same, tools included."""
    held: Mapping[str, float] = field(default_factory=dict)
    """By engine, the tokens of the prompt that its cache is believed to hold."""
    held_with: Mapping[str, float] = field(default_factory=dict)
    """The same of the prompt with the conversation's examples, or with any where it has none yet."""
    held_at_home: float = 0.0
    """The tokens that the reference would hold, had it answered all turns before."""
    caching: Mapping[str, float] = field(default_factory=dict)
    """By engine, the share, 0 to 1, of what could be cached that is: as its answers lately told."""
    ahead: float = 0.0
    """Expected number of later turns that are answered as this one is."""
    added_tokens: float = 0.0
    """Expected tokens that each of them adds."""
    leaving_usd: float = 0.0
    """Expected dollars for what `engine` forgets of the conversation before it is asked again, if another answers now."""
    kept_out: frozenset[str] = frozenset()
    """Smaller engines that do not answer this turn: to write the prefix anew would cost more than the rest of the
    conversation is expected to save, or a tool loop is under way elsewhere."""

    def cost_usd(
        self,
        engine: str,
        price: Price,
        completion_tokens: float,
        *,
        example_tokens: float = 0.0,
    ) -> float:
        """Expected dollars per turn if `engine` answers now and the `ahead` turns after.

        What is cached of a prompt costs the cached price, what is written to a cache the price of writing.

        `example_tokens`: of the examples that it gets; 0 where it gets none. What has no price counts as 0.
        """
        held = (self.held_with if example_tokens else self.held).get(engine, 0.0)
        leaving = self.leaving_usd if self.engine and engine != self.engine else 0.0
        return self._usd(engine, price, completion_tokens, example_tokens, held, leaving)

    def home_usd(self, reference: str, price: Price, completion_tokens: float) -> float:
        """The same of the reference, had it answered all turns before: what costs of this turn are measured by."""
        return self._usd(reference, price, completion_tokens, 0.0, self.held_at_home, 0.0)

    def _usd(
        self,
        engine: str,
        price: Price,
        completion_tokens: float,
        example_tokens: float,
        held: float,
        leaving_usd: float,
    ) -> float:
        prompt, caching = self.prompt_tokens + example_tokens, self.caching.get(engine, 0.0)
        held = min(prompt, held)
        now = price.compared_usd(prompt, completion_tokens, held, caching * (prompt - held))
        # The prompts of later turns grow: on average by half of what all of them add.
        later_prompt = prompt + self.added_tokens * (1.0 + self.ahead) / 2.0
        later = price.compared_usd(
            later_prompt,
            completion_tokens,
            caching * max(0.0, later_prompt - self.added_tokens),
            caching * min(later_prompt, self.added_tokens),
        )
        return (now + self.ahead * later + leaving_usd) / (1.0 + self.ahead)
