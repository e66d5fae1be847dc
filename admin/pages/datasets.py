"""Datasets page: requests, reviewed answers and examples as lines of JSON, and back through admission."""

from __future__ import annotations

from admin.actions import NotDone
from admin.choices import offered
from admin.datasets import example_lines, known_tenants, request_lines, review_lines
from admin.page import Action, ActionFailed, Asked, BadParameter, Done, Download, Page, Summary
from admin.roles import Role
from admin.sources import Sources
from store.records import Kind
from store.sums import DAY_S

_LONGEST = 4 * 2**20
_KINDS: tuple[Kind, ...] = ("observed", "demonstration")


def datasets(sources: Sources, asked: Asked) -> Summary:
    """What there is to download, and for whom lines may be taken back. `tenant`: the one that its forms begin with."""
    tenant = asked.text("tenant", longest=64)
    names = known_tenants(sources)
    counts = {tenant: requests for tenant, requests, *_ in sources.rollups.by_tenant(0.0, DAY_S)}
    examples = sources.store.examples.tenants()
    rows = [
        {
            "tenant": id,
            "name": name,
            "requests": counts.get(id, 0),
            "examples": examples.get(id, 0),
        }
        for id, name in sorted(names.items(), key=lambda one: (-counts.get(one[0], 0), one))
    ]
    return {
        "tenant": tenant,
        "tenants": offered(((row["tenant"], row["name"]) for row in rows), tenant),
        "rows": rows,
        "texts_kept": sources.gateway.actions.texts_kept,
        "may_import": sources.gateway.actions.import_lines is not None,
    }


def take(sources: Sources, asked: Asked) -> Done:
    """Takes the lines of a `file`, or of `lines`, as examples of `tenant`; `kind`: observed or demonstration."""
    take_lines = sources.gateway.actions.import_lines
    if take_lines is None:
        raise ActionFailed("This gateway keeps no examples: memory.examples.enabled is off.")
    tenant = asked.text("tenant", longest=64)
    if tenant not in known_tenants(sources):
        raise BadParameter("Choose the tenant whose examples they become.", "tenant")
    kind = next(one for one in _KINDS if one == asked.choice("kind", _KINDS, "observed"))
    text = asked.text("file", longest=_LONGEST) or asked.text("lines", longest=_LONGEST)
    if not text:
        raise BadParameter("Choose a file, or write lines: one JSON object with messages per line.", "file")
    try:
        done = take_lines(tenant, text, kind)
    except NotDone as error:
        raise ActionFailed(f"{error}.") from error
    refused = sum(done.refused.values())
    return Done(
        f"{done.added} added, {done.known} known already, {refused} not admitted, {done.bad} not understood.",
        target=tenant,
        detail={"added": done.added, "known": done.known, "refused": refused, "bad": done.bad, "kind": kind},
        shown={
            "tenant": tenant,
            "added": done.added,
            "known": done.known,
            "refused": dict(done.refused),
            "bad": done.bad,
            "problems": list(done.problems),
        },
        again=True,
    )


DATASETS_PAGE = Page(
    "/datasets",
    "Datasets",
    "datasets.html",
    datasets,
    role=Role.VIEWER_CONTENT,
    csv="rows",
    downloads=(
        Download("/datasets/requests.jsonl", request_lines, "requests.jsonl"),
        Download("/datasets/reviews.jsonl", review_lines, "reviews.jsonl"),
        Download("/datasets/examples.jsonl", example_lines, "examples.jsonl"),
    ),
    actions=(Action("/datasets/import", take, template="datasets_taken.html"),),
)
