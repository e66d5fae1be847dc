"""Who may get the client's own key."""

from __future__ import annotations

import pytest

from understudy.settings.client_key import (
    check_client_key,
    has_credential,
    is_loopback,
    own_key,
    takes_client_key,
)
from understudy.settings.engines import OpenAIEngine
from understudy.settings.upstream import Upstream

UPSTREAM = Upstream(base_url="https://api.test/v1")


@pytest.mark.parametrize(
    ("url", "taken"),
    [
        ("https://api.test/v1", True),
        ("https://api.test:443/other", True),
        ("https://API.test/v1", True),
        ("http://api.test/v1", False),
        ("https://api.test:8443/v1", False),
        ("https://api.test.evil/v1", False),
        ("https://evil.test/api.test", False),
    ],
)
def test_the_upstreams_origin_takes_it_and_no_other(url: str, taken: bool) -> None:
    engine = OpenAIEngine(base_url=url)
    assert takes_client_key(engine, UPSTREAM) is taken
    assert not takes_client_key(engine, None)
    if taken:
        check_client_key({"e": engine}, UPSTREAM)
    else:
        with pytest.raises(ValueError, match=r"engines\.e has no api_key.*meant for https://api\.test/v1"):
            check_client_key({"e": engine}, UPSTREAM)


@pytest.mark.parametrize(
    "given",
    [
        {"api_key": "sk-own"},
        {"api_key": "none"},
        {"api_key_command": ["print-token"]},
        {"advanced": {"forwards_client_key": True}},
        {"advanced": {"headers": {"X-Goog-Api-Key": "own"}}},
    ],
)
def test_an_engine_elsewhere_that_says_which_key_it_gets_is_taken(given: dict[str, object]) -> None:
    check_client_key(
        {"e": OpenAIEngine.model_validate({"base_url": "https://other.test/v1"} | given)}, UPSTREAM
    )


def test_a_header_that_is_no_credential_says_nothing_of_the_key() -> None:
    given = {"base_url": "https://other.test/v1", "advanced": {"headers": {"X-Title": "ours"}}}
    with pytest.raises(ValueError, match="has no api_key"):
        check_client_key({"e": OpenAIEngine.model_validate(given)}, None)


def test_none_is_no_key() -> None:
    engine = OpenAIEngine.model_validate({"base_url": "https://other.test/v1", "api_key": "none"})
    assert own_key(engine) is None and not takes_client_key(engine, UPSTREAM)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("LOCALHOST", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("127.0.0.1.evil.test", False),
        ("", False),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize("given", [{"api_key_command": []}, {"api_key_command": ["x"], "api_key": "none"}])
def test_a_command_for_a_key_is_one_and_stands_alone(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="api_key_command"):
        OpenAIEngine.model_validate({"base_url": "https://other.test/v1"} | given)


def test_with_a_command_the_clients_key_is_never_taken() -> None:
    engine = OpenAIEngine.model_validate({"base_url": UPSTREAM.base_url, "api_key_command": ["x"]})
    assert not takes_client_key(engine, UPSTREAM) and has_credential(engine)
