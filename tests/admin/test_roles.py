"""What a role may read: content that was not revealed cannot be shown by mistake."""

from __future__ import annotations

import pytest

from admin.rendering import Rendering, as_json
from admin.roles import Content, Role, revealed
from admin.static_files import StaticFiles


@pytest.mark.parametrize(("role", "reads"), [("viewer", False), ("viewer-content", True), ("operator", True)])
def test_content_is_given_to_those_who_may_read_it_however_deep_it_lies(role: str, reads: bool) -> None:
    summary = {"rows": [{"id": 1, "prompt": Content("secret")}], "pair": (Content(["a", "b"]), 3)}
    assert revealed(summary, Role(role)) == {
        "rows": [{"id": 1, "prompt": "secret" if reads else None}],
        "pair": [["a", "b"] if reads else None, 3],
    }


def test_content_that_nobody_revealed_says_nothing() -> None:
    assert "secret" not in f"{Content('secret')!r} {Content('secret')} {[Content('secret')]}"
    with pytest.raises(TypeError):
        as_json({"prompt": Content("secret")})
    rendering = Rendering(StaticFiles(), {"menu": []})
    values = {"title": "t", "viewer": None, "section": "", "flash": "", "form_token": ""}
    assert "secret" not in rendering.render("problem.html", {**values, "message": Content("secret")})


def test_each_role_covers_the_ones_before() -> None:
    assert [[a.covers(b) for b in Role] for a in Role] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]
