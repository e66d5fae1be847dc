"""Reads past requests from the lines of a log, or from the bank of a gateway."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engines.asking import chat_of
from engines.chat import Usage, estimated_tokens, prompt_tokens
from engines.engine import Price
from learning.bank.importing.formats import Pair
from learning.rehearsal.arms import Past
from learning.replay.material import kept_instructions
from router.digest import asked_under, question, scope
from router.embedding.embedder import Embedder
from store import Store
from store.records import Example


def of_log(pairs: Sequence[Pair], price: Price, embedder: Embedder) -> Iterator[Past]:
    """Those that hold a question, in their order. `price`: of the model that answered. Blocks for the embeddings."""
    for pair in pairs:
        chat = chat_of(pair.fields, pair.fields["messages"])
        asked = question(chat.messages)
        if not asked:
            continue
        used = Usage(
            pair.prompt_tokens or prompt_tokens(chat.messages),
            pair.completion_tokens or estimated_tokens(pair.answer),
        )
        usd = price.cost_usd(used) or 0.0
        vector = embedder.embed_blocking(asked)
        yield Past(chat, asked, pair.answer, scope(chat), vector, usd, pair.score, pair.correction)


def of_bank(store: Store, tenant: str, latest: int, price: Price, embedder: Embedder) -> Iterator[Past]:
    """A tenant's examples whose instructions were kept, the oldest first, with what people said of the answers. Blocks."""
    told: dict[str, str | None] = {}
    for example in reversed(store.examples.newest(tenant, latest)):
        if example.scope not in told:
            told[example.scope] = kept_instructions(store, example)
        instructions = told[example.scope]
        if instructions is None:
            continue
        fields = asked_under(instructions, example.question)
        chat = chat_of(fields, fields["messages"])
        used = Usage(
            example.prompt_tokens or prompt_tokens(chat.messages),
            example.completion_tokens or estimated_tokens(example.answer),
        )
        vector = embedder.embed_blocking(example.question)
        usd = price.cost_usd(used) or 0.0
        # The scope as it is kept: that of an end user is nobody else's.
        score = _score(store, example)
        yield Past(chat, example.question, example.answer, example.scope, vector, usd, score)


def _score(store: Store, example: Example) -> float | None:
    """Return people's score of the answer, 0 to 1; None without one."""
    outcomes = store.outcomes.of(example.tenant, example.request_id) if example.request_id else []
    mine = (one for one in outcomes if one.source == "user" and one.served)
    return next((one.quality for one in mine if one.engine == example.source_engine), None)
