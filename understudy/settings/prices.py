"""Finds list prices by provider and model, for engines whose `price` is `list` and an upstream whose `prices` are.

The table is `list_prices.yaml` beside this file, or the file that `understudy prices --update` put into the data folder.
It is read at the start only, and only where somebody asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from pydantic import Field, ValidationError

from router.model_names import ByModelName
from understudy.settings.core_yaml import read_yaml
from understudy.settings.engines import Dollars
from understudy.settings.group import Settings

LIST = "list"
FILE = "prices.yaml"
"""The table's name in the data folder."""
_SHIPPED = Path(__file__).with_name("list_prices.yaml")
_MOST_BYTES = 2**20
_OF_KIND = {"azure": "openai", "anthropic": "anthropic"}
"""Whose prices hold at an address that no provider has."""
_SUFFIXES = (
    re.compile(r"-v\d+(:\d+)?$"),
    re.compile(r"[-@]20\d{6}$|-20\d\d-\d\d-\d\d$|-latest$"),
)
"""What names of one model differ by: Bedrock's version, then a date."""
_DATED = "-20*"


class BadPrices(Exception):
    """A table of prices that cannot be used. The text names file, key and value, and what would be right."""


class LongPrompts(Settings):
    """What a provider charges where a prompt is longer than it usually is."""

    above_tokens: int = Field(ge=1)
    input_factor: Dollars
    output_factor: Dollars


class ListedModel(Settings):
    """What a provider charges for a model: US dollars per million tokens, as in engines.*.price."""

    input_usd: Dollars
    cached_input_usd: Dollars | None = None
    cache_write_usd: Dollars | None = None
    cache_write_1h_usd: Dollars | None = None
    output_usd: Dollars | None = None
    long_prompts: LongPrompts | None = None
    context_tokens: int | None = Field(None, ge=1)
    max_output_tokens: int | None = Field(None, ge=1)

    @property
    def price(self) -> dict[str, Any]:
        """The same as settings of an engine's price."""
        long = self.long_prompts.model_dump() if self.long_prompts is not None else {}
        return {
            "input_usd_per_mtok": self.input_usd,
            "output_usd_per_mtok": self.output_usd,
            "cached_input_usd_per_mtok": self.cached_input_usd,
            "advanced": {
                "cache_write_usd_per_mtok": self.cache_write_usd,
                "cache_write_1h_usd_per_mtok": self.cache_write_1h_usd,
                **{f"long_prompt_{name}": value for name, value in long.items()},
            },
        }


class Provider(Settings):
    """A provider: where its prices were found, how it is recognized, and its models."""

    source: str = Field(min_length=1)
    hosts: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    models: dict[str, ListedModel]

    def find(self, model: str) -> ListedModel | None:
        """Finds a model by its name, with or without a version, a date or `-latest` behind it."""
        models = ByModelName(self.models)
        for suffix in (None, *_SUFFIXES):
            model = model if suffix is None else suffix.sub("", model)
            if model in models:
                return models[model]
        return None


class PriceList(Settings):
    """The whole table."""

    as_of: date
    providers: dict[str, Provider]

    def provider(self, kind: str, base_url: str) -> Provider | None:
        """Finds whose API is at an address; of an engine or upstream of this kind."""
        host = urlsplit(base_url).hostname or ""
        for provider in self.providers.values():
            if any(fnmatchcase(host, glob) for glob in provider.hosts):
                return provider
        return self.providers.get(_OF_KIND.get(kind, ""))

    def find(self, kind: str, base_url: str, model: str) -> ListedModel | None:
        """Finds what a model costs: at its provider, else at the one that its name begins with (`openai/gpt-4o`)."""
        provider = self.provider(kind, base_url)
        found = provider.find(model) if provider is not None else None
        before, slash, name = model.partition("/")
        if found is not None or not slash:
            return found
        for key, each in self.providers.items():
            if before in (key, *each.prefixes):
                return each.find(name)
        return None


def read_prices(path: Path) -> PriceList:
    """Reads and validates a table. Raises BadPrices."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise BadPrices(f"{path} is no price list: it has more than {_MOST_BYTES} bytes")
        return PriceList.model_validate(read_yaml(data.decode()))
    except OSError as error:
        raise BadPrices(f"cannot read {path}: {error.strerror or error}") from error
    except ValidationError as error:
        raise BadPrices("\n".join(f"{path}: {told}" for told in _wrong(error))) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise BadPrices(f"{path} is not valid YAML: {error}") from None


def prices_file(data_dir: Path | None) -> Path:
    """Where the table is that holds: in the data folder if one was put there, else the program's own."""
    own = None if data_dir is None else data_dir / FILE
    return own if own is not None and own.is_file() else _SHIPPED


def with_list_prices(data: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Puts prices in the place of every `list`, and tells what the list does not have, in a sentence each.

    An engine without `context_tokens` gets the list's. Raises BadPrices.
    """
    settings = dict(data)
    engines = {name: each for name, each in _mapping(data, "engines").items() if isinstance(each, dict)}
    listing = {str(name): each for name, each in engines.items() if each.get("price") == LIST}
    upstream = _mapping(data, "upstream")
    of_upstream = upstream.get("prices") == LIST
    if not listing and not of_upstream:
        return settings, ()
    folder = _mapping(data, "memory").get("data_dir")
    prices = read_prices(prices_file(Path(str(folder)) if folder else None))
    told: list[str] = []
    if of_upstream:
        settings["upstream"] = upstream | {"prices": dict(_of_upstream(prices, upstream, told))}
    if listing:
        priced = {name: _priced(prices, name, each, told) for name, each in listing.items()}
        settings["engines"] = _mapping(data, "engines") | priced
    return settings, tuple(told)


def _mapping(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A group of settings; empty for what is none, which is refused later on."""
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _priced(prices: PriceList, name: str, engine: dict[str, Any], told: list[str]) -> dict[str, Any]:
    urls = engine.get("base_urls")
    first = urls[0] if isinstance(urls, list | tuple) and urls else engine.get("base_url")
    url = first.get("url") if isinstance(first, dict) else first
    model = str(engine.get("model") or "")
    found = prices.find(str(engine.get("kind", "openai")), str(url), model)
    if found is None:
        which = f"the model {model!r} at this base URL" if model else "an engine without `model`"
        told.append(
            f"engines.{name}.price is list, and the price list of {prices.as_of} has nothing for {which}: it is unpriced; "
            f"write what it charges into engines.{name}.price (`understudy prices` shows the list)"
        )
        return engine | {"price": {}}
    return {"context_tokens": found.context_tokens} | engine | {"price": found.price}


def _of_upstream(
    prices: PriceList, upstream: dict[str, Any], told: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields every model of the upstream's provider, by its name and by its name with a date."""
    url = str(upstream.get("base_url"))
    provider = prices.provider(str(upstream.get("kind", "openai")), url)
    if provider is None:
        told.append(
            f"upstream.prices is list, and the price list of {prices.as_of} has no provider at this base_url: nothing is "
            "priced; write what it charges into upstream.prices, by model (`understudy prices` shows the list)"
        )
        return
    for name, model in provider.models.items():
        yield name, model.price
        yield name + _DATED, model.price


def _wrong(error: ValidationError) -> Iterator[str]:
    for problem in error.errors():
        key = ".".join(map(str, problem["loc"])) or "the file"
        said = str(problem["msg"])
        match problem["type"]:
            case "extra_forbidden":
                said = "no such key; docs/reference/prices.md lists them"
            case "missing":
                yield f"{key} is required, and missing"
                continue
            case "model_type" | "dict_type":
                said = "a mapping is right"
        yield f"{key} is {str(problem['input'])[:80]!r}: {said[:1].lower()}{said[1:]}"
