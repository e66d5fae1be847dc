"""Model versions: what was learnt, how much better each version was, what is in use; roll back, use another, freeze."""

from __future__ import annotations

from admin.page import Action, Page
from admin.summaries.learning import freeze, learning, roll_back, unfreeze, use, use_built_in

LEARNING = Page(
    "/learning",
    "Model versions",
    "learning.html",
    learning,
    charts=True,
    csv="rows",
    actions=(
        Action("/learning/roll-back", roll_back),
        Action("/learning/use", use),
        Action("/learning/built-in", use_built_in),
        Action("/learning/freeze", freeze),
        Action("/learning/unfreeze", unfreeze),
    ),
)
