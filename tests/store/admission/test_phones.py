"""Phone numbers in the forms people write them, and numbers that are none."""

from __future__ import annotations

import phonenumbers
import pytest

from store.admission.phones import REGIONS, phones


@pytest.mark.parametrize("region", [*REGIONS, "SE", "PL", "MX", "ZA", "KR", "NG"])
@pytest.mark.parametrize("separator", [" ", "-", "."])
def test_an_international_number_is_found_in_every_form(region: str, separator: str) -> None:
    number = phonenumbers.example_number_for_type(region, phonenumbers.PhoneNumberType.MOBILE)
    shown = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.INTERNATIONAL).replace(
        " ", separator
    )
    text = f"You reach me at {shown}."
    assert [text[s.start : s.end] for s in phones(text)] == [shown]


@pytest.mark.parametrize("region", REGIONS)
def test_a_national_number_is_found_where_the_text_says_phone(region: str) -> None:
    number = phonenumbers.example_number_for_type(region, phonenumbers.PhoneNumberType.FIXED_LINE)
    shown = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.NATIONAL)
    text = f"My phone number is {shown}, please call."
    assert [text[s.start : s.end] for s in phones(text)] == [shown]


@pytest.mark.parametrize(
    "text",
    [
        "(415) 555-2671",
        "415-555-2671",
        "415.555.2671",
        "+1 415 555 2671",
        "0044 20 7946 0958",
        "+49 (0) 30 901820",
        "(201) 555-9801 ext. 12",
    ],
)
def test_a_number_in_a_phone_s_own_form_needs_no_word(text: str) -> None:
    assert [text[s.start : s.end] for s in phones(text)] == [text]


@pytest.mark.parametrize(
    "text",
    [
        "order 415 555 2671 has shipped",
        "1710152553 seconds",
        "2024-03-11 10:22:33",
        "11/03/2024",
        "1,250,000.00",
        "12345678901234567890",
        "pages 100-200-3000",
        "$415.555.2671",
        "a415-555-2671",
        "1 2 3 4 5 6 7 8 9 10",
    ],
)
def test_other_numbers_are_not_phones(text: str) -> None:
    assert list(phones(text)) == []
