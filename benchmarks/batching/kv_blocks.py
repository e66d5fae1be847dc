"""The key-value memory of one inference engine: blocks of 16 tokens, shared by content, the oldest forgotten first.

As vLLM's prefix cache does it (https://docs.vllm.ai/en/latest/design/prefix_caching.html): a block is known by the hash
of its own tokens and of all before it; blocks that nobody holds stay until their place is needed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

BLOCK_TOKENS = 16


class KvBlocks:
    """So many blocks. `shares`: whether a block's content is remembered, and found again."""

    def __init__(self, blocks: int, *, shares: bool) -> None:
        self._total = blocks
        self._shares = shares
        self._held: dict[int, int] = {}
        """How many requests hold a block of known content."""
        self._idle: OrderedDict[int, None] = OrderedDict()
        """Blocks of known content that nobody holds, the least recently used first."""
        self._plain = 0
        """Held blocks that nobody else can use."""

    @property
    def available(self) -> int:
        """Blocks that may be taken: free ones, and those that nobody holds."""
        return self._total - len(self._held) - self._plain

    @property
    def use(self) -> float:
        """Share of the blocks that are held, 0 to 1."""
        return 1.0 - self.available / self._total

    def known(self, hashes: Sequence[int]) -> int:
        """How many of the first blocks are here."""
        count = 0
        for one in hashes:
            if one not in self._held and one not in self._idle:
                break
            count += 1
        return count

    def idle_of(self, hashes: Sequence[int]) -> int:
        """How many of these known blocks nobody holds: holding them takes from what is available."""
        return sum(one in self._idle for one in hashes)

    def hold(self, hashes: Sequence[int]) -> None:
        """Hold blocks that are here."""
        for one in hashes:
            self._idle.pop(one, None)
            self._held[one] = self._held.get(one, 0) + 1

    def take(self, blocks: int) -> None:
        """Hold so many more blocks; there must be as many available."""
        self._plain += blocks
        while self._idle and len(self._held) + len(self._idle) + self._plain > self._total:
            self._idle.popitem(last=False)

    def learn(self, one: int) -> bool:
        """A held block is computed, and may be found from now on; False where another of the same content is here."""
        if not self._shares or one in self._held or one in self._idle:
            return False
        self._plain -= 1
        self._held[one] = 1
        return True

    def release(self, hashes: Sequence[int], plain: int) -> None:
        """Hold them no more. The end of a prompt is forgotten before its beginning."""
        self._plain -= plain
        for one in reversed(hashes):
            if self._held[one] > 1:
                self._held[one] -= 1
            else:
                del self._held[one]
                self._idle[one] = None


def block_hashes(text: str, characters_per_token: int) -> list[int]:
    """The hash of each whole block of a prompt, in order."""
    size, before, hashes = BLOCK_TOKENS * characters_per_token, 0, []
    for start in range(0, len(text) - size + 1, size):
        before = hash((before, text[start : start + size]))
        hashes.append(before)
    return hashes
