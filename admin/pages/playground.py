"""Playground: two engines side by side, and what would have been decided."""

from __future__ import annotations

from admin.page import Action, Page
from admin.playground import compare, playground
from admin.roles import Role

PLAYGROUND = Page(
    "/playground",
    "Playground",
    "playground.html",
    playground,
    role=Role.OPERATOR,
    actions=(Action("/playground", compare, template="playground_answers.html"),),
)
