"""What the tests of whole jobs stand on: each worker can be asked, and an engine can be killed and come back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import openai
import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.real_gateway import Engine, real_gateway


@pytest.mark.slow
def test_each_worker_is_asked_and_an_engine_dies_and_comes_back(
    tmp_path: Path, profile: Callable[..., BrowserContext]
) -> None:
    config = {"models": {"demo": {"engines": ["large"]}}}
    with real_gateway(tmp_path, config, engines={"large": Engine("Within 24 hours.")}) as gate:
        first = gate.ask("How long?", stream=False)
        gate.settle()
        assert [each.hit for each in gate.ask_each_worker("How long?")] == [True, True]
        page = gate.signed_in(profile())
        page.goto(f"{gate.admin_url}/requests/{first.decision_id}")
        expect(page.locator("#answer")).to_have_text("Within 24 hours.")
        gate.engines["large"].kill()
        with pytest.raises(openai.APIStatusError):
            gate.ask("Anything else?")
        gate.engines["large"].revive()
        assert gate.ask("Anything else?").text == "Within 24 hours."
        assert len(gate.engines["large"].asked) == 2
