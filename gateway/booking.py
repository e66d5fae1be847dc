"""What a request's answer is billed: what was used, read as its bytes pass by, and the prices of who gave it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import orjson

from engines.answers.reader import Reader
from engines.chat import Usage
from engines.engine import UNPRICED, EngineInfo, EngineReply, Price
from gateway.paths import canonical

_TEXTS = frozenset({"/chat/completions", "/completions", "/responses", "/messages"})
"""Whose answers are text: their tokens can be estimated where nobody counts them."""
_ESTIMATED = _TEXTS | {"/embeddings"}
_COUNTING = ("/count_tokens", "/input_tokens", "/tokenize", "/detokenize")
"""Ends of paths whose answers are counts of tokens, and use none."""
_READ_BYTES = 64 * 1024
COST = "x-understudy-cost"
"""The header that tells the client. US dollars; `unpriced` where nobody knows."""


def billed_usd(price: Price, usage: Usage, broken_off: Sequence[tuple[Price, int]] = ()) -> float | None:
    """What all engines that had a part in an answer are paid, in US dollars; None where a part of it has no price.

    `broken_off`: engines that gave its beginning, the price of each, and how many tokens it gave. Each is paid for the
    prompt, what came before and what it added.
    """
    if not broken_off:
        return price.cost_usd(usage)
    dollars, before = 0.0, 0
    for its_price, tokens in broken_off:
        part = its_price.cost_usd(Usage(usage.prompt_tokens + before, tokens))
        if part is None:
            return None
        dollars += part
        before += tokens
    rest = replace(
        usage,
        prompt_tokens=usage.prompt_tokens + before,
        completion_tokens=max(0, usage.completion_tokens - before),
    )
    last = price.cost_usd(rest)
    return None if last is None else dollars + last


def without_examples(usage: Usage, example_tokens: int) -> Usage:
    """The same without examples of ours in its prompt. Of what was cached, as much as still can be."""
    prompt_tokens = max(0, usage.prompt_tokens - example_tokens)
    cached_tokens = min(usage.cached_tokens, prompt_tokens)
    written = min(usage.cache_write_tokens, prompt_tokens - cached_tokens)
    return replace(
        usage, prompt_tokens=prompt_tokens, cached_tokens=cached_tokens, cache_write_tokens=written
    )


def shown(dollars: float | None) -> str:
    """A cost as the header says it: `0.00000125`, `0`, `unpriced`."""
    if dollars is None:
        return "unpriced"
    return f"{dollars:.10f}".rstrip("0").rstrip(".") or "0"


def named_model(body: bytes) -> str:
    """The model that a JSON body names; empty where it names none, or is too large to be read here."""
    if len(body) > _READ_BYTES or body.lstrip()[:1] != b"{":
        return ""
    try:
        model = orjson.loads(body).get("model")
    except orjson.JSONDecodeError:
        return ""
    return model[:256] if isinstance(model, str) else ""


class Meter:
    """Reads what one answer used as it passes by, and what it costs. For any API; of an error neither is known, nor due."""

    def __init__(
        self,
        info: EngineInfo,
        reply: EngineReply,
        *,
        method: str,
        target: str,
        model: str,
        prompt_tokens: Callable[[], int],
        only_cost: bool = False,
        beside_usd: float = 0.0,
    ) -> None:
        """`target`: below the base URL. `model`: as the request names it; empty if that is not known. `prompt_tokens`: of
        what was asked, roughly; called if the answer does not say. `only_cost`: what was used is read elsewhere, so an
        answer of an engine without any price need not be read here. `beside_usd`: what was paid beside it."""
        self._beside_usd = beside_usd
        self._info = info
        self._path = canonical(target.partition("?")[0]).lower()
        self._model = model
        self._prompt_tokens = prompt_tokens
        self._due = method == "POST" and reply.status < 400 and not self._path.endswith(_COUNTING)
        headers = reply.headers
        self._reader: Reader | None = None
        if self._due and not (only_cost and not info.price.known and not info.prices):
            self._reader = Reader(headers.get("Content-Type", ""), headers.get("Content-Encoding", ""))
        self._billed: tuple[Usage | None, Price, float | None] | None = None
        """For what passed until it was asked last."""
        self.whole = reply.status < 400 and not reply.streams_events
        """Whether its cost may be told in its head: it is no stream, nor an error."""

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the answer."""
        self._billed = None
        if self._reader is not None:
            self._reader.feed(chunk)

    @property
    def model(self) -> str:
        """The model, as the request names it, else the answer."""
        return self._model or (self._reader.model if self._reader is not None else "")

    def bill(self) -> tuple[Usage | None, Price, float | None]:
        """(what was used, at which price, dollars): dollars None if nobody knows. For what passed so far."""
        if self._billed is None:
            self._billed = self._bill()
        return self._billed

    def _bill(self) -> tuple[Usage | None, Price, float | None]:
        if not self._due:
            return None, UNPRICED, 0.0
        reader = self._reader
        if reader is None:
            return None, UNPRICED, None
        price = self._price(reader.model)
        usage = reader.told()
        if usage is None and self._path in _ESTIMATED:
            usage = reader.usage(self._prompt_tokens(), text=self._path in _TEXTS)
        if usage is not None:
            cost_usd = price.cost_usd(usage)
            return usage, price, None if cost_usd is None else cost_usd + self._beside_usd
        return None, price, price.usd_per_request if price.usd_per_request is not None else _nothing(price)

    def _price(self, told: str) -> Price:
        """By what was asked for, as it was reserved; else by the model that the answer says it is of."""
        price = self._info.price_of(self._model, self._path)
        return self._info.price_of(told, self._path) if told and not price.known else price


def _nothing(price: Price) -> float | None:
    """0 where all that has a price is free; None where nobody knows how much of it was used."""
    said = (price.input_usd_per_mtok, price.output_usd_per_mtok, price.usd_per_image)
    return 0.0 if price.known and not any(said) else None
