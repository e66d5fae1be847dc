"""Sources of the requests' text: fixed, synthetic, a trace's lengths, or a JSONL file.

A "token" of synthetic text is one short, common English word, which is one token in the usual vocabularies to within a few
per cent. Repeats, times and encoding are decided elsewhere.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import orjson

from loadtest.errors import BadTrace
from loadtest.plan import WorkloadSpec
from loadtest.traces import MOONCAKE_BLOCK_TOKENS, TraceRow, open_lines, read_trace

_WORDS = (
    "the of and to in is that for it as was with be by on not he this are or his from at which but have an had they you"
    " were their one all we can her has there been if more when will would who so no out up into than them only its some"
    " could time these two may then do first any my now such like our over man me even most made after also did many must"
    " before back see through way where get much go well your know should down work year because come people just say each"
    " those take day good how long little own use life three world still high hand old look part great number house water"
)
_STOCK_WORDS = 1 << 16


@dataclass(frozen=True, slots=True)
class Ask:
    """One request before it is encoded; `max_tokens` 0 leaves the answer's length to the endpoint."""

    messages: list[dict[str, Any]]
    max_tokens: int
    expect: str = ""
    paraphrases: tuple[str, ...] = ()


class Source(Protocol):
    """Gives the k-th fresh request, always the same for the same k."""

    def ask(self, k: int) -> Ask:
        """The k-th fresh request."""


class WordStock:
    """A long sequence of random words that every text is a slice of: a prompt of 80,000 tokens costs one copy."""

    def __init__(self, seed: int) -> None:
        words = random.Random(f"words {seed}").choices(_WORDS.split(), k=_STOCK_WORDS)
        self._text = " ".join(words) + " "
        self._starts = [0]
        for word in words:
            self._starts.append(self._starts[-1] + len(word) + 1)

    def text(self, tokens: int, place: int) -> str:
        """`tokens` words, starting with the `place`-th word."""
        if tokens <= 0:
            return ""
        place %= _STOCK_WORDS
        end = place + tokens
        if end <= _STOCK_WORDS:
            return self._text[self._starts[place] : self._starts[end] - 1]
        rounds, rest = divmod(end - _STOCK_WORDS, _STOCK_WORDS)
        return (self._text[self._starts[place] :] + self._text * rounds + self._text[: self._starts[rest]])[
            :-1
        ]


class Fixed:
    """The same question every time."""

    def __init__(self, spec: WorkloadSpec) -> None:
        self._spec = spec
        self._messages = [{"role": "user", "content": spec.prompt}]

    def ask(self, k: int) -> Ask:
        """The question."""
        return Ask(self._messages, self._spec.tokens_out.draw_count(random.Random(k)))


class Synthetic:
    """Random words of a drawn length, after one of a few shared system prompts."""

    def __init__(self, spec: WorkloadSpec, seed: int) -> None:
        self._spec = spec
        self._seed = seed
        self._stock = WordStock(seed)
        self._prefixes = [
            {
                "role": "system",
                "content": f"House rules {p}. {self._stock.text(spec.prefix_tokens, 977 * p + 13)}",
            }
            for p in range(spec.prefix_count if spec.prefix_tokens else 0)
        ]

    def ask(self, k: int) -> Ask:
        """The k-th text; its number at the front makes it unique."""
        rng = random.Random((self._seed << 32) + k)
        words = self._spec.tokens_in.draw_count(rng)
        text = f"Question {k}: {self._stock.text(words - 3, rng.randrange(_STOCK_WORDS))}"
        messages = [{"role": "user", "content": text}]
        if self._prefixes:
            messages.insert(0, self._prefixes[rng.randrange(len(self._prefixes))])
        return Ask(messages, self._spec.tokens_out.draw_count(rng))


class TraceLengths:
    """Prompts with the lengths of a trace; equal prefix blocks in the trace become equal prefixes of text."""

    def __init__(self, rows: Sequence[TraceRow], scale: float, seed: int) -> None:
        self._rows = rows
        self._scale = scale
        self._stock = WordStock(seed)

    def ask(self, k: int) -> Ask:
        """The text of row k; starts over after the last row."""
        row = self._rows[k % len(self._rows)]
        wanted = max(1, round(row.tokens_in * self._scale))
        block = max(1, round(MOONCAKE_BLOCK_TOKENS * self._scale))
        if row.hash_ids:
            parts, left = [], wanted
            for number in row.hash_ids:
                parts.append(f"[{number}] {self._stock.text(min(block, left) - 1, number * 769)}")
                left -= block
                if left <= 0:
                    break
            text = " ".join(parts)
        else:
            text = f"Question {k}: {self._stock.text(wanted - 3, k * 769)}"
        return Ask([{"role": "user", "content": text}], max(1, round(row.tokens_out * self._scale)))


class FromFile:
    """Requests from a JSONL file, repeated from the start after the last line.

    A line holds `messages` (or `prompt`, `text`), and optionally `max_tokens`, `expect` (or `gold`), `paraphrases`
    (or `paraphrase`).
    """

    def __init__(self, path: Path, spec: WorkloadSpec) -> None:
        self._asks = [
            _ask_of(line, path, n, spec) for n, line in enumerate(open_lines(path), 1) if line.strip()
        ]
        if not self._asks:
            raise BadTrace(f"{path} is empty: it needs at least one line with messages or a prompt")

    def ask(self, k: int) -> Ask:
        """The k-th line; starts over after the last."""
        return self._asks[k % len(self._asks)]


def _ask_of(line: str, path: Path, number: int, spec: WorkloadSpec) -> Ask:
    try:
        row = orjson.loads(line)
        messages = row.get("messages")
        if messages is None:
            messages = [{"role": "user", "content": row["prompt"] if "prompt" in row else row["text"]}]
        if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
            raise ValueError("messages must be a list of at least one object")
        given = row.get("paraphrases") or ([row["paraphrase"]] if row.get("paraphrase") else [])
        limit = int(row.get("max_tokens") or round(spec.tokens_out.draw(random.Random(number))))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadTrace(
            f"{path} line {number}: {line.strip()[:120]!r} is not a request (needs messages, prompt or text; {error!r})"
        ) from None
    return Ask(messages, limit, str(row.get("expect") or row.get("gold") or ""), tuple(map(str, given)))


def make_source(spec: WorkloadSpec, seed: int) -> Source:
    """The source that a spec describes. Raises BadTrace for a file that cannot be read."""
    if spec.messages_file is not None:
        return FromFile(spec.messages_file, spec)
    if spec.trace_file is not None:
        return TraceLengths(read_trace(spec.trace_file), spec.token_scale, seed)
    if spec.prompt:
        return Fixed(spec)
    return Synthetic(spec, seed)
