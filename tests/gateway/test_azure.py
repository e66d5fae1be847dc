"""What Azure's clients ask for, as OpenAI's clients would."""

from __future__ import annotations

import json

import pytest
from multidict import CIMultiDict

from engines.errors import RequestError
from gateway.azure import for_deployment, from_azure


@pytest.mark.parametrize(
    ("target", "plain", "deployment"),
    [
        ("/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21", "/chat/completions", "gpt-4o"),
        ("/openai/deployments/a%2Eb/embeddings?x=%20&api-version=1&y", "/embeddings?x=%20&y", "a.b"),
        ("/openai/responses?api-version=preview", "/responses", ""),
        ("/openai/responses/resp_1/input_items", "/responses/resp_1/input_items", ""),
        ("/openai/v1/chat/completions", "/chat/completions", ""),
        ("/openai/v1/responses?API-Version=preview&after=x", "/responses?after=x", ""),
        ("/openai/deployments", "/deployments", ""),
        ("/openai/", "/", ""),
    ],
)
def test_a_target_is_said_as_openai_has_it(target: str, plain: str, deployment: str) -> None:
    assert from_azure(target) == (plain, deployment)


@pytest.mark.parametrize("target", ["/v1/chat/completions", "/openai", "/Openai/v1/x", "//openai/v1/x"])
def test_any_other_target_is_none_of_them(target: str) -> None:
    assert from_azure(target) is None


@pytest.mark.parametrize("name", ["..", ".", "a%2F..", "a%3Fb", "a%20b", "%2e%2e"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(RequestError) as refused:
        from_azure(f"/openai/deployments/{name}/chat/completions")
    assert (refused.value.status, refused.value.code) == (400, "invalid_path")


@pytest.mark.parametrize(
    "within", ["deployments", "Deployments", "%64eployments", "/deployments", ";x/deployments"]
)
def test_a_deployment_within_a_deployment_is_refused(within: str) -> None:
    with pytest.raises(RequestError) as refused:
        from_azure(f"/openai/deployments/cheap/{within}/dear/chat/completions")
    assert (refused.value.status, refused.value.code) == (400, "invalid_path")


def test_the_path_names_the_model() -> None:
    headers = CIMultiDict({"Content-Length": "1", "Content-Encoding": "gzip", "x": "y"})
    body, fields = for_deployment("dep", b"{}", {"model": "other", "input": "a"}, headers)
    assert json.loads(body) == fields == {"model": "dep", "input": "a"} and set(headers) == {"x"}
    same = b'{"model": "dep"}', {"model": "dep"}
    assert for_deployment("dep", *same, headers) == same
    assert for_deployment("", b"{}", {}, headers) == (b"{}", {})
