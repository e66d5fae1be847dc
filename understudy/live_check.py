"""Asks each configured engine whether it is there, takes its key and has its model: `understudy check --live`.

A request costs nothing (`GET /models`); with `ask_too` one answer of one token is asked for as well, and every judge is
examined (learning.outcomes.judge_exam), which takes a dozen verdicts. No key is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
from multidict import CIMultiDict

from engines.apis import Api
from engines.asking import Bill, NotAnswered, ask
from engines.engine import Engine, EngineRequest
from engines.errors import EngineError
from engines.servers.servers import Servers
from learning.outcomes.judge_exam import Exam, Known, questions
from learning.outcomes.judging_limits import JudgingLimits
from learning.outcomes.verdicts import Judge, VerdictRequest
from store import Store
from understudy.background.engine_watch import shown_error
from understudy.settings.config import Config
from understudy.settings.engines import HTTPEngine
from understudy.settings.knobs import knobs_of
from understudy.settings.learning import JudgingSettings
from understudy.setup.engines import UPSTREAM, Tenants, engines, keys_of, upstream
from understudy.setup.outcomes import known_answers
from understudy.setup.store import open_store

_WITHIN_S = 20.0
_ANSWER_WITHIN_S = 120.0
_EXAM_WITHIN_S = 600.0
_MOST_BYTES = 4 * 2**20
_SHOWN = 200
_ASKED = "Say yes."
_CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": _ASKED}]}
_QUESTIONS: Mapping[Api, tuple[str, tuple[dict[str, Any], ...]]] = {
    # Newer models of OpenAI's take the one, older servers the other.
    "chat": ("/chat/completions", (_CHAT | {"max_completion_tokens": 16}, _CHAT | {"max_tokens": 1})),
    "messages": ("/messages", (_CHAT | {"max_tokens": 1},)),
    "responses": ("/responses", ({"input": _ASKED, "max_output_tokens": 16, "store": False},)),
    "completions": ("/completions", ({"prompt": _ASKED, "max_tokens": 1},)),
    "embeddings": ("/embeddings", ({"input": _ASKED},)),
}
"""By API, in the order in which they are tried: its path, and bodies of which one is understood."""


@dataclass(frozen=True, slots=True)
class Found:
    """What came of asking one base URL."""

    name: str
    """As the configuration calls it, with the replica where there are several."""
    told: str
    works: bool


async def live_check(config: Config, *, ask_too: bool = False) -> list[Found]:
    """What each engine and the default upstream say. Engines without a URL of their own are left out."""
    tenants = Tenants(b"\0" * 32)
    made, default = engines(config, tenants), upstream(config, tenants)
    keys = _keys(config)
    try:
        asked = [_found(name, engine, model, ask_too) for name, engine, model in _servers(config, made)]
        if default is not None:
            # Which models it has is for clients to know.
            asked.append(_found(UPSTREAM, default, None, False))
        found = await asyncio.gather(*asked)
        if ask_too:
            known = await asyncio.to_thread(_known, config)
            found += await asyncio.gather(*(_examined(config, made[name], known) for name in _judges(config)))
        # Upstreams quote what they were sent.
        return [replace(one, told=shown_error(one.told, keys)) for one in found]
    finally:
        for engine in (*made.values(), *((default,) if default is not None else ())):
            await engine.aclose()


def _judges(config: Config) -> list[str]:
    """Engines that may be asked to judge: the one configured, or else what models need proof against."""
    if config.judging is not None:
        return [config.judging.engine]
    compared = (model for model in config.models.values() if len(model.engines) > 1)
    return list(dict.fromkeys(model.engines[-1] for model in compared if model.proof != "off"))


def _known(config: Config) -> list[Known]:
    """Latest traffic of the tenant with the most examples; nothing where none is kept yet. Blocks."""
    memory = config.memory
    if memory is None or memory.data_dir is None or not Store.is_in(memory.data_dir):
        return []
    store = open_store(memory)
    try:
        tenant = max(store.tenants(), key=store.examples.count, default="")
        return known_answers(store, tenant)
    finally:
        store.close()


async def _examined(config: Config, engine: Engine, known: list[Known]) -> Found:
    settings = config.judging or JudgingSettings(engine="")
    name = f"judge {engine.info.name}"
    limits = knobs_of(JudgingLimits, settings, settings.advanced)
    judge = Judge(engine, verdict_tokens=limits.verdict_tokens)
    exam = Exam()

    async def verdict(request: VerdictRequest) -> int | None:
        said = await ask(
            engine, request.chat, most_tokens=request.most_tokens, bill=Bill({}), purpose="verdict"
        )
        return request.read(said.text)

    try:
        async with asyncio.timeout(_EXAM_WITHIN_S):
            await exam.go_on(judge, verdict, questions(known))
    except (NotAnswered, TimeoutError) as error:
        return Found(name, f"it could not be examined: {error or 'it takes too long'}", False)
    return Found(name, ("" if exam.passed else "refused: ") + exam.told, exam.passed)


def _keys(config: Config) -> tuple[str, ...]:
    default = config.upstream.api_key if config.upstream is not None else None
    return (*keys_of(config), *((default.get_secret_value(),) if default is not None else ()))


def _servers(config: Config, made: Mapping[str, Engine]) -> Iterator[tuple[str, Engine, str | None]]:
    for name, settings in config.engines.items():
        if not isinstance(settings, HTTPEngine):
            continue
        engine = made[name]
        assert isinstance(engine, Servers)
        for server in engine.servers:
            at = f" at {server.name}" if server.name else ""
            yield f"engines.{name}{at}", Servers([server]), settings.model


async def _found(name: str, engine: Engine, model: str | None, ask_too: bool) -> Found:
    try:
        async with asyncio.timeout(_WITHIN_S):
            status, content = await _answer(engine, EngineRequest("GET", "/models", _headers(), b""))
    except (EngineError, TimeoutError) as error:
        return Found(name, getattr(error, "message", f"no answer within {_WITHIN_S:g} s"), False)
    listed = _models(content)
    if status in (401, 403):
        return Found(name, f"its key is refused ({status}): {_words(content)}", False)
    if status == 404:
        told, works = "it is there, and has no /models: is the base URL right, with its /v1?", ask_too
    elif status >= 400:
        return Found(name, f"GET /models got {status}: {_words(content)}", False)
    elif listed is None:
        return Found(name, "what answers is no OpenAI-compatible API: GET /models gave no list", False)
    elif model is not None and listed and model not in listed:
        near = ", ".join(listed[:5])
        told, works = f"its list of models has no {model!r}, but {near}", False
    else:
        told, works = "it answers" + (f", and has the model {model!r}" if model in listed else ""), True
    if not ask_too or model is None:
        return Found(name, told, works)
    return await _asked(name, engine, model, told, works)


async def _asked(name: str, engine: Engine, model: str, told: str, works: bool) -> Found:
    api = next((one for one in _QUESTIONS if engine.info.speaks(one)), None)
    if api is None:
        return Found(
            name, f"{told}; no question was asked: it speaks no API of texts (engines.*.apis)", works
        )
    path, bodies = _QUESTIONS[api]
    for fields in bodies:
        body = orjson.dumps({"model": model} | fields)
        try:
            async with asyncio.timeout(_ANSWER_WITHIN_S):
                status, content = await _answer(
                    engine, EngineRequest("POST", path, _headers(), body, plain=True)
                )
        except (EngineError, TimeoutError) as error:
            return Found(name, getattr(error, "message", f"no answer within {_ANSWER_WITHIN_S:g} s"), False)
        if status < 400:
            return Found(name, f"{told}; a question at {path} was answered", True)
    return Found(name, f"{told}; a question at {path} got {status}: {_words(content)}", False)


def _headers() -> CIMultiDict[str]:
    return CIMultiDict(
        {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
    )


async def _answer(engine: Engine, request: EngineRequest) -> tuple[int, bytes]:
    async with engine.stream(request) as reply:
        found = b""
        async for chunk in reply.chunks:
            found += chunk
            if len(found) > _MOST_BYTES:
                break
        return reply.status, found


def _models(content: bytes) -> list[str] | None:
    try:
        listing: Any = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    data = listing.get("data") if isinstance(listing, dict) else None
    if not isinstance(data, list):
        return None
    return [str(one["id"]) for one in data if isinstance(one, dict) and "id" in one]


def _words(content: bytes) -> str:
    """What an error says, without more."""
    try:
        said: Any = orjson.loads(content)
        said = said.get("error", said) if isinstance(said, dict) else said
        text = said.get("message", "") if isinstance(said, dict) else str(said)
    except orjson.JSONDecodeError:
        text = content.decode("utf-8", "replace")
    text = " ".join(str(text).split())
    return text[:_SHOWN] if text.isprintable() else ""
