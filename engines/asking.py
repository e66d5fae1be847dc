"""Asks an engine in the background: one chat completion, not streamed, with what it cost and how long it took.

It names an engine, not a model that is served, and goes through that engine's guard but not through the gateway's pipeline:
no policy decides, nothing is remembered, and neither the request log nor the clients' metrics and costs count it. Judging,
replay, the private bank and the admin pages keep their own budgets, and all but judging run in processes that have no
pipeline. No header of a client is sent, so nothing is ever billed under a client's credential.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from multidict import CIMultiDict

from engines.answers.answer import Body
from engines.attempts import Attempts
from engines.candidates import Try
from engines.chat import ChatRequest, Usage, tokens_in_bytes
from engines.codecs.table import codec_of
from engines.engine import Engine, EngineRequest, Price
from engines.errors import ConnectFailed, EngineError, RequestError, Unavailable
from engines.placement import Placement

_LARGEST_BYTES = 4 * 2**20
_BYTES_PER_TOKEN_AT_LEAST = 2
"""Bounds what a prompt may cost: English has 4 to 5 bytes per token, Chinese about 3."""

A_TOKEN = Price(1e6, 1e6)
"""A price of one for each token: to count in tokens where nothing has a price."""


class NotAnswered(Exception):
    """The engine gave no usable answer. The text is a short code, free of content."""


@dataclass(frozen=True, slots=True)
class Said:
    """One answer."""

    text: str
    finish_reason: str
    usage: Usage
    cost_usd: float
    latency_s: float
    fingerprint: str
    """See Assembled.fingerprint."""


@dataclass(slots=True)
class Bill:
    """What a sample has cost so far, in US dollars, by (engine, purpose)."""

    items: dict[tuple[str, str], float]
    tokens: dict[tuple[str, str], int] = field(default_factory=dict)
    """Of prompts and answers together, by the same."""

    @property
    def usd(self) -> float:
        return sum(self.items.values())

    def add(self, engine: str, purpose: str, usd: float, tokens: int = 0) -> None:
        """Book one request."""
        self.tokens[engine, purpose] = self.tokens.get((engine, purpose), 0) + tokens
        self.items[engine, purpose] = self.items.get((engine, purpose), 0.0) + usd


async def ask(
    engine: Engine,
    chat: ChatRequest,
    *,
    most_tokens: int,
    bill: Bill,
    purpose: str,
    tenant: str = "",
    tools: bool = False,
    placement: Placement | None = None,
) -> Said:
    """Ask and wait for the whole answer. Raises NotAnswered. `tenant`: whose cache in the engine may hold the prompt.
    `tools`: an answer that calls tools is one, too; its text is then the calls as JSON. `placement`: where it stands in the
    run that it is asked for.

    What it cost is booked in any case: also when waiting is cancelled or the answer breaks off, and then at the most it
    can have cost, since nobody tells.
    """
    info = engine.info
    codec = codec_of(chat)
    if not info.speaks(chat.api):
        raise NotAnswered("api")
    asked = codec.changed(chat, model=info.model)
    headers = CIMultiDict({"Content-Type": "application/json", "Accept-Encoding": "identity"})
    request = EngineRequest(
        "POST",
        codec.path,
        headers,
        asked.body,
        asked,
        tenant,
        background=True,
        placement=placement,
    )
    cost_usd = most_usd(info.price, len(asked.body), most_tokens)
    tokens = round(most_usd(A_TOKEN, len(asked.body), most_tokens))
    began = time.perf_counter()
    try:
        async with Attempts([Try(engine, request)]) as reply:
            body = bytearray()
            async for chunk in reply.chunks:
                body += chunk
                if len(body) > _LARGEST_BYTES:
                    raise NotAnswered("too_large")
            if reply.status != 200:
                cost_usd, tokens = 0.0, 0
                raise NotAnswered(f"status_{reply.status}")
        assembled = codec.assembled(Body((bytes(body),), len(body), "application/json"))
        if assembled is None or not assembled.whole or (assembled.calls_tools() and not tools):
            raise NotAnswered("unreadable")
        usage = assembled.used(tokens_in_bytes(len(asked.body)))
        # What a cascade costs is what all its members do, about alike.
        cost_usd = info.price.cost_usd(usage) or 0.0
        tokens = usage.prompt_tokens + usage.completion_tokens
        latency_s = time.perf_counter() - began
        return Said(
            assembled.said(),
            assembled.finish_reason(),
            usage,
            cost_usd,
            latency_s,
            assembled.fingerprint(),
        )
    except RequestError as error:
        cost_usd, tokens = 0.0, 0
        raise NotAnswered(error.code) from error
    except (ConnectFailed, Unavailable) as error:
        cost_usd, tokens = error.paid_usd, 0
        raise NotAnswered(error.code) from error
    except EngineError as error:
        raise NotAnswered(error.code) from error
    finally:
        bill.add(info.name, purpose, cost_usd, tokens)


def chat_of(fields: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> ChatRequest:
    """A chat request that is not streamed, out of a body's fields and messages."""
    made = {**fields, "messages": list(messages), "stream": False}
    body = json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return ChatRequest(
        body, made, str(made.get("model", "")), made["messages"], stream=False, include_usage=False
    )


def most_usd(price: Price, prompt_bytes: int, most_tokens: int) -> float:
    """What a request can cost at most, in US dollars, by its size and the bound on its answer; 0 where it has no price."""
    return price.most_usd(prompt_bytes // _BYTES_PER_TOKEN_AT_LEAST + 1, most_tokens) or 0.0
