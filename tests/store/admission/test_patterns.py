"""No text makes a detector slow. A pattern that backtracked would hang here until the test's time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from store.admission.credentials import credentials
from store.admission.instructions import instructions
from store.admission.patterns import Pattern, touches_word
from store.admission.private_data import private_data
from tests.knobs import admission_settings

SIZE = 100_000
NASTY = (
    *("a", "1", " ", "(", "é", "-", ".", "\n", "=", "A1b"),
    *(
        "a@",
        "a.",
        "1.",
        "1 ",
        "4111 ",
        "+1 ",
        "A ",
        "12 Aa Aa ",
        "GB82 ",
        "::",
        "2a02:",
        "eyJa.",
        "://a:",
        "%41",
    ),
    *(
        "password=",
        "password is ",
        "-----BEGIN PRIVATE KEY-----",
        "sk-",
        "ignore all ",
        "when you are asked ",
        "<!--",
    ),
    *(
        "i g n ",
        "aGVsbG8gd29y ",
        "from now on ",
        "date of birth ",
        "passport ",
        "\u0301e",
        "a\u00ad",
        "send data to ",
    ),
)


@pytest.mark.parametrize("find", [private_data, credentials, instructions])
@pytest.mark.parametrize("piece", NASTY)
def test_no_text_is_ever_slow(find: Callable[[str], Any], piece: str) -> None:
    nasty = (piece * (SIZE // len(piece) + 1))[:SIZE]
    find(nasty)
    find(nasty + "!")


def test_a_long_search_does_not_stop_the_other_threads() -> None:
    # With the GIL held, the main thread would sleep once or twice until the whole search is over.
    pattern, text = Pattern(r"(?:a+b?)+c"), "ab" * 20_000_000
    done = threading.Event()

    def search() -> None:
        pattern.within(text)
        done.set()

    thread = threading.Thread(target=search)
    thread.start()
    woken = 0
    while not done.is_set():
        time.sleep(0.001)
        woken += 1
    thread.join()
    assert woken > 20


def test_offsets_are_characters_whatever_the_alphabet() -> None:
    text = "ßé漢👩 ann@x.io"
    (match,) = Pattern(r"[a-z]+@[a-z.]+").all(text)
    assert text[match.start() : match.end()] == "ann@x.io"


def test_a_piece_of_a_longer_word_is_told() -> None:
    assert touches_word("x12", 1, 3)
    assert touches_word("12-", 0, 2, also="-")
    assert not touches_word("(12)", 1, 3)


def test_the_defaults_refuse_secrets_and_redact_private_data() -> None:
    settings = admission_settings()
    assert (settings.secrets, settings.private_data, settings.instructions) == ("refuse", "redact", "refuse")
