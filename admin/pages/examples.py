"""Examples pages: the bank, its map, one example in full, and the actions on it."""

from __future__ import annotations

from dataclasses import asdict
from urllib.parse import quote

from admin.actions import NotDone
from admin.page import Action, ActionFailed, Asked, BadParameter, Done, NotThere, Page
from admin.roles import Content
from admin.sources import Sources
from admin.summaries.example import example, find
from admin.summaries.example_map import example_map, shared
from admin.summaries.examples import examples
from store.admission.cutting import cut
from store.records import Example, Vector

_WAIT_S = 5.0
"""As long as the API waits for the store: a person waits, too."""
_MOST_CHARACTERS = 50_000


def edit(sources: Sources, asked: Asked) -> Done:
    """Changes an example's `question` and `answer` (form fields), by the admission rules about secrets and private data."""
    found = find(sources, asked)
    question = asked.text("question", longest=_MOST_CHARACTERS)
    answer = asked.text("answer", longest=_MOST_CHARACTERS)
    if not question or not answer:
        raise BadParameter("an example needs a question and an answer; delete it if it is worth nothing")
    actions = sources.gateway.actions
    if actions.admission is None:
        raise ActionFailed("This gateway keeps no examples: memory.examples.enabled is off.")
    verdict = actions.admission.screened(question, answer)
    if not verdict.admitted:
        raise ActionFailed(
            f"Not changed: it holds what looks like {_WHAT.get(verdict.reason or '', 'that')}."
        )
    text = cut(verdict.question, actions.admission.settings.embedded_characters)
    vector: Vector | None = None
    version = found.embedding_version
    if actions.embed is not None:
        try:
            vector, version = actions.embed(text), actions.embedding_version()
        except NotDone:
            # A worker embeds it in the background.
            vector = None
    _changed(
        sources.store.examples.rewrite(
            found.tenant,
            found.id,
            question=verdict.question,
            answer=verdict.answer,
            embedded_text=text,
            vector=vector,
            embedding_version=version,
        ).result(_WAIT_S)
    )
    replaced = " What looked like private data was replaced." if verdict.redacted else ""
    return _done(found, f"Changed.{replaced}")


def pin(sources: Sources, asked: Asked) -> Done:
    """Pins an example or unpins it. Form field: `pinned`, yes or no."""
    found = find(sources, asked)
    pinned = asked.choice("pinned", ("yes", "no"), "yes") == "yes"
    _changed(sources.store.examples.pin(found.tenant, found.id, pinned=pinned).result(_WAIT_S))
    return _done(found, "Pinned: it stays whatever the caps say." if pinned else "No longer pinned.")


def hold(sources: Sources, asked: Asked) -> Done:
    """Quarantines an example or releases it. Form field: `hold`, yes or no."""
    found = find(sources, asked)
    edits = sources.store.examples
    if asked.choice("hold", ("yes", "no"), "yes") == "yes":
        _changed(edits.hold_back(found.tenant, found.id).result(_WAIT_S))
        return _done(found, "Quarantined: no request is answered with it from now on.")
    _changed(edits.let_go(found.tenant, found.id).result(_WAIT_S))
    return _done(found, "Let go: requests may be answered with it again.")


def delete(sources: Sources, asked: Asked) -> Done:
    """Deletes an example. Form field: `really`, yes; without it only what would be deleted is shown."""
    found = find(sources, asked)
    if asked.choice("really", ("", "yes"), "") != "yes":
        return Done(
            "Nothing is deleted yet.",
            target=str(found.id),
            detail={"dry_run": True},
            again=True,
            shown=_what_would_go(sources, found),
        )
    if not sources.store.examples.remove(found.tenant, [found.id]).result(_WAIT_S):
        raise NotThere("This example is not in the bank, or not any more.")
    return Done("Deleted, with its words and its vector.", "/examples", target=str(found.id))


def _what_would_go(sources: Sources, found: Example) -> dict[str, object]:
    return {
        "id": found.id,
        "question": Content(found.question[:400]),
        "uses": found.uses,
        "size_bytes": found.size_bytes,
        "pinned": found.pinned,
        "kind": found.kind,
        **asdict(sources.store.examples.depending_on(found.id)),
    }


def _changed(found: Example | None) -> None:
    if found is None:
        raise NotThere("This example is not in the bank, or not any more.")


def _done(found: Example, message: str) -> Done:
    return Done(message, f"/examples/{found.id}", target=str(found.id))


_WHAT = {"secrets": "a credential", "private_data": "private data that may not be kept"}


def draw_map(sources: Sources, asked: Asked) -> Done:
    """Starts drawing a tenant's map. Form field: `tenant`."""
    tenant = asked.text("tenant", longest=200)
    if not sources.store.examples.totals(tenant).examples:
        raise BadParameter(f"tenant is {tenant[:60]!r}, which has no examples")
    shared(sources).begin(tenant)
    return Done("The map is being drawn.", f"/examples-map?tenant={quote(tenant)}", target=tenant)


EXAMPLES = Page("/examples", "Examples", "examples.html", examples)
MAP = Page(
    "/examples-map",
    "Map of examples",
    "example_map.html",
    example_map,
    section="/examples",
    in_menu=False,
    charts=True,
    actions=(Action("/examples-map/draw", draw_map),),
)
EXAMPLE = Page(
    "/examples/{id}",
    "Example",
    "example.html",
    example,
    section="/examples",
    in_menu=False,
    actions=(
        Action("/examples/{id}/edit", edit),
        Action("/examples/{id}/pin", pin),
        Action("/examples/{id}/hold", hold),
        Action("/examples/{id}/delete", delete, template="example_delete.html"),
    ),
)
