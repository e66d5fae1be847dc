"""What stands beside a conversation is redacted, never refused."""

from __future__ import annotations

from gateway.keepers.screening import WITHHELD, Screen
from store.admission import Admission
from tests.knobs import admission_settings

KEY = "sk-proj-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGh"


def screen(**changes: object) -> Screen:
    return Screen(Admission(admission_settings(**changes)))


def test_private_data_and_secrets_are_replaced_wherever_they_stand() -> None:
    value = {
        "user": "ann@acme.com",
        "metadata": {"key": KEY, "bob@acme.com": "x", "n": 7},
        "list": [f"say {KEY}", True, None],
    }
    shown, kinds = screen().of(value)
    text = str(shown)
    assert KEY not in text and "ann@acme.com" not in text and "bob@acme.com" not in text
    assert shown["metadata"]["n"] == 7 and shown["list"][1:] == [True, None] and "EMAIL" in kinds


def test_a_password_is_told_by_its_name_and_a_card_number_is_one_without_quotes_too() -> None:
    shown, _ = screen().of({"password": "correct-Horse7!battery", "card": 4111111111111111, "n": 12345678})
    assert shown["password"] != "correct-Horse7!battery" and shown["card"] != 4111111111111111
    assert shown["n"] == 12345678


def test_texts_that_are_known_are_not_screened_again() -> None:
    shown, kinds = screen().of({"content": "Hello", "again": "Hello"}, {"Hello": "[shown]"})
    assert shown == {"content": "[shown]", "again": "[shown]"} and kinds == ()


def test_what_was_clean_is_not_looked_at_again_and_what_was_not_is() -> None:
    one = screen()
    value = {"description": "Ask ann@acme.com.", "name": "mail", "id": "call_Qm7vT2xLr9ZkB4nWc8JdY1hG"}
    first, kinds = one.of(value)
    assert one.of(value) == (first, kinds) and kinds == ("EMAIL",)
    assert first == {"description": "Ask [EMAIL].", "name": "mail", "id": value["id"]}


def test_hostile_texts_come_out_whole() -> None:
    said = {"a": "<script>\x1ealert(1)</script>", "b\x1ec": "\u202eevil", "": ""}
    shown, _ = screen().of(said)
    assert shown["a"] == "<script> alert(1)</script>" and WITHHELD not in str(shown)


def test_where_nothing_is_to_be_found_nothing_is_looked_for() -> None:
    value = {"user": "ann@acme.com", "key": KEY}
    assert screen(secrets="off", private_data="off").of(value) == (value, ())
