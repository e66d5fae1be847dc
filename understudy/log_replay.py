"""Replays a log through a gateway of its own: each request is decided by what came before it, and by nothing else.

The gateway is the product's, in a folder that is deleted afterwards. The reference's answers come from the log; every other
engine is asked for real, while the purse has money.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
from multidict import CIMultiDict

from engines.answers.choices import Choices
from engines.chat import ChatRequest, estimated_tokens, message_text
from engines.chat_json import read_chat_request
from engines.engine import Engine
from engines.errors import EngineError, RequestError
from gateway.admission import as_operator
from gateway.journey import arrival
from gateway.send import Write
from learning.bank.contributor import EndUsers, user_of
from learning.bank.importing.formats import Pair
from learning.guarantee.proof import ProofFollower
from learning.logs.purse import Paid, Purse
from learning.logs.reasons import NOT_GOOD_ENOUGH
from learning.logs.recorded import Recorded
from learning.logs.report import Replayed, Way
from learning.outcomes.equal import same, settles
from learning.outcomes.judging import Judging
from router.asked import Asked, Controls
from router.digest import scope, shared_scope
from router.finished import Finished, Outcome
from router.plan import SHADOW, Plan
from router.policies.nearest_examples import familiar, that_fit
from router.prompt import example_tokens
from understudy.build import Gateway
from understudy.settings.config import Config, LogSettings
from understudy.settings.listen import Listen
from understudy.settings.memory import MemorySettings
from understudy.settings.models import ModelSettings
from understudy.settings.private import PrivateSettings
from understudy.settings.replay import ReplaySettings
from understudy.settings.sharing import SharingSettings
from understudy.setup.engines import price_of

_TENANT = "default"
_PATIENT_MS = 60_000.0
"""Nobody waits for an answer: a slow machine must not change what is found."""
_SETTLED_S = 120.0
_KEPT_BYTES = 2**20


class Stuck(Exception):
    """The gateway did not come to rest between two requests."""


@dataclass(slots=True)
class _Line:
    """One request of the log, once it is answered; what was compared in the background is added at the end."""

    id: str
    so_far: Replayed


@dataclass(slots=True)
class LogReplay:
    """Replays `pairs` under `config`, whose models are those that the log's requests are served as."""

    config: Config
    purse: Purse
    models_folder: Path
    """Where the built embedding model is kept."""
    labels: dict[str, str] = field(default_factory=dict)
    """The beginning of each scope's instructions, for people."""

    async def run(
        self, pairs: Sequence[tuple[str, Pair]], *, answered: Callable[[int, Replayed], None]
    ) -> list[Replayed]:
        """What became of each pair, with the name of the model that serves it. Raises Stuck and what opening raises."""
        with tempfile.TemporaryDirectory(prefix="understudy-log-") as folder:
            recorded: dict[str, Recorded] = {}
            config = _in_folder(self.config, Path(folder), self.models_folder)
            gateway = Gateway(config, engines_as=lambda found: self._engines(found, recorded))
            try:
                gateway.start()
                asker = _Asker(config, gateway, recorded, self.labels, asks_nobody=not self.purse.usd)
                found = []
                for model, pair in pairs:
                    found.append(await asker.ask(model, pair))
                    answered(len(found), found[-1].so_far)
                await asker.rest()
                return [await asyncio.to_thread(asker.with_comparisons, line) for line in found]
            finally:
                await gateway.aclose()

    def _engines(self, found: Mapping[str, Engine], recorded: dict[str, Recorded]) -> Mapping[str, Engine]:
        """Those of the configuration: references answer from the log, all others within the purse."""
        references = {model.engines[-1] for model in self.config.models.values()}
        paid: dict[str, Engine] = {name: Paid(engine, self.purse) for name, engine in found.items()}
        for name in references:
            recorded[name] = Recorded(found[name].info, paid[name])
        return {**paid, **recorded}


def _in_folder(config: Config, folder: Path, models_folder: Path) -> Config:
    """The configuration with a memory of its own, patient, and without what has nothing to do with answering."""
    memory = config.memory or MemorySettings()
    patient = {
        "embedding_cache_dir": models_folder,
        "embedding_deadline_ms": _PATIENT_MS,
        "retrieve_deadline_ms": _PATIENT_MS,
        "reuse_deadline_ms": _PATIENT_MS,
    }
    return config.model_copy(
        update={
            "listen": Listen(),
            "upstream": None,
            "sharing": SharingSettings(),
            "private": PrivateSettings(),
            "replay": ReplaySettings(),
            "log": LogSettings(requests=False),
            "memory": memory.model_copy(
                update={
                    "data_dir": folder,
                    # Nothing of a database that others share.
                    "database_url": None,
                    "listen_url": None,
                    "index": "usearch",
                    "blobs_url": "",
                    "log_requests": True,
                    "request_texts": memory.request_texts.model_copy(update={"enabled": False}),
                    "advanced": memory.advanced.model_copy(update=patient),
                }
            ),
        }
    )


class _Asker:
    """Puts one request after the other to the gateway's pipeline."""

    def __init__(
        self,
        config: Config,
        gateway: Gateway,
        recorded: Mapping[str, Recorded],
        labels: dict[str, str],
        *,
        asks_nobody: bool,
    ) -> None:
        assert gateway.pipeline is not None and gateway.memory is not None and config.memory is not None
        self._config = config
        self._gateway = gateway
        self._pipeline = gateway.pipeline
        self._store = gateway.memory.store
        self._recorded = recorded
        self._labels = labels
        self._asks_nobody = asks_nobody
        self._ttl_s = config.memory.exact.ttl_s
        self._end_users = EndUsers(self._store.secret, apart=config.memory.partition == "user")
        self._answered_at_s: dict[bytes, float] = {}

    async def ask(self, model: str, pair: Pair) -> _Line:
        served = self._config.models[model]
        self._recorded[served.engines[-1]].knows(pair)
        asked = self._asked(model, pair)
        finished: Finished | None = None
        with suppress(RequestError, EngineError):
            finished = await self._pipeline.answer(asked, _Nowhere())
        await self.rest()
        so_far = await asyncio.to_thread(self._replayed, asked, finished, served, pair)
        return _Line(asked.arrival.id, so_far)

    async def rest(self) -> None:
        """Wait until all that came of it so far is remembered, as if the next request came much later. Raises Stuck."""
        await self._settled()
        for judging in self._gateway.parts.owned(Judging):
            await judging.join()
        # What was compared is committed, and then counts.
        await self._settled()
        for follower in self._gateway.parts.owned(ProofFollower):
            await asyncio.to_thread(follower.caught_up)

    async def _settled(self) -> None:
        until = time.monotonic() + _SETTLED_S
        while not self._gateway.settled():
            if time.monotonic() > until:
                raise Stuck(f"what was answered is not remembered after {_SETTLED_S:.0f} seconds")
            await asyncio.sleep(0.002)

    def with_comparisons(self, line: _Line) -> Replayed:
        """What the gateway's own comparisons in the background said of it. Blocks."""
        outcomes = self._store.outcomes.of(_TENANT, line.id)
        references = {model.engines[-1] for model in self._config.models.values()}
        others = [each for each in outcomes if each.engine not in references]
        compared = replace(
            line.so_far,
            shadow=tuple((bool(each.example_ids), each.quality) for each in others if not each.served),
            comparisons=len(others),
            comparisons_usd=sum(each.cost_usd for each in outcomes),
        )
        judged = [each for each in others if each.served]
        if not judged or compared.way != "offloaded" or compared.quality is not None:
            return compared
        # Of the answers that only a judge can compare a sample was judged.
        return replace(compared, quality=judged[-1].quality, weight=1.0 / judged[-1].probability)

    def _asked(self, model: str, pair: Pair) -> Asked:
        left_out = ("stream", "stream_options")
        fields = {name: value for name, value in pair.fields.items() if name not in left_out}
        fields["model"] = model
        body = _as_json(fields)
        came = as_operator(arrival("POST", "/v1/chat/completions"), _TENANT)
        behind = self._end_users.named(_TENANT, None, user_of(fields))
        return Asked(
            came,
            "/chat/completions",
            CIMultiDict({"Content-Type": "application/json"}),
            read_chat_request(body, fields),
            Controls(no_cache=self._expired(body, pair.created_at_s)),
            _KEPT_BYTES,
            behind.contributor,
            behind.end_user,
        )

    def _expired(self, body: bytes, at_s: float | None) -> bool:
        """Whether, by the log's clock, the same request was answered so long ago that its answer may not be replayed."""
        if at_s is None:
            return False
        before = self._answered_at_s.get(body)
        if before is not None and at_s - before <= self._ttl_s:
            return False
        self._answered_at_s[body] = at_s
        return before is not None

    def _replayed(
        self, asked: Asked, finished: Finished | None, served: ModelSettings, pair: Pair
    ) -> Replayed:
        prompt, completion = _tokens(asked.chat, pair)
        reference = self._config.engines[served.engines[-1]].price
        asked_under = shared_scope(scope(asked.chat, end_user=asked.end_user))
        self._labels.setdefault(asked_under, _label(asked.chat))
        row = self._store.decisions.requests.get(asked.arrival.id)
        plan = finished.plan if finished is not None else None
        near, tokens = _familiar(plan, served)
        small = self._config.engines[served.engines[0]].price
        way, reason = _way(finished, served)
        if reason == SHADOW:
            reason = "not_asked" if self._asks_nobody else _of_shadow(plan)
        return Replayed(
            model=asked.chat.model,
            scope=asked_under,
            way=way,
            reason=reason,
            reference_usd=price_of(reference).compared_usd(prompt, completion),
            cost_usd=row.cost_usd or 0.0 if row is not None else 0.0,
            familiar=near,
            small_usd=price_of(small).compared_usd(prompt + tokens, completion),
            quality=_agreement(finished, pair) if way == "offloaded" else None,
            expected_more=_expected_more(plan),
        )


def _way(finished: Finished | None, served: ModelSettings) -> tuple[Way, str]:
    if finished is None or finished.outcome in (Outcome.FAILED, Outcome.UPSTREAM_ERROR):
        return "failed", finished.reason if finished is not None else "failed"
    if finished.outcome is Outcome.HIT:
        return ("semantic" if finished.policy == "semantic" else "exact"), finished.reason
    if finished.engine != served.engines[-1]:
        return "offloaded", finished.reason
    # The small engine was chosen, and could not be asked.
    return "reference", "not_asked" if finished.failed_over is not None else finished.reason


def _familiar(plan: Plan | None, served: ModelSettings) -> tuple[bool, int]:
    """Whether enough earlier requests are like it, by the few_shot rule, and the tokens of the examples it would get."""
    if plan is None:
        return False, 0
    rule = served.few_shot
    near = familiar(plan.neighbours, plan.embedded_text, theta=rule.theta, same_names=rule.same_names)
    if sum(1 + each.example.merged for each in near) < rule.m:
        return False, 0
    sent = that_fit(near, most=rule.max_examples, room_tokens=served.advanced.max_example_tokens)
    return True, sum(map(example_tokens, sent))


def _of_shadow(plan: Plan | None) -> str:
    """Whether the small engine may still be proven where the request stands."""
    standings = plan.proof.standings if plan is not None and plan.proof is not None else ()
    hopeless = any(each.compared for each in standings) and _expected_more(plan) is None
    return NOT_GOOD_ENOUGH if hopeless else SHADOW


def _expected_more(plan: Plan | None) -> int | None:
    return plan.proof.expected_more if plan is not None and plan.proof is not None else None


def _agreement(finished: Finished | None, pair: Pair) -> float | None:
    """1 for the recorded answer, 0 for another; None for one that other words may say as well."""
    assembled = finished.body.read(Choices) if finished is not None else None
    if finished is None or assembled is None:
        return None
    near = [each.example.answer for each in finished.plan.neighbours] if finished.plan is not None else []
    return float(same(assembled.text(), pair.answer)) if settles(pair.answer, near) else None


def _tokens(chat: ChatRequest, pair: Pair) -> tuple[int, int]:
    prompt = sum(estimated_tokens(message_text(m.get("content"))) + 4 for m in chat.messages)
    return pair.prompt_tokens or prompt, pair.completion_tokens or estimated_tokens(pair.answer)


def _label(chat: ChatRequest) -> str:
    texts = (
        message_text(m.get("content")) for m in chat.messages if m.get("role") in ("system", "developer")
    )
    return " ".join(" ".join(texts).split())[:120] or "no system prompt"


def _as_json(fields: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        # Integers beyond 64 bits.
        return json.dumps(fields, sort_keys=True).encode()


class _Nowhere:
    """Implements gateway.send.Send: nobody reads the answers."""

    gone = False

    def whole(
        self, status: int, headers: CIMultiDict[str], body: bytes | None, reason: str | None = None
    ) -> None:
        """See Send."""

    async def begin(self, status: int, headers: CIMultiDict[str], reason: str | None = None) -> Write:
        """See Send."""
        return _unread

    async def end(self) -> None:
        """See Send."""

    async def break_off(self, error: EngineError) -> None:
        """See Send."""


async def _unread(chunk: bytes) -> None:
    pass
