"""Prompts that begin alike share prefixes, and a table forgets as the server does."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from engines.chat import ChatRequest
from engines.chat_json import read_chat_request
from engines.servers.prefixes import LEAST_TOKENS, Prefix, PrefixTable, prefixes_of

LONG = "You write tests for Python programs. " * 20
BOOK = "It was a bright cold day in April. " * 40


def chat(*messages: tuple[str, Any], **fields: Any) -> ChatRequest:
    body = {"model": "m", "messages": [{"role": role, "content": text} for role, text in messages], **fields}
    return read_chat_request(orjson.dumps(body), body)


def shared(one: tuple[Prefix, ...], other: tuple[Prefix, ...]) -> int:
    """Tokens of the longest common prefix."""
    table = PrefixTable(10**9)
    table.sent(one, 0)
    return table.cached_tokens(other)


def test_two_tasks_of_one_template_share_its_text_up_to_the_variable() -> None:
    one = prefixes_of(chat(("user", f"{LONG}Task: snake")), [(0, len(LONG))])
    other = prefixes_of(chat(("user", f"{LONG}Task: chess")), [(0, len(LONG))])
    assert len(one) == 2
    assert shared(one, other) == one[0].tokens == len(LONG) // 4 + 4
    assert shared(prefixes_of(chat(("user", f"{LONG}Task: snake"))), other) == 0


def test_a_conversation_shares_what_was_said_before() -> None:
    first = prefixes_of(chat(("system", LONG), ("user", BOOK)))
    later = prefixes_of(chat(("system", LONG), ("user", BOOK), ("assistant", LONG), ("user", "Go on.")))
    assert shared(first, later) == first[-1].tokens
    other = prefixes_of(chat(("system", LONG), ("user", LONG)))
    assert shared(first, other) == first[0].tokens


def test_tenants_models_and_tools_share_nothing() -> None:
    asked = chat(("system", LONG))
    mine = prefixes_of(asked, tenant="a")
    assert shared(mine, prefixes_of(asked, tenant="a"))
    assert not shared(mine, prefixes_of(asked, tenant="b"))
    assert not shared(mine, prefixes_of(asked.changed({"model": "other"}), tenant="a"))
    assert not shared(mine, prefixes_of(chat(("system", LONG), tools=[{"type": "function"}]), tenant="a"))


def test_what_is_no_text_counts_too() -> None:
    def seen(url: str) -> tuple[Prefix, ...]:
        parts = [{"type": "text", "text": LONG}, {"type": "image_url", "image_url": {"url": url}}]
        return prefixes_of(chat(("user", parts), ("user", LONG)))

    assert shared(seen("a"), seen("a"))
    assert not shared(seen("a"), seen("b"))
    huge = {"role": "assistant", "content": None, "tool_calls": [{"id": 2**70, "text": "\ud800"}]}
    body = {"model": "m", "messages": [huge, {"role": "user", "content": LONG}]}
    assert prefixes_of(read_chat_request(b"{}", body))


def test_short_prefixes_are_left_out_and_points_are_few() -> None:
    assert prefixes_of(chat(("system", "Be brief."), ("user", "?"))) == ()
    many = prefixes_of(chat(*(("user", LONG) for _ in range(300))))
    assert len(many) == 64
    assert many[0].tokens < many[31].tokens < many[32].tokens < many[-1].tokens


def test_boundaries_that_are_none_do_no_harm() -> None:
    plain = prefixes_of(chat(("user", BOOK)))
    assert prefixes_of(chat(("user", BOOK)), [(0, 0), (0, len(BOOK) + 1), (7, 3), (0, -4)]) == plain


def test_a_prompt_that_is_cut_at_a_boundary_is_the_prefix_of_the_whole() -> None:
    cut = prefixes_of(chat(("system", LONG), ("user", BOOK)), [(1, len(BOOK))])
    whole = prefixes_of(chat(("system", LONG), ("user", f"{BOOK}And then?")), [(1, len(BOOK))])
    assert shared(cut, whole) == whole[1].tokens == cut[-1].tokens
    assert shared(prefixes_of(chat(("system", LONG), ("user", BOOK))), whole) == whole[0].tokens


def test_a_full_table_forgets_what_was_used_least_recently() -> None:
    common = prefixes_of(chat(("system", LONG)))
    apps = [prefixes_of(chat(("system", LONG), ("user", f"{n}{BOOK}"))) for n in range(3)]
    own = apps[0][-1].tokens - common[-1].tokens
    table = PrefixTable(common[-1].tokens + 2 * own + 10)
    for app in apps:
        table.sent(app, app[-1].tokens)
    assert table.cached_tokens(apps[0]) == common[-1].tokens
    assert table.cached_tokens(apps[1]) == apps[1][-1].tokens
    table.forget()
    assert table.cached_tokens(apps[1]) == 0


def test_answers_take_room_too() -> None:
    one, other = prefixes_of(chat(("user", BOOK))), prefixes_of(chat(("user", LONG)))
    table = PrefixTable(1000)
    table.sent(one, one[-1].tokens)
    table.sent(other, 900)
    assert table.cached_tokens(one) == 0


TEXTS = st.text(alphabet="ab", max_size=4).map(lambda text: text * 100)


@given(st.lists(TEXTS, max_size=6), st.lists(TEXTS, max_size=6), st.integers(0, 6))
def test_prefixes_are_equal_exactly_where_the_messages_are(
    one: list[str], other: list[str], common: int
) -> None:
    same = one[:common]
    first = prefixes_of(chat(*(("user", text) for text in one)))
    second = prefixes_of(chat(*(("user", text) for text in [*same, *other])))
    alike = 0
    for a, b in zip(one, [*same, *other], strict=False):
        if a != b:
            break
        alike += len(a) // 4 + 4
    assert shared(first, second) == (alike if alike >= LEAST_TOKENS else 0)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 6), st.integers(0, 300)), max_size=60))
def test_a_table_stays_within_its_bounds(sent: list[tuple[int, int, int]]) -> None:
    table = PrefixTable(1000, most=20)
    for app, length, answer in sent:
        prefixes = tuple(Prefix(f"{app}.{n}".encode(), 70 * (n + 1)) for n in range(length))
        table.sent(prefixes, prefixes[-1].tokens + answer)
        assert len(table) <= 20
        assert table._tokens == sum(tokens for tokens, _ in table._held.values()) <= 1000
        assert table.cached_tokens(prefixes) in (0, *(p.tokens for p in prefixes))


def test_a_providers_cache_forgets_what_was_not_used_for_its_time_to_live_and_holds_nothing_short() -> None:
    now = [0.0]
    table = PrefixTable(10**9, ttl_s=300.0, least_tokens=200, clock=lambda: now[0])
    first, short = prefixes_of(chat(("user", BOOK))), prefixes_of(chat(("user", BOOK[:300])))
    table.sent(first, 0)
    table.sent(short, 0)
    assert (table.cached_tokens(first), table.cached_tokens(short)) == (first[-1].tokens, 0)
    now[0] = 299.0
    table.sent(first, 0)
    now[0] = 598.0
    assert table.cached_tokens(first) == first[-1].tokens
    now[0] = 600.0
    assert table.cached_tokens(first) == 0
