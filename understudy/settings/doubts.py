"""Tells of settings that can be used and are most likely not what was meant. Nothing is asked, and no file is looked at.

What cannot be right is refused where the setting is; this is for what may be right now and then.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from understudy.settings.config import Config, meant
from understudy.settings.engines import HTTPEngine, OpenAIEngine, VLLMEngine
from understudy.settings.key_names import keys_named
from understudy.settings.models import ModelSettings
from understudy.settings.terms import TermsSettings
from understudy.settings.unpriced import unpriced

_KEY_ID = "key_"
_NO_KEYS = "default"


def doubts(config: Config) -> list[str]:
    """One sentence for each, naming the setting and what would be right."""
    refusing = unpriced(config)
    return [
        *config.told,
        *_urls(config),
        *_unused_engines(config),
        *(told for name, model in config.models.items() for told in _of_model(config, name, model)),
        *_key_ids(config),
        *_models_of_keys(config),
        *_webhooks(config),
        *config.unspoken(),
        *refusing.everything,
        *refusing.some,
    ]


def _urls(config: Config) -> Iterator[str]:
    bare = {
        f"engines.{name}.base_url": one
        for name, one in config.engines.items()
        if isinstance(one, OpenAIEngine | VLLMEngine)
    }
    found = [(setting, server.base_url) for setting, one in bare.items() for server in one.servers.values()]
    if config.upstream is not None and config.upstream.kind == "openai":
        found.append(("upstream.base_url", config.upstream.base_url))
    for setting, url in found:
        if url is not None and not urlsplit(url).path:
            yield f"{setting} ends with the host: most APIs are below /v1, so that it ends with /v1"


def _unused_engines(config: Config) -> Iterator[str]:
    used = {
        name
        for model in config.models.values()
        for name in (*model.engines, *model.cascade, model.larger_context)
    }
    replay = config.replay
    used |= {
        replay.judge,
        replay.advanced.engine,
        replay.advanced.generator,
        *replay.advanced.kv_plan.engines,
    }
    used |= {config.judging.engine} if config.judging is not None else set()
    used |= {getattr(config.private.advanced, "generator", None), getattr(config.private, "engine", None)}
    for name in config.engines:
        if name not in used:
            yield f"engines.{name} is used by nothing: name it under models.*.engines, or take it away"


def _of_model(config: Config, name: str, model: ModelSettings) -> Iterator[str]:
    engines = {each: config.engines[each] for each in model.engines}
    if model.larger_context in engines:
        yield (
            f"models.{name}.larger_context is {model.larger_context!r}, which models.{name}.engines names, too: it changes"
            " nothing there"
        )
    seen: dict[tuple[str, str | None], list[str]] = {}
    for each, settings in engines.items():
        if isinstance(settings, HTTPEngine) and settings.base_url is not None:
            others = seen.setdefault((settings.base_url, settings.model), [])
            # One server may be two engines, each for APIs of its own.
            if first := next((one for one in others if engines[one].spoken & settings.spoken), None):
                yield f"engines.{first} and engines.{each} ask the same model at the same base_url"
            others.append(each)
    if model.policy == "fixed":
        return
    if config.memory is None or not config.memory.examples.enabled:
        what = "there is no `memory`" if config.memory is None else "memory.examples.enabled is false"
        yield (
            f"models.{name}.policy is {model.policy}, but {what}: every request goes to {model.engines[-1]!r}, as with"
            " policy fixed"
        )
    small, large = engines[model.engines[0]].price, engines[model.engines[-1]].price
    for kind in ("input_usd_per_mtok", "output_usd_per_mtok"):
        cheap, dear = getattr(small, kind), getattr(large, kind)
        if cheap is not None and dear is not None and cheap > dear:
            yield (
                f"models.{name}.engines run from small to large, but {model.engines[0]!r} costs more than"
                f" {model.engines[-1]!r} ({kind}: {cheap:g} and {dear:g})"
            )


def _key_ids(config: Config) -> Iterator[str]:
    for setting, ids in keys_named(config):
        for id in ids:
            if not id.startswith(_KEY_ID) and id != _NO_KEYS and id not in config.keys:
                near = meant(id, config.keys) or f": `understudy keys list` shows ids ({_KEY_ID}...)"
                yield f"{setting} has {id!r}, which is no key's id and none of `keys`{near}"


def _models_of_keys(config: Config) -> Iterator[str]:
    """Models that a key or tenant is limited to, and that nobody serves."""
    served = [*config.models, *config.workflows.definitions]
    terms: dict[str, TermsSettings] = {f"keys.{name}": one for name, one in config.keys.items()}
    terms |= {f"tenants.{name}": one for name, one in config.tenants.items()}
    for where, one in terms.items():
        for setting, limits in (("limits", one.limits), ("each_user", one.each_user)):
            for glob in limits.models:
                slip = meant(glob, served)
                known = any(fnmatchcase(name, glob) or fnmatchcase(glob, name) for name in served)
                if not known and (slip or config.upstream is None):
                    yield (
                        f"{where}.{setting}.models has {glob!r}, which is none of `models`"
                        f"{slip or ': name one of ' + (', '.join(served) or 'them')}"
                    )


def _webhooks(config: Config) -> Iterator[str]:
    for number, one in enumerate(config.webhooks):
        if (shape := one.other_shape()) is not None:
            yield (
                f"webhooks.{number}.url leads to {shape}, which does not read shape {one.shape}: set"
                f" webhooks.{number}.shape to {shape}"
            )
