"""Settings of components: what each kind needs, and that nothing but values can be put into a URL."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.settings.components import whole_url
from understudy.settings.config import Config
from understudy.settings.file import ConfigError, parse_config
from understudy.setup.components import component_specs

SERVED = {"upstream": {"base_url": "http://127.0.0.1:9/v1"}}
SEARCH = {
    "kind": "search",
    "url": "https://search.example/api?q={query}&count={k}&safe=1",
    "hits": "/results",
    "text": ["/title", "/text"],
}
EVERY: dict[str, dict[str, Any]] = {
    "local": {"kind": "local", "max_in_flight": 2},
    "big": {"kind": "openai", "base_url": "https://api.openai.com/v1", "model": "e3", "api_key": "sk-1"},
    "ranker": {"kind": "rerank", "url": "http://127.0.0.1:8001/rerank", "model": "m"},
    "web": {**SEARCH, "headers": {"X-Subscription-Token": "t"}},
    "mail": {
        "kind": "tool",
        "url": "http://127.0.0.1:9/mail",
        "args": {"type": "object", "required": ["to"]},
        "advanced": {"answer_s": 3},
    },
    "pretended": {"kind": "simulated", "fixed_ms": 5},
}


def parsed(**components: Any) -> Config:
    return parse_config({**SERVED, "components": components})


def test_every_kind_is_described_for_the_engines() -> None:
    specs = component_specs(parsed(**EVERY))
    assert {name: spec.kind for name, spec in specs.items()} == {
        "local": "local",
        "big": "openai",
        "ranker": "rerank",
        "web": "search",
        "mail": "tool",
        "pretended": "simulated",
    }
    assert specs["local"].limits.max_in_flight == 2
    assert specs["big"].http is not None and specs["big"].http.api_key == "sk-1"
    assert specs["web"].http is not None and specs["web"].http.headers == {"X-Subscription-Token": "t"}
    assert specs["web"].search is not None and specs["web"].search.text == ("/title", "/text")
    assert specs["mail"].tool is not None and specs["mail"].limits.answer_s == 3
    assert specs["pretended"].pace is not None and specs["pretended"].pace.fixed_s == 0.005
    assert "sk-1" not in repr(specs)


def test_local_is_there_without_being_configured() -> None:
    assert component_specs(parsed())["local"].abilities == ("embed", "rerank")


def test_what_each_does_is_what_workflows_may_ask() -> None:
    world = parsed(**EVERY).world()
    assert world.who("embed") == ("big", "pretended", "local")
    assert world.who("tool") == ("mail", "pretended")
    assert world.default("search") is None and parsed(web=EVERY["web"]).world().default("search") == "web"


@pytest.mark.parametrize(
    ("component", "said"),
    [
        ({"kind": "embedder"}, "'embedder' is not one of 'local', 'openai'"),
        ({"kind": "openai", "model": "m"}, "base_url is missing (or base_urls"),
        ({**EVERY["big"], "base_ur": "http://a/v1"}, "did you mean components.x.base_url?"),
        ({**SEARCH, "url": "https://{query}.example/"}, "must name its host and path in full"),
        ({**SEARCH, "url": "https://search.example/{query}"}, "must name its host and path in full"),
        ({**SEARCH, "url": "https://search.example/?q=x{query}"}, "as the whole value of a parameter"),
        ({**SEARCH, "url": "https://search.example/?{query}=x"}, "as the whole value of a parameter"),
        ({**SEARCH, "url": "https://search.example/?q={question}"}, "unknown place {question}"),
        ({**SEARCH, "url": "https://user:secret@search.example/"}, "must not carry credentials"),
        ({**SEARCH, "url": "ftp://search.example/"}, "must be a whole http:// or https:// URL"),
        ({**SEARCH, "hits": "results"}, "is no JSON pointer"),
        ({**SEARCH, "text": []}, "components.x.text"),
        ({**EVERY["mail"], "args": {"pattern": "x"}}, "is not checked here"),
        ({**EVERY["ranker"], "url": "http://a/rerank?q={query}"}, "there may be none"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(component: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parsed(x=component)
    assert "components.x" in str(raised.value) and said in str(raised.value)
    assert "secret" not in str(raised.value)


def test_embedders_and_rerankers_may_have_several_servers() -> None:
    embedder = {
        "kind": "openai",
        "base_urls": ["http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"],
        "model": "m",
    }
    ranker = {"kind": "rerank", "urls": ["http://127.0.0.1:1/rerank", "http://127.0.0.1:2/rerank"]}
    specs = component_specs(parsed(embedder=embedder, ranker=ranker))
    first, second = specs["embedder"].http, specs["ranker"].http
    assert first is not None and (first.url, first.further_urls) == (
        "http://127.0.0.1:1/v1",
        ("http://127.0.0.1:2/v1",),
    )
    assert second is not None and second.further_urls == ("http://127.0.0.1:2/rerank",)
    for wrong, said in (
        ({**embedder, "base_url": "http://127.0.0.1:3/v1"}, "exclude each other"),
        ({"kind": "openai", "model": "m"}, r"base_url is missing \(or base_urls"),
        ({**ranker, "urls": ["http://127.0.0.1:1/rerank"] * 2}, "names 127.0.0.1:1 twice"),
        ({**ranker, "urls": [f"http://127.0.0.1:{n}/r" for n in range(1, 66)]}, "65 entries; 1 to 64"),
    ):
        with pytest.raises(ConfigError, match=said):
            parsed(c=wrong)


def test_local_is_the_name_of_the_local_one() -> None:
    with pytest.raises(ConfigError, match=r"components\.local has the name of the house's own"):
        parsed(local=EVERY["big"])


def test_a_url_without_places_is_itself() -> None:
    assert whole_url("http://127.0.0.1:1/a?b=c", frozenset()) == "http://127.0.0.1:1/a?b=c"
