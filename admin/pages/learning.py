"""Learning page: versions of what was learnt and their figures; roll back, freeze."""

from __future__ import annotations

from admin.page import Action, Page
from admin.summaries.learning import freeze, learning, roll_back, unfreeze, use

LEARNING = Page(
    "/learning",
    "Learning",
    "learning.html",
    learning,
    actions=(
        Action("/learning/roll-back", roll_back),
        Action("/learning/use", use),
        Action("/learning/freeze", freeze),
        Action("/learning/unfreeze", unfreeze),
    ),
)
