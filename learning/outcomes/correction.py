"""Turns a corrected answer into a demonstration, by the same rules as every other demonstration.

The question comes with the feedback or, if the wrong answer had become an example, from that example.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from engines.chat import ChatRequest
from engines.chat_json import read_chat_request
from engines.errors import RequestError
from learning.bank.contributor import Behind
from learning.bank.demonstrations import Digested, NotAdmitted, as_chat, content_id, demonstration
from learning.bank.example_store import WRITTEN_WITHIN_S, ExampleStore
from router.digest import of_user, shared_scope
from store.records import Example


def correct(
    store: ExampleStore,
    tenant: str,
    key_id: str | None,
    fields: dict[str, Any],
    correction: str,
    observed: Example | None,
    by: Behind,
    named_scope: str | None = None,
) -> Example:
    """The example made from `correction`, committed. Blocks. `observed`: the example made from the wrong answer, if any.
    `by`: whose the example becomes. `named_scope`: the client's own name for the instructions of the corrected request.

    With `messages` among `fields`, messages and correction make a demonstration, in the scope of `observed` or else in the
    named one or that of the messages. Without, the correction replaces the
    answer of `observed`. Repeating a correction gives the same example. Raises RequestError, StoreError and TimeoutError.
    """
    if "messages" in fields:
        chat = as_chat(read_chat_request(b"", {"model": ""} | fields).fields)
        return _demonstrate(store, tenant, key_id, chat, correction, observed, by, named_scope)
    if observed is None:
        raise RequestError(
            "The question of this answer is not kept here: send the request's 'messages' with the correction.",
            code="messages_needed",
            param="messages",
        )
    if observed.contributor != by.contributor:
        # A row belongs to one contributor only, so that all of theirs can be deleted.
        raise RequestError(
            "This question was somebody else's: send the request's 'messages' with the correction.",
            code="messages_needed",
            param="messages",
        )
    return _replace(store, tenant, key_id, observed, correction)


def _demonstrate(
    store: ExampleStore,
    tenant: str,
    key_id: str | None,
    chat: ChatRequest,
    correction: str,
    observed: Example | None,
    by: Behind,
    named_scope: str | None,
) -> Example:
    digest = _digested(store, tenant, key_id, chat, correction, named_scope, by.end_user)
    if observed is not None and shared_scope(observed.scope) != shared_scope(digest.scope):
        # The request that is corrected had a name for its instructions, or other ones than the messages tell.
        named_scope = shared_scope(observed.scope)
        digest = replace(digest, scope=of_user(named_scope, by.end_user), instructions="")
    name = f"demo-{content_id(store.secret, chat, correction, by.end_user, named_scope)}"
    new = demonstration(digest, tenant, name, by.contributor, embedding_version=store.embedder.version)
    return store.keep(new).example


def _replace(
    store: ExampleStore, tenant: str, key_id: str | None, observed: Example, correction: str
) -> Example:
    asked = as_chat({"messages": [{"role": "user", "content": observed.question}]})
    digest = _digested(store, tenant, key_id, asked, correction)
    changed = store.bank.update(
        tenant,
        observed.id,
        answer=digest.answer,
        kind="demonstration",
        served_from_s=digest.served_from_s,
    ).result(WRITTEN_WITHIN_S)
    if changed is None:
        raise RequestError(
            "The example of this answer has just been removed: send the request's 'messages' with the correction.",
            code="messages_needed",
            param="messages",
        )
    return changed


def _digested(
    store: ExampleStore,
    tenant: str,
    key_id: str | None,
    chat: ChatRequest,
    correction: str,
    named_scope: str | None = None,
    end_user: str = "",
) -> Digested:
    try:
        return store.digest(tenant, key_id, chat, correction, named_scope, end_user=end_user)
    except NotAdmitted as refused:
        raise RequestError(
            f"This correction cannot become an example: {refused}.",
            code=f"not_admitted_{refused.reason}",
            param="correction",
        ) from None
