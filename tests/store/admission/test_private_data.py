"""Personal data that has a form is found whole; what only looks like it is left alone."""

from __future__ import annotations

import pytest

from store.admission.private_data import private_data

FOUND = {
    "ann.lee+news@mail.acme.io": "EMAIL",
    "müller@uni-köln.de": "EMAIL",
    "ann (at) acme.io": "EMAIL",
    "ann [at] acme [dot] io": "EMAIL",
    "4111 1111 1111 1111": "CARD",
    "4111-1111-1111-1111": "CARD",
    "378282246310005": "CARD",
    "DE89 3704 0044 0532 0130 00": "IBAN",
    "GB82WEST12345698765432": "IBAN",
    "83.169.12.9": "IP_ADDRESS",
    "2a02:8109:9c40:1e0c:5d3b:77ff:fe12:9a01": "IP_ADDRESS",
    "3c:22:fb:7a:01:9e": "MAC_ADDRESS",
}
HARMLESS = (
    "user@example.com",
    "git@github.com:acme/app.git",
    "icon@2x.png",
    "@app.route('/x')",
    "4111 1111 1111 1112",
    "1234 5678 9012 3456",
    "DE00 3704 0044 0532 0130 00",
    "version 1.2.3.4",
    "10.0.0.1, 127.0.0.1, 192.168.1.7, 203.0.113.9",
    "1.2.3.4.5",
    "std::dec, a::b, 10:22:33",
    "550e8400-e29b-41d4-a716-446655440000",
    "3.14159265358979323846",
    "1710152553123",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "ISBN 978-3-16-148410-0",
    "978316148410011223344",
)


@pytest.mark.parametrize("value", FOUND)
@pytest.mark.parametrize(
    "sentence", ["{}", "My data: {}, thanks.", "I am <{}>", '{{"v": "{}"}}', "Is it {}? Or not.\n"]
)
def test_is_never_left_readable(value: str, sentence: str) -> None:
    text = sentence.format(value)
    found = private_data(text)
    assert [(s.kind, text[s.start : s.end]) for s in found] == [(FOUND[value], value)]


@pytest.mark.parametrize("text", HARMLESS)
def test_look_alikes_are_not_touched(text: str) -> None:
    assert private_data(text) == []


def test_one_value_written_in_two_ways_has_one_key() -> None:
    for one, other in (("4111 1111 1111 1111", "4111111111111111"), ("Ann@Mail.Acme.io", "ann@mail.acme.io")):
        assert private_data(one)[0].key == private_data(other)[0].key


def test_an_iban_ends_where_its_country_says() -> None:
    text = "Pay to DE89 3704 0044 0532 0130 00 BEFORE NOON"
    assert [text[s.start : s.end] for s in private_data(text)] == ["DE89 3704 0044 0532 0130 00"]
