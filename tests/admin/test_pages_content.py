"""The pages about requests and examples: what changes anything is an operator's, and only lists stand in the menu."""

from __future__ import annotations

import pytest

from admin.page import Page
from admin.pages.examples import EXAMPLE, EXAMPLES
from admin.pages.find import FIND
from admin.pages.requests import REQUEST, REQUESTS
from admin.pages.sessions import SESSION, SESSIONS
from admin.roles import Role
from admin.summaries.example import example
from admin.summaries.examples import examples
from admin.summaries.find import find
from admin.summaries.request import request
from admin.summaries.requests import requests
from admin.summaries.sessions import session, sessions


@pytest.mark.parametrize("page", [REQUESTS, REQUEST, SESSIONS, SESSION, FIND, EXAMPLES, EXAMPLE])
def test_who_may_only_look_may_look_and_nothing_else(page: Page) -> None:
    assert page.role is Role.VIEWER
    assert all(action.role is Role.OPERATOR for action in page.actions)
    assert page.in_menu == ("{" not in page.path and page is not FIND)
    assert page.summary in (requests, request, sessions, session, find, examples, example)
