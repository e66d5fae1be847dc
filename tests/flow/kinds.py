"""The two kinds of connection that the server has: our own for plain requests, and aiohttp's."""

from __future__ import annotations

import json

import pytest

KINDS: dict[str, tuple[str, ...]] = {"plain": (), "aiohttp": ("https://nobody.example",)}
"""The origins that `listen.cors` names, by kind: with any, all connections are aiohttp's."""


def both(fixture: str = "gateway") -> pytest.MarkDecorator:
    """Has a test held with both kinds of connection to the gateway of this fixture."""
    return pytest.mark.parametrize(fixture, KINDS, indirect=True)


def listen(request: pytest.FixtureRequest, **more: object) -> str:
    """A line of configuration for the kind that a test asks a fixture for; the plain one, if it asks for none."""
    cors = KINDS[getattr(request, "param", "plain")]
    return f"listen: {json.dumps({'grace_s': 1, 'cors': cors, **more})}\n"
