"""How a client steers the gateway, request by request."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict

from engines.chat import ChatRequest
from engines.errors import RequestError
from gateway.controls import NONE, read_controls, refuse_unsuited
from router.asked import Controls


def read(fields: dict[str, object] | None = None, **headers: str) -> Controls:
    return read_controls(CIMultiDict({k.replace("_", "-"): v for k, v in headers.items()}), fields or {})


def test_nothing_said_is_nothing_asked() -> None:
    assert read() is NONE
    assert read({"store": True, "model": "m"}, accept="*/*") is NONE


@pytest.mark.parametrize("value", ["no-store", "No-Store", "max-age=0, no-store", "no-store=1"])
def test_no_store_in_every_spelling(value: str) -> None:
    assert read(cache_control=value).no_store is True


def test_store_false_in_the_body_is_no_store() -> None:
    assert read({"store": False}) == Controls(no_store=True)
    assert read({"store": None}).no_store is False
    assert read({"store": 0}).no_store is False


def test_no_cache_reads_nothing_but_may_keep() -> None:
    assert read(cache_control="no-cache") == Controls(no_cache=True)
    assert read(cache_control="no-cache, no-store") == Controls(no_cache=True, no_store=True)


def test_other_directives_mean_nothing_here() -> None:
    assert read(cache_control="max-age=60, x-no-store") == Controls()


def test_an_engine_may_be_named() -> None:
    assert read(x_understudy_engine="big").engine == "big"
    assert read(x_understudy_engine="").engine is None


@pytest.mark.parametrize(("value", "number"), [("0", 0), ("5", 5), ("999", 999)])
def test_examples_are_a_whole_number(value: str, number: int) -> None:
    assert read(x_understudy_examples=value).max_examples == number


@pytest.mark.parametrize("value", ["", "-1", "1.5", "many", "1000", "١", "0x1", " 1"])
def test_anything_else_is_400_and_names_the_header(value: str) -> None:
    with pytest.raises(RequestError) as refused:
        read(x_understudy_examples=value)
    assert refused.value.status == 400 and refused.value.param == "x-understudy-examples"


def test_a_scope_may_be_named() -> None:
    assert read(x_understudy_scope="support v2/de").scope == "support v2/de"
    assert read(x_understudy_scope="s" * 100).scope == "s" * 100


@pytest.mark.parametrize("value", ["", " ", " a", "a ", "s" * 101, "a\tb", "ä"])
def test_a_scope_that_is_no_short_printable_name_is_400(value: str) -> None:
    with pytest.raises(RequestError) as refused:
        read(x_understudy_scope=value)
    assert refused.value.status == 400 and refused.value.param == "x-understudy-scope"


@pytest.mark.parametrize(("text", "dial"), [("0", 0.0), ("1", 1.0), ("0.25", 0.25), ("1e-1", 0.1)])
def test_a_request_may_bring_its_own_dial(text: str, dial: float) -> None:
    assert read(x_understudy_preference=text).preference == dial


@pytest.mark.parametrize("text", ["", "best", "-0.1", "1.01", "nan", "inf", "0." + "1" * 40])
def test_a_dial_that_means_nothing_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="x-understudy-preference"):
        read(x_understudy_preference=text)


def test_a_task_may_be_named_and_what_is_no_name_is_400() -> None:
    assert read(x_understudy_task="support.intent-v2").task == "support.intent-v2"
    for value in ("", "two words", "-a", "t" * 65, "gr\xfcn", "a/b"):
        with pytest.raises(RequestError) as refused:
            read(x_understudy_task=value)
        assert refused.value.status == 400 and refused.value.param == "x-understudy-task"


def test_a_task_named_for_a_request_that_can_be_none_is_400_with_the_field() -> None:
    chat = ChatRequest(
        b"", {"tools": [{}]}, "m", [{"role": "user", "content": "a"}], stream=False, include_usage=False
    )
    refuse_unsuited(read(), chat)
    with pytest.raises(RequestError, match="offers tools") as refused:
        refuse_unsuited(read(x_understudy_task="intent"), chat)
    assert refused.value.status == 400 and refused.value.param == "tools"
