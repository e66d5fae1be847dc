"""Which proxy an upstream is asked through: of the configuration, else of the environment, never for private hosts."""

from __future__ import annotations

import pytest

from engines.proxies import proxy_for

VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
PUBLIC, SECURE = "http://llm.example/v1", "https://llm.example/v1"
SET = {"HTTP_PROXY": "http://a:1", "https_proxy": "b:2"}

ASKED_THROUGH = {
    "nothing set": (PUBLIC, None, {}, None),
    "by scheme": (PUBLIC, None, SET, "http://a:1"),
    "in small letters, without a scheme": (SECURE, None, SET, "http://b:2"),
    "for all schemes": (SECURE, None, {"ALL_PROXY": "http://c:3"}, "http://c:3"),
    "SOCKS, which is not spoken": (SECURE, None, {"ALL_PROXY": "socks5://c:3"}, None),
    "a host that is left out": (PUBLIC, None, SET | {"NO_PROXY": "other, llm.example"}, None),
    "a domain that is left out": (PUBLIC, None, SET | {"no_proxy": ".example"}, None),
    "a port that is left out": ("http://llm.example:81", None, SET | {"NO_PROXY": "llm.example:81"}, None),
    "all left out": (PUBLIC, None, SET | {"NO_PROXY": "*"}, None),
    "this machine": ("http://127.0.0.1:8000/v1", None, SET, None),
    "this machine by its name": ("http://localhost:8000/v1", None, SET, None),
    "this machine in IPv6": ("http://[::1]:8000/v1", None, SET, None),
    "a private address": ("http://10.1.2.3/v1", None, SET, None),
    "a service of compose": ("http://vllm:8000/v1", None, SET, None),
    "a cluster": ("http://vllm.ns.svc.cluster.local/v1", None, SET, None),
    "a private address, env": ("http://10.1.2.3/v1", "env", SET, "http://a:1"),
    "none": (PUBLIC, "none", SET, None),
    "a URL": (PUBLIC, "http://u:p@d:4", SET, "http://u:p@d:4"),
    "a URL for a private address": ("http://10.1.2.3/v1", "http://d:4", {}, "http://d:4"),
}


@pytest.mark.parametrize("what", ASKED_THROUGH)
def test_an_upstream_is_asked_through(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url, said, environment, through = ASKED_THROUGH[what]
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = proxy_for(url, said)
    assert (str(found).rstrip("/") if found else None) == through
