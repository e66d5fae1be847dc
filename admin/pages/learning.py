"""Model versions: what was learnt, how much better each version was, what is in use; roll back, use another, freeze."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.operations.versions import freeze, rollback, unfreeze, use, use_built_in
from admin.page import Asked, Page
from admin.sources import Sources
from admin.summaries.learning import learning


def _rollback(_: Sources, asked: Asked) -> Mapping[str, Any]:
    slot = {name: asked.text(name, longest=200) for name in ("kind", "tenant", "model")}
    return {**slot, "in_use": asked.text("version")}


LEARNING = Page(
    "/learning",
    "Model versions",
    "learning.html",
    learning,
    charts=True,
    csv="rows",
    actions=(
        rollback.form("/learning/roll-back", fields=_rollback),
        use.form("/learning/use"),
        use_built_in.form("/learning/built-in"),
        freeze.form("/learning/freeze"),
        unfreeze.form("/learning/unfreeze"),
    ),
)
