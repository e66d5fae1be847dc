"""Numbers of persons, papers and accounts: by form and check digits, or by the word before them."""

from __future__ import annotations

import pytest

from store.admission.national_ids import national_ids


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("536-90-4399 is mine", "536-90-4399"),
        ("SSN 536904399", "536904399"),
        ("CPF 390.533.447-05", "390.533.447-05"),
        ("DNI 54362315K", "54362315K"),
        ("codice fiscale RCCMNL83S18D969H", "RCCMNL83S18D969H"),
        ("NI number AB 12 34 56 C", "AB 12 34 56 C"),
        ("NIR 2 95 10 99 126 111 93", "2 95 10 99 126 111 93"),
        ("AHV 756.9217.0769.85", "756.9217.0769.85"),
        ("hetu 131052-308T", "131052-308T"),
        ("personnummer 880320-0016", "880320-0016"),
        ("RRN 971013-9019902", "971013-9019902"),
        ("CURP BOXW310820HNERXN09", "BOXW310820HNERXN09"),
        ("PAN ACUPA7085R", "ACUPA7085R"),
        ("RIC 360426199101010071", "360426199101010071"),
        ("BSN 111222333", "111222333"),
        ("PESEL 44051401359", "44051401359"),
        ("Steuer-ID 36 574 261 809", "36 574 261 809"),
        ("SIN 123-456-782", "123-456-782"),
        ("tax file number 123 456 782", "123 456 782"),
        ("NHS number 943 476 5870", "943 476 5870"),
        ("NIE X5253868R", "X5253868R"),
        ("Aadhaar 2345 6789 0124", "2345 6789 0124"),
        ("passport number C01X00T47", "C01X00T47"),
        ("ID card number 125853979", "125853979"),
        ("Driver's license: D123-4567-8901", "D123-4567-8901"),
        ("account number: 4711 0815", "4711 0815"),
        ("sort code 12-34-56", "12-34-56"),
        ("routing 111000025", "111000025"),
    ],
)
def test_is_never_left_readable(text: str, value: str) -> None:
    assert value in [text[s.start : s.end] for s in national_ids(text)]


@pytest.mark.parametrize(
    "text",
    [
        "666-12-3456",
        "000-12-3456",
        "123456789 rows",
        "the passport office opens on 2024-03-11",
        "account for 1250 users",
        "build 22631.3155",
        "the licence costs 120 euros",
        "390.533.447-06",
    ],
)
def test_look_alikes_are_not_touched(text: str) -> None:
    assert list(national_ids(text)) == []
