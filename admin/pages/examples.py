"""Examples pages: the bank, its map, one example in full, and the actions on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from urllib.parse import quote

from admin.actions import NotDone
from admin.computing import TooMuchAsked
from admin.page import Action, ActionFailed, Asked, BadParameter, Done, NotThere, Page
from admin.roles import Content
from admin.sources import Sources
from admin.summaries.cache import deleted
from admin.summaries.example import example, find
from admin.summaries.example_map import example_map, shared
from admin.summaries.examples import examples
from store.admission.cutting import cut
from store.decisions.texts import digest_of
from store.records import Example, Vector

_WAIT_S = 5.0
"""As long as the API waits for the store: a person waits, too."""
_MOST_CHARACTERS = 50_000


def edit(sources: Sources, asked: Asked) -> Done:
    """Changes an example's `question` and `answer` (form fields), by the admission rules about secrets and private data."""
    found = find(sources, asked)
    question = asked.text("question", longest=_MOST_CHARACTERS)
    answer = asked.text("answer", longest=_MOST_CHARACTERS)
    for name, text in (("question", question), ("answer", answer)):
        if not text:
            raise BadParameter(
                "An example needs a question and an answer; delete it if it is of no use.", name
            )
    seen = asked.text("version")

    def check(now: Example) -> None:
        if seen not in ("", digest_of(now.question, now.answer)):
            raise ActionFailed(
                "This example was changed meanwhile: what it says now is above. Saving again replaces that.",
                "answer",
            )

    # Also before it is embedded, which takes a while.
    check(found)
    actions = sources.gateway.actions
    if actions.admission is None:
        raise ActionFailed("This gateway keeps no examples: memory.examples.enabled is off.")
    verdict = actions.admission.screened(question, answer)
    if not verdict.admitted:
        raise ActionFailed(
            f"Not changed: it holds what looks like {_WHAT.get(verdict.reason or '', 'that')}.", "answer"
        )
    stored = _stored_answers(sources, found)
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
            check=check,
        ).result(_WAIT_S)
    )
    replaced = " What looked like private data was replaced." if verdict.redacted else ""
    gone = stored - _stored_answers(sources, found)
    return _done(found, f"Changed.{replaced}{deleted(gone)}")


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
        stored = _stored_answers(sources, found)
        _changed(edits.hold_back(found.tenant, found.id).result(_WAIT_S))
        gone = stored - _stored_answers(sources, found)
        return _done(found, f"Quarantined: no request is answered with it from now on.{deleted(gone)}")
    _changed(edits.let_go(found.tenant, found.id).result(_WAIT_S))
    return _done(found, "Released: requests may be answered with it again.")


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
    stored = _stored_answers(sources, found)
    if not sources.store.examples.remove(found.tenant, [found.id]).result(_WAIT_S):
        raise NotThere("This example is not in the bank, or not any more.")
    return Done(
        f"Deleted from the bank, its search and its index.{deleted(stored)}",
        f"/examples?tenant={quote(found.tenant)}",
        target=str(found.id),
    )


def bulk(sources: Sources, asked: Asked) -> Done:
    """Does one thing to several examples. Form fields: `do`; `id`, several; `really`, yes, before anything is deleted."""
    do = asked.choice("do", tuple(_BULK), "")
    found = _ticked(sources, asked)
    target = ",".join(str(example.id) for example in found)
    if do == "delete" and asked.choice("really", ("", "yes"), "") != "yes":
        shown = {
            "ids": [example.id for example in found],
            "tenant": found[0].tenant,
            "pinned": sum(example.pinned for example in found),
            "corrected": sum(example.kind == "demonstration" for example in found),
            "size_bytes": sum(example.size_bytes for example in found),
            "stored_answers": sum(_stored_answers(sources, example) for example in found),
        }
        return Done("Nothing is deleted yet.", target=target, detail={"dry_run": True}, shown=shown)
    stored = sum(_stored_answers(sources, example) for example in found)
    done = sum(_BULK[do][0](sources, example) for example in found)
    gone = stored - sum(_stored_answers(sources, example) for example in found)
    return Done(
        f"{_BULK[do][1]}: {done} of {len(found)} examples.{deleted(gone)}",
        f"/examples?tenant={quote(found[0].tenant)}",
        target=target,
        detail={"do": do, "done": done},
    )


def _ticked(sources: Sources, asked: Asked) -> list[Example]:
    """The examples that a form names, which are there; raises BadParameter where that is none."""
    found = []
    for text in asked.many("id", most=_MOST_TICKED):
        id = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
        tenant = sources.store.examples.tenant_of(id)
        example = None if tenant is None else sources.store.examples.get(tenant, id)
        if example is not None:
            found.append(example)
    if not found:
        raise BadParameter("No example is ticked that is in the bank; tick at least one.", "id")
    return found


def _removed(sources: Sources, example: Example) -> bool:
    return bool(sources.store.examples.remove(example.tenant, [example.id]).result(_WAIT_S))


def _pinned(sources: Sources, example: Example, *, pinned: bool) -> bool:
    changed = sources.store.examples.pin(example.tenant, example.id, pinned=pinned)
    return changed.result(_WAIT_S) is not None


def _held(sources: Sources, example: Example) -> bool:
    return sources.store.examples.hold_back(example.tenant, example.id).result(_WAIT_S) is not None


def _released(sources: Sources, example: Example) -> bool:
    return sources.store.examples.let_go(example.tenant, example.id).result(_WAIT_S) is not None


_MOST_TICKED = 200
_BULK: Mapping[str, tuple[Callable[[Sources, Example], bool], str]] = {
    "quarantine": (_held, "Quarantined"),
    "release": (_released, "Released"),
    "pin": (partial(_pinned, pinned=True), "Pinned"),
    "unpin": (partial(_pinned, pinned=False), "No longer pinned"),
    "delete": (_removed, "Deleted"),
}
"""What may be done to several examples, and how to say that it was."""


def _stored_answers(sources: Sources, found: Example) -> int:
    """How many stored answers go when this example is taken back."""
    of_it = sources.store.answers.listing.of_example(found.tenant, found.id)
    return of_it.exact + of_it.similar


def _what_would_go(sources: Sources, found: Example) -> dict[str, object]:
    return {
        "id": found.id,
        "question": Content(found.question[:400]),
        "uses": found.uses,
        "size_bytes": found.size_bytes,
        "pinned": found.pinned,
        "kind": found.kind,
        **asdict(sources.store.examples.depending_on(found.id)),
        "stored_answers": _stored_answers(sources, found),
        "tenant": found.tenant,
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
    try:
        begun = shared(sources).state(tenant).computing
    except TooMuchAsked:
        begun = False
    if not begun:
        raise ActionFailed("Other tenants' maps are being drawn; try again in a moment.")
    return Done("The map is being drawn.", f"/examples-map?tenant={quote(tenant)}", target=tenant)


EXAMPLES = Page(
    "/examples",
    "Examples",
    "examples.html",
    examples,
    script="tick_all.js",
    csv="rows",
    actions=(Action("/examples/bulk", bulk, template="examples_delete.html"),),
)
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
