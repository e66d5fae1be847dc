"""Which endpoint a path means, and what that keeps; a spelling of a path changes nothing of it."""

from __future__ import annotations

import pytest

from engines.errors import RequestError
from gateway.access.families import State, api_of, endpoint


@pytest.mark.parametrize(
    ("method", "target", "state", "api"),
    [
        ("POST", "/chat/completions", State.NONE, "chat"),
        ("POST", "//Chat%2Fcompletions/?x=1", State.NONE, "chat"),
        ("GET", "/chat/completions", State.KEPT, "chat"),
        ("POST", "/chat/completions/chatcmpl-1", State.KEPT, "chat"),
        ("POST", "/responses", State.NONE, "responses"),
        ("GET", "/responses", State.KEPT, "responses"),
        ("GET", "/responses/resp_1", State.NOTED, "responses"),
        ("POST", "/responses/resp_1/cancel", State.NOTED, "responses"),
        ("POST", "/responses/input_tokens", State.NONE, "responses"),
        ("GET", "/models/meta/llama", State.NONE, "models"),
        ("DELETE", "/models/ft:x", State.KEPT, "models"),
        ("POST", "/messages/batches", State.KEPT, "messages"),
        ("GET", "/usage/abc", State.OWN, "usage"),
        ("GET", "/usage", State.KEPT, "usage"),
        ("POST", "/feedback", State.OWN, "feedback"),
        ("GET", "/files", State.KEPT, "files"),
        ("GET", "/files%2f..", None, ""),
        ("GET", "/organization/costs", State.ADMIN, "other"),
        ("GET", "/files/organization", State.ADMIN, "other"),
        ("GET", "/%6Frganizations/me", State.ADMIN, "other"),
        ("GET", "/unheard/of", State.KEPT, "other"),
        ("GET", "/", State.KEPT, "other"),
    ],
)
def test_a_path_means_an_endpoint(method: str, target: str, state: State | None, api: str) -> None:
    if state is None:
        with pytest.raises(RequestError):
            endpoint(method, target)
        return
    found = endpoint(method, target)
    assert (found.state, found.api) == (state, api)
    assert api_of(target) == api


def test_a_deployment_names_a_model() -> None:
    found = endpoint("POST", "/deployments/GPT-4o/embeddings?api-version=1")
    assert (found.path, found.state, found.model) == ("/embeddings", State.NONE, "GPT-4o")
    assert endpoint("GET", "/deployments/GPT-4o/files").state is State.KEPT
    assert endpoint("GET", "/models/GPT-4o").model == "GPT-4o"
    assert endpoint("GET", "/responses/Resp_A/input_items").named_id == "Resp_A"
