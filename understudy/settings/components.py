"""Settings of components, one class per kind: what workflows ask beside models."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from engines.components.pointer import checked
from engines.components.schema import check_schema
from understudy.settings.engines import checked_url
from understudy.settings.group import Settings
from understudy.settings.secrets import ApiKey

_PLACES = re.compile(r"\{([^{}]*)\}")
_MOST_SERVERS = 64
_KNOWN_PLACES = frozenset({"query", "k"})


class ComponentAdvanced(Settings):
    """How a component is asked again, and how long is waited for it."""

    attempts: int = Field(
        2, ge=1, le=6, description="Most tries of one request. A tool with effects is asked once."
    )
    answer_s: float = Field(60, gt=0, description="Longest wait for a whole answer.")


class ComponentPrice(Settings):
    """What a component charges."""

    usd_per_item: float = Field(
        0,
        ge=0,
        description="US dollars per text that it embeds or ranks, per search and per call, booked to who asks.",
    )


class ComponentSettings(Settings):
    """What every kind of component has."""

    max_in_flight: int = Field(
        4, ge=1, description="Requests under way to it at once; more wait in its queue."
    )
    batch: int | None = Field(
        None,
        ge=1,
        description="Most texts in one request; null: measured, doubled until throughput gains less than 5 %.",
    )
    price: ComponentPrice = Field(ComponentPrice(), description="What it charges.")
    advanced: ComponentAdvanced = Field(ComponentAdvanced(), description="Less common settings.")


class LocalComponent(ComponentSettings):
    """The house's own embedder, and a reranker by its vectors and by words. There without being configured, as `local`."""

    kind: Literal["local"]


class HTTPComponent(ComponentSettings):
    """What every kind has that is asked over HTTP."""

    api_key: ApiKey | None = Field(None, description="Sent as a bearer token; null: none.")
    headers: dict[str, SecretStr] = Field({}, description="Further headers to send on every request.")


class EmbeddingsComponent(HTTPComponent):
    """Any OpenAI-compatible `/embeddings`."""

    kind: Literal["openai"]
    base_url: str | None = Field(
        None, description="Base URL below which `/embeddings` is. Required, unless base_urls are set."
    )
    base_urls: tuple[str, ...] | None = Field(
        None, description="Servers of the same model, up to 64, instead of base_url."
    )
    model: str = Field(min_length=1, description="Model that embeds or reranks, as the component calls it.")
    dimensions: int | None = Field(
        None, ge=1, le=65_536, description="Length of its vectors: asked for, and due; null: its own."
    )

    _valid_url = field_validator("base_url")(lambda url: url and checked_url(url))
    _valid_urls = field_validator("base_urls")(lambda urls: urls and tuple(map(checked_url, urls)))

    @model_validator(mode="after")
    def _one_way_to_say_where(self) -> Self:
        one_of("base_url", self.base_url, self.base_urls)
        return self

    @property
    def servers(self) -> tuple[str, ...]:
        """The base URLs, at least one."""
        return self.base_urls or (self.base_url or "",)


class RerankComponent(HTTPComponent):
    """Any `/rerank`, as vLLM, Cohere and Jina speak it."""

    kind: Literal["rerank"]
    url: str | None = Field(
        None,
        description="Whole URL. Of kind search its query may hold {query} and {k} as values: "
        "https://api.search.brave.com/res/v1/web/search?q={query}&count={k}.",
    )
    urls: tuple[str, ...] | None = Field(
        None, description="Servers of the same model, up to 64, instead of url."
    )
    model: str = Field("", description="Model that embeds or reranks, as the component calls it.")

    _valid_url = field_validator("url")(lambda url: url and whole_url(url, frozenset()))
    _valid_urls = field_validator("urls")(
        lambda urls: urls and tuple(whole_url(url, frozenset()) for url in urls)
    )

    @model_validator(mode="after")
    def _one_way_to_say_where(self) -> Self:
        one_of("url", self.url, self.urls)
        return self

    @property
    def servers(self) -> tuple[str, ...]:
        """The whole URLs, at least one."""
        return self.urls or (self.url or "",)


class SearchComponent(HTTPComponent):
    """A web search API."""

    kind: Literal["search"]
    url: str = Field(description="Whole URL; its query may hold {query} and {k} as values.")
    hits: str = Field(description='JSON pointer to the array of hits in its answer: "/web/results".')
    text: tuple[str, ...] = Field(
        min_length=1,
        description="JSON pointers within a hit to its texts, such as /title and /description: a line each.",
    )
    body: dict[str, Any] | None = Field(
        None,
        description='Asked by POST with this JSON object, in which the values "{query}" and "{k}" are replaced; null: '
        "by GET.",
    )

    _valid_url = field_validator("url")(lambda url: whole_url(url, _KNOWN_PLACES))

    @field_validator("hits", "text")
    @classmethod
    def _are_pointers(cls, value: Any) -> Any:
        for each in value if isinstance(value, tuple) else (value,):
            checked(each)
        return value


class ToolComponent(HTTPComponent):
    """A URL that takes arguments and answers: what a `tool` step calls."""

    kind: Literal["tool"]
    url: str = Field(description="Whole URL.")
    args: dict[str, Any] = Field(
        {"type": "object"}, description="JSON schema of its arguments, which are sent as a JSON object."
    )
    answer: dict[str, Any] | None = Field(
        None, description="JSON schema of its answer; null: anything, also a text that is no JSON."
    )
    result: str = Field("", description="JSON pointer to what is taken of its answer; empty: all of it.")
    method: Literal["POST", "GET"] = Field(
        "POST", description="GET sends the arguments as values of the query."
    )

    _valid_url = field_validator("url")(lambda url: whole_url(url, frozenset()))
    _valid_result = field_validator("result")(lambda value: checked(value))

    @field_validator("args", "answer")
    @classmethod
    def _are_schemas(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None:
            check_schema(value)
        return value


class SimulatedComponent(ComponentSettings):
    """Embeds, reranks, searches or answers as a tool at a modelled pace: for demos, tests and load. It says so."""

    kind: Literal["simulated"]
    fixed_ms: float = Field(20, ge=0, description="What one request takes.")
    item_ms: float = Field(1, ge=0, description="What each text or query in it adds.")
    dimensions: int = Field(384, ge=1, le=65_536, description="Length of its vectors.")


AnyComponent = Annotated[
    LocalComponent
    | EmbeddingsComponent
    | RerankComponent
    | SearchComponent
    | ToolComponent
    | SimulatedComponent,
    Field(discriminator="kind"),
]
"""Settings of a component of any kind."""


def one_of(name: str, one: str | None, several: tuple[str, ...] | None) -> None:
    """Check that a server is said in one way. Raises ValueError with what would be right."""
    if one is None and not several:
        raise ValueError(f"{name} is missing (or {name}s, for several servers)")
    if one is not None and several is not None:
        raise ValueError(f"{name} and {name}s exclude each other: put all of them into {name}s")
    if several is None:
        return
    if len(several) > _MOST_SERVERS:
        raise ValueError(f"{name}s has {len(several)} entries; 1 to {_MOST_SERVERS} are right")
    hosts = [urlsplit(url).netloc for url in several]
    if twice := sorted({host for host in hosts if hosts.count(host) > 1}):
        raise ValueError(f"{name}s names {twice[0]} twice")


def whole_url(url: str, places: frozenset[str]) -> str:
    """The URL of a component. Raises ValueError, never quoting it.

    `places` are what may stand in braces as the value of a query's parameter; nowhere else may anything be put in.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be a whole http:// or https:// URL")
    if parts.username or parts.password or "@" in parts.netloc:
        raise ValueError("must not carry credentials; use api_key or headers")
    if parts.fragment or "#" in url:
        raise ValueError("must not carry a fragment")
    if _PLACES.search(parts.netloc + parts.path):
        raise ValueError("must name its host and path in full: values stand in the query only")
    for parameter in parts.query.split("&"):
        name, _, value = parameter.partition("=")
        for place in _PLACES.findall(parameter):
            if place not in places:
                allowed = " or ".join(f"{{{each}}}" for each in sorted(places)) or "none"
                raise ValueError(f"has an unknown place {{{place}}} in its query; there may be {allowed}")
            if _PLACES.search(name) or value != f"{{{place}}}":
                raise ValueError(f"must have {{{place}}} as the whole value of a parameter: q={{{place}}}")
    return url
