from __future__ import annotations

from admin.pages import PAGES
from tests.browser.screenshots import AFTER


def test_pictures_are_taken_of_every_page_that_answers_a_form() -> None:
    answers = {action.template for page in PAGES for action in page.actions if action.template}
    assert {f"{name}.html" for name in AFTER} == answers | {"problem.html"}
