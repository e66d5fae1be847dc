"""Which members of an error answer are read, and how much of them."""

from __future__ import annotations

import json

from engines.error_texts import Said, error_texts


def test_members_that_say_what_is_wrong_are_read_and_others_are_not() -> None:
    body = json.dumps(
        [{"error": {"message": "no", "code": "x", "input": "mine", "details": [{"reason": "R"}]}}]
    )
    assert error_texts(body.encode()) == [Said("code", "x"), Said("message", "no"), Said("reason", "R")]


def test_json_inside_a_text_is_read_too() -> None:
    body = json.dumps({"message": 'Upstream: {"error": {"message": "no"}}'})
    assert Said("message", "no") in error_texts(body.encode())


def test_what_is_no_json_is_one_text_and_no_text_is_read_to_its_end() -> None:
    assert error_texts(b"Misdirected") == [Said("", "Misdirected")]
    assert (
        len(error_texts(b"x" * 10_000)[0].text)
        == len(error_texts(b'{"message":"%s"}' % (b"x" * 10_000))[0].text)
        < 1000
    )


def test_what_nests_without_end_is_read_to_a_depth() -> None:
    assert error_texts(b'{"error":' * 100 + b'"x"' + b"}" * 100) == []
