"""Settings of webhooks: what cannot work is refused, and a URL with a token in it is never repeated."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.settings.doubts import doubts
from understudy.settings.file import parse_config

SECRET = "whsec_" + "c2VjcmV0" * 6
FINE = {"url": "https://hooks.example/understudy?token=t0ken", "secret": SECRET}


def config(**changes: Any) -> dict[str, Any]:
    return {"upstream": {"base_url": "http://127.0.0.1:1/v1"}, "memory": {}, "webhooks": [FINE | changes]}


def test_a_receiver_is_told_everything_unless_it_says_what() -> None:
    (one,) = parse_config(config()).webhooks
    assert one.events is None and "t0ken" not in repr(one) and SECRET not in repr(one)


@pytest.mark.parametrize(
    "changes",
    [
        {"url": "hooks.example/t0ken"},
        {"url": "ftp://hooks.example/t0ken"},
        {"url": "https://ann:t0ken@hooks.example/"},
        {"url": "https://hooks.example:99999/t0ken"},
        {"secret": "t0ken"},
        {"secret": "whsec_%%%t0ken"},
        {"secret": "whsec_" + "c2Vj"},
        {"events": ["engine.sideways"]},
        {"more": 1},
        {"secret": None},
        {"shape": "carrier-pigeon"},
        {"shape": "slack"},
        {"shape": "pagerduty", "secret": None},
        {"shape": "pagerduty", "secret": "t0ken with spaces"},
    ],
)
def test_what_cannot_work_is_refused_without_repeating_it(changes: dict[str, Any]) -> None:
    with pytest.raises(Exception, match="webhooks") as refused:
        parse_config(config(**changes))
    assert "t0ken" not in str(refused.value)


def test_without_a_memory_nobody_could_be_told_once() -> None:
    with pytest.raises(Exception, match="memory"):
        parse_config({"upstream": {"base_url": "http://127.0.0.1:1/v1"}, "webhooks": [FINE], "memory": None})


@pytest.mark.parametrize(
    ("host", "shape"),
    [
        ("hooks.slack.com", "slack"),
        ("prod-1.westeurope.logic.azure.com", "teams"),
        ("events.pagerduty.com", "pagerduty"),
    ],
)
def test_a_url_of_a_service_that_reads_another_shape_is_doubted(host: str, shape: str) -> None:
    url = f"https://{host}/services/t0ken"
    (told,) = [one for one in doubts(parse_config(config(url=url))) if one.startswith("webhooks")]
    assert f"webhooks.0.shape to {shape}" in told and "t0ken" not in told
    fitting = {"url": url, "shape": shape, "secret": "abc123" if shape == "pagerduty" else None}
    assert not [one for one in doubts(parse_config(config(**fitting))) if one.startswith("webhooks")]
    with pytest.raises(Exception, match=f"set shape: {shape}"):
        parse_config(config(url=url, secret=None))
