"""One example: its texts, its origin, where it was used, and the outcomes."""

from __future__ import annotations

from typing import Any

from admin.page import Asked, NotThere, Summary
from admin.roles import Content
from admin.sources import Sources
from admin.summaries.examples import shown
from admin.summaries.requests import shown as shown_request
from store.decisions.search import Wanted
from store.decisions.texts import digest_of
from store.records import Example

_USES = 20
_LOOKED_THROUGH = 10_000
_NEAR, _NEAR_AMONG = 8, 5_000
_PREVIEW_CHARACTERS = 200


def example(sources: Sources, asked: Asked) -> Summary:
    """The example that the path names. Raises NotThere."""
    found = find(sources, asked)
    uses = sources.store.decisions.search.page(
        Wanted(example=found.id), limit=_USES, looked_through=_LOOKED_THROUGH
    )
    outcomes, versions = sources.store.outcomes, sources.store.examples.versions
    used = []
    names = sources.tenant_names()
    for record in uses.rows:
        of = [o.quality for o in outcomes.of(record.tenant, record.id) if o.served]
        quality = sum(of) / len(of) if of else None
        used.append(shown_request(record, names) | {"quality": quality, "question": None})
    return {
        **shown(found, asked.now_s),
        "tenant_name": names.get(found.tenant, ""),
        "scope": found.scope,
        "contributor": found.contributor,
        "embedding_version": found.embedding_version,
        "prompt_tokens": found.prompt_tokens,
        "completion_tokens": found.completion_tokens,
        "question": Content(found.question),
        "answer": Content(found.answer),
        **_origin(sources, found),
        # Whoever guesses the texts could check the guess by it.
        "text_version": Content(digest_of(found.question, found.answer)),
        "versions": [
            {
                "at_s": version.at_s,
                "run_id": version.run_id,
                "engine": version.source_engine,
                "answer": Content(version.answer),
            }
            for version in versions.of(found.tenant, found.id)
        ],
        "variation_of": versions.parent_of(found.tenant, found.id),
        "used": used,
        "used_since_s": uses.looked_back_to_s,
        "more_uses": uses.next is not None,
        "near": _near(sources, found),
        "can_edit": sources.gateway.actions.admission is not None,
    }


def _origin(sources: Sources, found: Example) -> dict[str, Any]:
    """The request in the log that it came from, or whose answer it corrects; and who corrected it."""
    said = sources.store.outcomes.feedback.that_made(found.tenant, found.request_id)
    id = said.request_id if said is not None else found.request_id
    in_log = sources.store.decisions.requests.get(id, found.tenant) is not None
    corrected = found.kind == "demonstration"
    return {
        "from_request": id if in_log else None,
        # Of one that was given over the API or imported there never was a request.
        "request": id if said is not None or not corrected else "",
        "corrected": said is not None,
        "author": said.author if said is not None else "",
    }


def find(sources: Sources, asked: Asked) -> Example:
    """The example that the path names, of whatever tenant. Raises NotThere."""
    text = asked.path["id"]
    id = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    tenant = sources.store.examples.tenant_of(id)
    found = None if tenant is None else sources.store.examples.get(tenant, id)
    if found is None:
        raise NotThere("This example is not in the bank, or not any more.")
    return found


def _near(sources: Sources, found: Example) -> list[dict[str, Any]]:
    """The tenant's other examples with similar questions."""
    search = sources.store.examples.search
    known = search.vector(found.id)
    if known is None:
        return []
    vector, version = known
    near = search.nearest(found.tenant, vector, version, limit=_NEAR + 1, among=_NEAR_AMONG)
    return [
        {
            "id": other.id,
            "similarity": similarity,
            "engine": other.source_engine,
            "question": Content(other.question[:_PREVIEW_CHARACTERS]),
        }
        for other, similarity in zip(near.rows, near.similarities, strict=True)
        if other.id != found.id
    ][:_NEAR]
