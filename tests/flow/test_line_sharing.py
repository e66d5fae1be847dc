"""Sharing examples between tenants: only by an explicit grant, one way, and examples only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.flow.test_line_demonstrations import ask, give
from tests.flow.test_line_examples import ALIKE, QUESTION, stage
from tests.flow.test_line_keys import new_key
from understudy.settings.file import ConfigError, parse_config

GRANT = {"grants": [{"from": "library", "to": ["acme"]}]}


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}", "Cache-Control": "no-store"}


async def test_granted_examples_are_read_by_those_named_and_by_nobody_else(tmp_path: Path) -> None:
    exact = {"exact": {"enabled": True}}
    async with stage(tmp_path, sharing=GRANT, memory=exact) as here:
        library, acme, umbrella = [
            bearer(await new_key(here.gate, t)) for t in ("library", "acme", "umbrella")
        ]
        name = (await give(here.gate, QUESTION, "From the library.", headers=library)).json["id"]
        lent = await here.gate.chat(ALIKE, acme)
        assert lent.headers["x-understudy-engine"] == "small" and lent.headers["x-understudy-examples"] == "1"
        assert "From the library." in [m["content"] for m in here.small.asked[0].json["messages"]]
        assert (await here.gate.chat(ALIKE, umbrella)).headers["x-understudy-engine"] == "large"
        assert (await ask(here.gate, "GET", f"/examples/{name}", acme)).status == 404
        assert (await ask(here.gate, "DELETE", f"/examples/{name}", acme)).status == 404
        assert (await ask(here.gate, "GET", "/examples", acme)).json["data"] == []


async def test_a_grant_is_not_its_own_reverse(tmp_path: Path) -> None:
    async with stage(tmp_path, sharing=GRANT) as here:
        library, acme = [bearer(await new_key(here.gate, t)) for t in ("library", "acme")]
        await give(here.gate, QUESTION, "Acme's own.", headers=acme)
        assert (await here.gate.chat(ALIKE, library)).headers["x-understudy-engine"] == "large"


async def test_exact_answers_never_cross_even_with_a_grant(tmp_path: Path) -> None:
    async with stage(tmp_path, sharing=GRANT, memory={"exact": {"enabled": True}}, m=2) as here:
        library, acme = [await new_key(here.gate, t) for t in ("library", "acme")]
        await here.gate.chat(QUESTION, {"Authorization": f"Bearer {library}"})
        assert not (await here.gate.chat(QUESTION, {"Authorization": f"Bearer {acme}"})).hit


@pytest.mark.parametrize("grant", [{"from": "a"}, {"from": "a", "to": []}, {"source": "a", "to": ["b"]}, "a"])
def test_a_grant_that_is_not_clear_is_refused(grant: Any) -> None:
    config = {"upstream": {"base_url": "http://127.0.0.1:1/v1"}, "sharing": {"grants": [grant]}}
    with pytest.raises(ConfigError, match=r"sharing\.grants"):
        parse_config(config)
