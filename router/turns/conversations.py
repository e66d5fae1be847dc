"""Finds the conversation that a request goes on with, and keeps what is believed of it: who answered, and what engines hold.

A conversation is known by what was asked before: a prompt that begins with an earlier one goes on with its conversation.
Where the history was rewritten, the client's name for it tells. Each worker knows those that it answered.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cachetools import LRUCache

from engines.chat import ChatRequest, Usage
from engines.engine import Engine, EngineInfo
from engines.servers.prefixes import Prefix, PrefixTable, prefixes_of
from engines.servers.sessions import Places, named_key
from router.digest import amid_tools, scope
from router.plan import Ask, Candidate
from router.prompt import with_examples
from router.turns.lasting import Lasting
from router.turns.naming import named_by
from router.turns.turn import Turn

IDLE_S = 600.0
"""A conversation without a turn for so long has ended: nobody's cache holds it."""
_MOST = 10_000
"""Conversations that are remembered."""
_SCOPES = 1000
_LEAST_TOKENS = 1024
"""Providers cache no shorter prompt."""
_KV_TOKENS = 200_000
"""Of an engine that does not tell how large its memory is; as engines.servers.placing."""
_HELD = 2**15
"""Beginnings that are remembered for one engine: some 5 MB."""
_ANSWER_TOKENS = 256
"""Of an engine that has not answered yet."""
_RATE = 0.1
"""Weight of the latest answer in what is believed of an engine's cache."""


@dataclass(slots=True)
class _Conversation:
    key: str
    lasting: Lasting
    """Of conversations like it."""
    at_s: float
    turns: int = 0
    engine: str = ""
    tokens: int = 0
    """Of its latest prompt, estimated."""
    before: tuple[int, float] = (0, math.inf)
    """The same of the prompt before that, and the seconds between the two."""
    examples: tuple[Candidate, ...] = ()
    caching: dict[str, float] = field(default_factory=dict)
    """By engine, what its last answer told of its cache, as Turn.caching."""


class Conversations:
    """Those of one worker, bounded in number and time. Thread-safe."""

    def __init__(self, engines: Mapping[str, Engine], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._engines = engines
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Conversation] = OrderedDict()
        """By key, the one that was longest without a turn first."""
        self._begun = 0
        self._by_prompt = Places(4 * _MOST)
        """Keys by the digest of a whole prompt that was asked, and the end user."""
        self._by_name = Places(_MOST)
        self._lasting: LRUCache[tuple[str, str], Lasting] = LRUCache(_SCOPES)
        self._infos: dict[str, EngineInfo] = {}
        self._tables: dict[str, PrefixTable] = {}
        self._caching: dict[str, float] = {}
        """By engine, the mean over conversations of what Turn.caching says."""

    def placed(self, ask: Ask, ways: Sequence[str]) -> Ask:
        """The request with its turn, and with the examples that its conversation has. `ways`: the model's engines, from
        small to large. Time is linear in the prompt: 1 ms for about 100 KB, and of instructions that are new 10 ms."""
        prefixes = prefixes_of(ask.chat, tenant=ask.tenant, least_tokens=1)
        name = named_by(ask.named_session, ask.chat.own_fields)
        with self._lock:
            now = self._clock()
            self._end(now)
            known = self._conversation(ask, prefixes, name, now)
            turn = self._turn(ask, prefixes, known, ways)
            return replace(ask, turn=turn, examples=known.examples)

    def joined(
        self, ask: Ask, ways: Sequence[str], turns: int, engine: str, prompt_tokens: int, age_s: float
    ) -> Ask:
        """The request placed anew, where another worker answered its conversation later than this one did.

        `turns`: answers so far. `engine`, a prompt of so many tokens, so long ago: the latest of them.
        """
        turn = ask.turn
        with self._lock:
            known = self._known.get(turn.key) if turn is not None else None
            if known is None or turn is None or known.before[1] <= age_s:
                return ask
            known.engine, known.turns, known.before = engine, turns, (prompt_tokens, age_s)
            return replace(ask, turn=self._turn(ask, turn.prefixes, known, ways, elsewhere=True))

    def decided(self, turn: Turn, *, wanted: bool) -> None:
        """Learn whether a smaller engine would have answered, had the turn stood alone."""
        with self._lock:
            if (known := self._known.get(turn.key)) is not None:
                known.lasting.decided(wanted=wanted, in_tool_loop=turn.in_tool_loop)

    def answered(
        self,
        turn: Turn,
        engine: str,
        chat: ChatRequest,
        tenant: str,
        usage: Usage | None,
        examples: tuple[Candidate, ...] = (),
    ) -> None:
        """Note who answered, and correct what is believed of its cache by what it told. `chat`: as it was sent."""
        prefixes = turn.prefixes if not examples else prefixes_of(chat, tenant=tenant, least_tokens=1)
        if engine not in self._engines:
            # A student, which reads no prompt.
            return
        with self._lock:
            known = self._known.get(turn.key)
            table = self._table(engine)
            believed = table.cached_tokens(prefixes)
            if known is not None:
                known.engine = engine
                if turn.number == known.turns:
                    known.turns += 1
                    known.lasting.has(known.turns)
                if examples and not known.examples:
                    # Their texts are what is sent again; their vectors would take three times as much memory.
                    known.examples = tuple(replace(c, vector=None, answer_vector=None) for c in examples)
            if usage is None or usage.estimated or not prefixes:
                return
            told = self._told(engine, usage, believed / max(1, prefixes[-1].tokens))
            if told is not None:
                before = self._caching.get(engine, 1.0)
                self._caching[engine] = before + _RATE * (told - before)
                if known is not None:
                    known.caching[engine] = told
            table.sent(prefixes, prefixes[-1].tokens + usage.completion_tokens)

    def _conversation(self, ask: Ask, prefixes: tuple[Prefix, ...], name: str, now: float) -> _Conversation:
        named = named_key(ask.tenant, f"{ask.end_user}\0{name}") if name else b""
        user = ask.end_user.encode()
        known = self._known.pop(self._key_before(ask, prefixes, user, named) or "", None)
        tokens = prefixes[-1].tokens if prefixes else 0
        if known is None:
            self._begun += 1
            known = _Conversation(str(self._begun), self._lasting_of(ask), now, tokens=tokens)
        else:
            known.before = known.tokens, now - known.at_s
            known.lasting.went_on(known.before[1], tokens - known.tokens)
        known.at_s, known.tokens = now, tokens
        self._known[known.key] = known
        if prefixes:
            self._by_prompt.put(prefixes[-1].digest + user, known.key)
        if named:
            self._by_name.put(named, known.key)
        return known

    def _key_before(self, ask: Ask, prefixes: tuple[Prefix, ...], user: bytes, named: bytes) -> str | None:
        """The key of the conversation that the request goes on with; None where it begins one."""
        if "assistant" not in [message.get("role") for message in ask.chat.messages]:
            # What a named conversation begins anew, such as a task of its own, has its own caches.
            return None
        for prefix in reversed(prefixes[:-1]):
            key = self._by_prompt.get(prefix.digest + user)
            if key is not None:
                return key
        return self._by_name.get(named)

    def _turn(
        self,
        ask: Ask,
        prefixes: tuple[Prefix, ...],
        known: _Conversation,
        ways: Sequence[str],
        *,
        elsewhere: bool = False,
    ) -> Turn:
        """`elsewhere`: another worker sent the turn before."""
        lasting, tokens = known.lasting, known.tokens
        caching = {
            name: believed for name in ways if (believed := self._believed(self._info(name), known, tokens))
        }
        held = self._held(prefixes, caching) if caching else {}
        if elsewhere and caching:
            held[known.engine] = self._held_of_last(known, known.engine, held, caching)
        held_with = self._held_with(ask, known, prefixes, held, caching) if caching else {}
        engine = known.engine if known.engine in ways else ""
        in_tool_loop = amid_tools(ask.chat.messages)
        turn = Turn(
            known.key,
            known.turns,
            engine,
            in_tool_loop,
            prefixes,
            tokens,
            held,
            held_with,
            self._held_of_last(known, ways[-1], held, caching) if caching else 0.0,
            caching,
            lasting.ahead(known.turns),
            lasting.added_tokens,
            self._leaving_usd(known, held[engine]) if held.get(engine) else 0.0,
        )
        if not engine and not in_tool_loop:
            return turn
        return replace(turn, kept_out=self._kept_out(turn, ways))

    def _held_of_last(
        self,
        known: _Conversation,
        engine: str,
        held: Mapping[str, float],
        caching: Mapping[str, float],
    ) -> float:
        """The tokens that an engine holds if it answered the turn before."""
        (tokens, pause_s), ttl_s = known.before, self._info(engine).cache_ttl_s
        of_last = min(tokens, known.tokens) * caching.get(engine, 0.0)
        return max(held.get(engine, 0.0), 0.0 if ttl_s is not None and pause_s > ttl_s else of_last)

    def _held(self, prefixes: Sequence[Prefix], caching: Mapping[str, float]) -> dict[str, float]:
        return {
            name: self._table(name).cached_tokens(prefixes) * believed for name, believed in caching.items()
        }

    def _held_with(
        self,
        ask: Ask,
        known: _Conversation,
        prefixes: tuple[Prefix, ...],
        held: Mapping[str, float],
        caching: Mapping[str, float],
    ) -> Mapping[str, float]:
        if known.examples and caching:
            shown = replace(ask.chat, messages=with_examples(ask.chat.messages, known.examples))
            return self._held(prefixes_of(shown, tenant=ask.tenant, least_tokens=1), caching)
        if not any(held.values()):
            return held
        # Examples stand behind the instructions: that much of the prompt stays as it is.
        lead = _lead_tokens(ask.chat, prefixes)
        return {name: min(lead, tokens) for name, tokens in held.items()}

    def _leaving_usd(self, known: _Conversation, held: float) -> float:
        """What is paid anew for what an engine holds, times the chance that it is asked again when it has forgotten it."""
        info, lasting = self._info(known.engine), known.lasting
        more, wanted = lasting.more_turns(known.turns), lasting.share_wanted()
        if info.cache_ttl_s is None:
            return 0.0
        goes_on = more / (1.0 + more)
        away, turns = goes_on * wanted, info.cache_ttl_s / max(1.0, lasting.pause_s)
        comes_back = goes_on * (1.0 - wanted) * math.pow(away, turns) / (1.0 - away)
        anew = info.price.compared_usd(held, 0, 0, held) - info.price.compared_usd(held, 0, held)
        return comes_back * anew

    def _kept_out(self, turn: Turn, ways: Sequence[str]) -> frozenset[str]:
        if turn.in_tool_loop:
            return frozenset(name for name in ways[:-1] if name != turn.engine)
        smaller = ways[: ways.index(turn.engine)]

        def usd(name: str) -> float:
            tokens = self._engines[name].load().answer_tokens or _ANSWER_TOKENS
            return turn.cost_usd(name, self._info(name).price, tokens)

        stays = usd(turn.engine)
        return frozenset(name for name in smaller if usd(name) >= stays)

    def _info(self, engine: str) -> EngineInfo:
        # Not asked of the engine each time: what is read of it here does not change.
        info = self._infos.get(engine)
        if info is None:
            info = self._infos[engine] = self._engines[engine].info
        return info

    def _believed(self, info: EngineInfo, known: _Conversation, tokens: int) -> float:
        if info.cache_ttl_s == 0 or (info.cache_ttl_s is not None and tokens < _LEAST_TOKENS):
            return 0.0
        return known.caching.get(info.name, self._caching.get(info.name, 1.0))

    def _told(self, engine: str, usage: Usage, believed: float) -> float | None:
        """The share of what could be cached that was, by an answer; None where it does not tell.

        `believed`: the share of the prompt that the cache was believed to hold.
        """
        prompt = usage.prompt_tokens
        if self._info(engine).price.cache_write_usd_per_mtok is not None and prompt >= _LEAST_TOKENS:
            # Who charges for writing tells both, and together they are all that is cached.
            return min(1.0, (usage.cached_tokens + usage.cache_write_tokens) / prompt)
        if believed <= 0.0 or not prompt:
            return None
        return min(1.0, usage.cached_tokens / prompt / believed)

    def _table(self, engine: str) -> PrefixTable:
        table = self._tables.get(engine)
        if table is None:
            ttl_s = self._info(engine).cache_ttl_s
            hosted = ttl_s is not None
            table = self._tables[engine] = PrefixTable(
                math.inf if hosted else _KV_TOKENS,
                _HELD,
                ttl_s=math.inf if ttl_s is None else ttl_s,
                least_tokens=_LEAST_TOKENS if hosted else 0,
                clock=self._clock,
            )
        if table.capacity_tokens != math.inf:
            table.capacity_tokens = self._engines[engine].load().kv_tokens or _KV_TOKENS
        return table

    def _lasting_of(self, ask: Ask) -> Lasting:
        key = ask.tenant, scope(ask.chat, named=ask.named_scope)
        lasting = self._lasting.get(key)
        if lasting is None:
            lasting = self._lasting[key] = Lasting()
        return lasting

    def _end(self, now: float) -> None:
        """Forget conversations that ended."""
        while self._known:
            key, oldest = next(iter(self._known.items()))
            if now - oldest.at_s < IDLE_S and len(self._known) < _MOST:
                return
            del self._known[key]


def _lead_tokens(chat: ChatRequest, prefixes: Sequence[Prefix]) -> int:
    """Tokens of the leading system messages, tools included; 0 where they end at no prefix that is known."""
    lead = 0
    while lead < len(chat.messages) and chat.messages[lead].get("role") in ("system", "developer"):
        lead += 1
    return prefixes[lead - 1].tokens if lead and len(prefixes) == len(chat.messages) else 0
