"""Finds budgets that refuse requests because an engine has no price (403 `unpriced`).

Looks at the configuration alone: keys and tenants that only the store knows are not seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from store.people.limits import Limits
from understudy.settings.config import Config
from understudy.settings.terms import TermsSettings

_UPSTREAM = "what `models` does not name"


@dataclass(frozen=True, slots=True)
class Unpriced:
    """What budgets refuse, a sentence each."""

    everything: tuple[str, ...]
    """Of keys and tenants that can ask for nothing that has a price."""
    some: tuple[str, ...]
    """Of those that can ask for other models."""


def unpriced(config: Config) -> Unpriced:
    """Finds every key and tenant of the configuration whose budget refuses all of its requests, or some."""
    everything: dict[str, list[str]] = {}
    some: dict[str, list[str]] = {}
    for who, scopes in _askers(config):
        budgets = [one for one, limits in scopes.items() if limits.budgets and not limits.allow_unpriced]
        offered = _offered(config, [limits.models for limits in scopes.values() if limits.models])
        refused = {model: missing for model, missing in offered.items() if missing}
        if not budgets or not refused:
            continue
        missing = ", ".join(dict.fromkeys(one for each in refused.values() for one in each))
        remedy = f"set {missing} (0 if it is free), or {' and '.join(f'{b}.allow_unpriced' for b in budgets)}: true"
        if len(refused) == len(offered):
            everything.setdefault(f"every request (403 unpriced): {remedy}", []).append(who)
        else:
            what = ", ".join(refused)
            some.setdefault(f"every request for {what} (403 unpriced): {remedy}", []).append(who)
    return Unpriced(_told(everything), _told(some))


def _told(found: dict[str, list[str]]) -> tuple[str, ...]:
    return tuple(f"a budget of {', '.join(who)} refuses {what}" for what, who in found.items())


def _askers(config: Config) -> Iterator[tuple[str, dict[str, Limits]]]:
    """Yields (who, all limits that hold for its requests, by setting): every key, and tenants without one here."""
    tenants = {name: _limits(f"tenants.{name}", tenant) for name, tenant in config.tenants.items()}
    for name, key in config.keys.items():
        yield f"keys.{name}", _limits(f"keys.{name}", key) | tenants.get(key.tenant, {})
    with_keys = {key.tenant for key in config.keys.values()}
    for name, limits in tenants.items():
        if name not in with_keys:
            yield f"tenants.{name}", limits


def _limits(setting: str, terms: TermsSettings) -> dict[str, Limits]:
    return {
        f"{setting}.limits": terms.limits,
        f"{setting}.each_user": terms.each_user,
    }


def _offered(config: Config, listed: list[tuple[str, ...]]) -> dict[str, list[str]]:
    """Returns the prices that are missing of each model that may be asked for; `listed`: models, by each that lists any."""

    def allowed(name: str) -> bool:
        return all(any(_overlap(name, glob) for glob in globs) for globs in listed)

    found = {}
    for name, model in config.models.items():
        if allowed(name):
            engines = dict.fromkeys((*model.engines, *model.cascade, *filter(None, [model.larger_context])))
            found[name] = [f"engines.{one}.price" for one in engines if not config.engines[one].price.known]
    if config.upstream is None:
        return found
    priced = {name: list[str]() for name in config.upstream.prices if name.startswith("/") or allowed(name)}
    named = [*config.models, *config.upstream.prices]
    others = all(any(not any(_overlap(name, glob) for name in named) for glob in globs) for globs in listed)
    return found | priced | ({_UPSTREAM: ["upstream.prices"]} if others else {})


def _overlap(name: str, glob: str) -> bool:
    """Whether a model's name and a listed one, either of which may be a wildcard, can mean the same model."""
    return fnmatchcase(name, glob) or fnmatchcase(glob, name)
